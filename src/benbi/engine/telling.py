"""What an attempt tells on its way: progress, partial results, log lines.

Progress is merged: what is no event waits for the next write or the next second.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from benbi.engine.joblog import FLUSH_SECONDS, Lines
from benbi.errors import ClaimLost, PayloadTooLarge
from benbi.job import Claim
from benbi.loops import call_in_loop
from benbi.secret import hide
from benbi.store.batcher import Ticket
from benbi.store.lifecycle import Accepted, Told, Write, as_json
from benbi.store.recorded import Recorded
from benbi.store.store import Store

log = logging.getLogger("benbi.job")

# Progress that is no event is written at most this often; news of a stage no oftener than that.
SNAPSHOT_SECONDS = 1.0
STAGE_SECONDS = 0.25


class Telling:
    """The part of an attempt that tells. Safe in threads."""

    claim: Claim
    store: Store
    recorded: Recorded
    max_payload: int
    _loop: asyncio.AbstractEventLoop
    _interrupt: Callable[[Any, str], None]
    _lock: threading.Lock
    _stop: str | None = None
    _ended = False
    # Progress waits here for the next write or the next second.
    _events: tuple[Told, ...] = ()
    _snapshot: tuple[float, float | None, str] | None = None
    _told: tuple[float, float | None, str] | None = None
    _told_at = -math.inf
    _flush_planned = False
    _partials = 0
    _lines: Lines | None = None
    _logged_at = -math.inf

    def _next(self) -> Write:
        raise NotImplementedError

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Queues a report: an event where the stage or a tenth of the way is new."""
        message = hide(str(message)).encode(errors="replace").decode()
        report = (float(done), None if total is None else float(total), message)
        text = as_json({"done": _plain(done), "total": _plain(total), "message": message})
        with self._lock:
            furthest = self.recorded.furthest.get(report[1])
            if text in self.recorded.progress or (furthest is not None and report[0] < furthest):
                # Replay: this far the job was before, and whoever watches knows it.
                self._told = report
                return
            self._snapshot = report
            if self._worth_an_event(report):
                self._events += (Told("progress", None, text),)
                self._told, self._told_at = report, time.monotonic()
                delay = 0.0
            else:
                delay = SNAPSHOT_SECONDS
            if self._flush_planned and delay:
                return
            self._flush_planned = True
        self._plan_flush(delay)

    def _worth_an_event(self, report: tuple[float, float | None, str]) -> bool:
        if self._told is None:
            return True
        (done, total, message), (before, before_total, said) = report, self._told
        # At most ten of a total, however often and in whichever order they are reported.
        if total and total == before_total and int(10 * done / total) > int(10 * before / total):
            return True
        stage_is_new = (total, message) != (before_total, said)
        return stage_is_new and time.monotonic() - self._told_at >= STAGE_SECONDS

    def _plan_flush(self, delay: float) -> None:
        if not delay:
            self.flush()
            return

        call_in_loop(self._loop, self._loop.call_later, delay, self.flush)

    def logged(self, record: logging.LogRecord) -> None:
        """Keeps what was logged inside the job. Without the lock: who holds it may log, too."""
        if self._ended:
            return
        if self._lines is None:
            self.__dict__.setdefault("_lines", Lines())
        assert self._lines is not None
        self._lines.add(record)
        if not self._flush_planned:
            self._flush_planned = True
            self._plan_flush(FLUSH_SECONDS)

    def _log_is_due(self) -> bool:
        # A timer may be a little early, and there is no other after it.
        return time.monotonic() - self._logged_at > 0.9 * FLUSH_SECONDS

    def flush(self) -> None:
        """Hands pending progress, and what was logged, to the store without waiting."""
        with self._lock:
            self._flush_planned = False
            news = self._events or self._snapshot is not None
            if not news and self._lines is not None:
                news = self._log_is_due() and self._lines.waiting
            if self._ended or self._stop or not news:
                return
            self.store.post(self._next(), self.hear)

    def partial_is_new(self, text: str) -> bool:
        """False where replay says again what stands in the log at this place."""
        self.fits("a partial result", text)
        with self._lock:
            place, self._partials = self._partials, self._partials + 1
        known = self.recorded.partials
        return place >= len(known) or known[place] != text

    def fits(self, what: str, text: str) -> None:
        """Raises PayloadTooLarge."""
        size = len(text) if text.isascii() else len(text.encode())
        if size > self.max_payload:
            raise PayloadTooLarge(what, size, self.max_payload)

    # What the store said.

    def hear(self, ticket: Ticket) -> None:
        """What the store said to a write that nobody waits for."""
        outcome = ticket.value
        if isinstance(outcome, ClaimLost):
            call_in_loop(self._loop, self._interrupt, self, "lost")
        elif isinstance(outcome, BaseException):
            log.warning("job %s: a progress report was not stored: %s", self.claim.job_id, outcome)
        else:
            self.mind(outcome)

    def mind(self, accepted: Accepted) -> None:
        """A cancel that the store mentioned reaches the body at once."""
        if accepted.cancel_requested and self._stop is None:
            call_in_loop(self._loop, self._interrupt, self, "canceled")


def _plain(number: float | None) -> float | None:
    """As it came where JSON knows its type; numpy's integers and the like as floats."""
    return number if number is None or isinstance(number, int | float) else float(number)  # pyright: ignore[reportUnnecessaryIsInstance]
