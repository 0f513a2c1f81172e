"""One attempt of one job: its fence, its writes in order, and what replay already knows.

Shared by the async and the sync Context and safe in threads; it decides nothing about outcomes.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from benbi.engine.telling import Telling
from benbi.engine.uses import Identity, Uses, current_step
from benbi.errors import Abandon, StepChanged, Suspend, UseWait
from benbi.job import Claim, NewJob
from benbi.loops import call_in_loop
from benbi.outcome import Decision, Snoozed, Suspended
from benbi.store.batcher import Ticket
from benbi.store.lifecycle import Accepted, Asked, StepRecord, Told, Write
from benbi.store.recorded import Recorded
from benbi.store.store import Store

# The attempt whose code is running here: job.result() inside a job must know.
current: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar(
    "benbi_attempt", default=None
)


class Attempt(Telling):
    """What one claim may still do, and what it has told so far.

    Made by the worker; given to the task as its Context. What most attempts never use stands on
    the class until it is set: thousands are made each second.
    """

    # The asyncio task that runs it; body: the same while an async body runs, which only then
    # may be canceled.
    task: asyncio.Task[None] | None = None
    body: asyncio.Task[None] | None = None
    # Runs the body within what @app.around registered; None where nothing is.
    around: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Awaitable[Any]] | None = None
    # Where another process runs the body: told of a stop, and given this longer to obey it.
    on_stop: Callable[[str], None] | None = None
    allowance = 0.0
    # Made by the first thread that waits for it.
    _stopped: threading.Event | None = None
    _uses: Uses | None = None
    _number = 0
    # Suspension: what to ask, what to record with it, how long to wait.
    _asked: tuple[Asked, ...] = ()
    _suspending_steps: tuple[StepRecord, ...] = ()
    _wake_in: float | None = None
    _snooze: Snoozed | None = None
    _awaited: tuple[bytes, ...] = ()
    # Log lines that come with its end from another process.
    _adopted: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    _suspended_within: Identity | None = None

    def __init__(
        self,
        claim: Claim,
        store: Store,
        recorded: Recorded,
        *,
        max_payload: int,
        loop: asyncio.AbstractEventLoop,
        interrupt: Callable[[Attempt, str], None],
    ) -> None:
        self.claim = claim
        self.recorded = recorded
        self.max_payload = max_payload
        self.branches: set[asyncio.Task[Any]] = set()
        self.steps_under_way: set[asyncio.Task[Any]] = set()
        self.store = store
        self._loop = loop
        self._interrupt = interrupt
        self._lock = threading.Lock()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs it."""
        return self._loop

    @property
    def uses(self) -> Uses:
        """Which uses of names this attempt has made."""
        with self._lock:
            self._uses = self._uses or Uses()
            return self._uses

    # Ending.

    @property
    def stop(self) -> str | None:
        """Why the body should end: canceled, timeout, drain or lost; None: go on."""
        return self._stop

    def ask_to_stop(self, reason: str) -> bool:
        """Notes the first reason to stop; False where there was one before."""
        with self._lock:
            first = self._stop is None
            self._stop = self._stop or reason
            if self._stopped is not None:
                self._stopped.set()
        if first and self.on_stop is not None:
            self.on_stop(reason)
        return first

    def pause(self, seconds: float) -> None:
        """Waits in a thread; cut short by a stop."""
        with self._lock:
            stopped = self._stopped = self._stopped or threading.Event()
            if self._stop is not None:
                return
        stopped.wait(seconds)

    def end(self) -> bool:
        """True for the first caller only: a claim comes to exactly one outcome. In the loop."""
        first, self._ended = not self._ended, True
        return first

    @property
    def ended(self) -> bool:
        """True once the outcome is known; its record may still be under way."""
        return self._ended

    @property
    def suspended(self) -> Suspended | Snoozed | None:
        """How the attempt was suspended, whatever the body made of it afterwards."""
        if self._asked:
            return Suspended(asks=True)
        if self._snooze is not None:
            return self._snooze
        if self._wake_in is not None:
            return Suspended(asks=False, wake_in=self._wake_in)
        return Suspended(asks=False, awaits=True) if self._awaited else None

    def check(self) -> None:
        """Raises where the body must not go on: Suspend, or Abandon after a stop."""
        if self.suspended is not None:
            raise Suspend
        if self.stop is not None:
            raise Abandon(self.stop)
        if self._ended:
            raise Abandon("ended")

    # Writes.

    def write(
        self,
        *,
        events: Sequence[Told] = (),
        steps: Sequence[StepRecord] = (),
        also: Sequence[tuple[str, Mapping[str, Any]]] = (),
        adds: Sequence[NewJob] = (),
        loop: asyncio.AbstractEventLoop | None = None,
        size: int = 0,
    ) -> Ticket:
        """Queues a fenced write, pending progress first. Its ticket may raise ClaimLost."""
        with self._lock:
            if self._ended:
                # What the body left behind goes on; the finish is the claim's last write.
                raise Abandon("ended")
            write = self._next(events, steps)
            write.also = (*write.also, *also)
            write.adds = adds
            return self.store.record(write, size, loop)

    def final_write(self, decision: Decision) -> Write:
        """The finish; it carries whatever progress is still pending."""
        write = self.rest()
        write.decision = decision
        # A branch that sleeps goes first: the others wait anew when it is over.
        write.awaited = self._awaited if decision.state == "waiting" else ()
        return write

    def relay(self, write: Write, size: int) -> Ticket:
        """Queues what this attempt's body, in another process, writes."""
        with self._lock:
            self._snapshot = write.progress or self._snapshot
        return self.write(
            events=write.events, steps=write.steps, also=write.also, loop=self._loop, size=size
        )

    def rest(self) -> Write:
        """What the finish will bring beside its decision: taken from an attempt elsewhere …"""
        with self._lock:
            write = self._next(steps=self._suspending_steps, last=True)
            write.questions = self._asked
            write.also = (*write.also, *self._adopted)
            return write

    def adopt(self, rest: Write) -> None:
        """… and given to the one that finishes."""
        with self._lock:
            self._events += tuple(rest.events)
            self._snapshot = rest.progress or self._snapshot
            self._suspending_steps, self._asked = tuple(rest.steps), tuple(rest.questions)
            self._adopted = tuple(rest.also)

    def _next(
        self, events: Sequence[Told] = (), steps: Sequence[StepRecord] = (), last: bool = False
    ) -> Write:
        self._number += 1
        write = Write(self.claim, self._number, (*self._events, *events), steps)
        write.progress, self._events, self._snapshot = self._snapshot, (), None
        if self._lines is not None and (last or self._log_is_due()):
            self._logged_at = time.monotonic()
            write.also = self._lines.taken()
        return write

    # Replay.

    def recall(self, identity: Identity, fingerprint: bytes, on_change: str) -> StepRecord | None:
        """What was recorded for this use; StepChanged where it belongs to another call."""
        found = self.uses.recorded(identity) or self.recorded.steps.get(identity)
        if found is None or found.state != "completed":
            return found
        if found.fingerprint != fingerprint:
            if on_change == "rerun":
                return None
            if on_change != "keep":
                kind, name, use = identity
                raise StepChanged(
                    f"{kind} {name!r} ({use}) was recorded with other arguments or another "
                    f"function (recorded {found.fingerprint.hex()[:8]}, "
                    f"now {fingerprint.hex()[:8]}); "
                    'use on_change="keep" or "rerun", or retry the job with fresh steps'
                )
        return found

    def recorded_now(self, accepted: Accepted, steps: Iterable[StepRecord]) -> Accepted:
        """Keeps what was just recorded for the calls of it that this attempt may still make."""
        self.mind(accepted)
        for step in steps:
            self.uses.remember(step)
        return accepted

    def key_of(self, identity: Identity | None) -> str:
        """A stable idempotency key: of the job in this generation, or of one of its steps."""
        key = f"{self.claim.job_id}:{self.claim.generation}"
        return key if identity is None else ":".join((key, *identity))

    # Suspension.

    def suspend(
        self,
        *,
        asked: Asked | None = None,
        step: StepRecord | None = None,
        wake_in: float | None = None,
        snooze: Snoozed | None = None,
        awaits: bytes | None = None,
    ) -> None:
        """Notes why the job waits, then raises Suspend. From then on the Context is closed."""
        with self._lock:
            if asked is not None and all(known.key != asked.key for known in self._asked):
                self._asked += (asked,)
            if step is not None:
                self._suspending_steps += (step,)
            if wake_in is not None:
                self._wake_in = wake_in if self._wake_in is None else min(self._wake_in, wake_in)
            if snooze is not None:
                self._snooze = snooze
            if awaits is not None:
                self._awaited += (awaits,)
            self._suspended_within = current_step.get() or self._suspended_within
        if self.body is not None and asyncio.current_task() is not self.body:
            # The body may be waiting for what this branch will not do any more.
            grace = self.claim.grace / 1e6
            call_in_loop(self._loop, self._loop.call_later, grace, self._unwind)
        raise Suspend

    def refuse_caught(self, step: Identity) -> None:
        """Raises Suspend again where this step caught its own: what it returned is no result."""
        if step == self._suspended_within:
            raise Suspend

    def _unwind(self) -> None:
        if self.body is not None:
            self.body.cancel()

    def forget_suspension(self) -> None:
        """The database refuses what was to be recorded with it: the finish goes without."""
        with self._lock:
            self._asked = self._suspending_steps = ()
            self._awaited = ()

    def answer_to(self, key: str, fingerprint: bytes, on_change: str = "fail") -> str | None:
        """The recorded answer; None while the question is open or was never asked."""
        found = self.recorded.answers.get(key)
        if found is None:
            return None
        known, answer = found
        if known != fingerprint and on_change == "fail":
            raise StepChanged(f"question {key!r} was asked before with another text or type")
        return answer


def refuse_inside_a_job(what: str) -> None:
    """Raises UseWait where a task's own code waits for other jobs in a way that holds its slot."""
    if current.get() is not None:
        raise UseWait(
            f"{what} inside a job would hold its slot meanwhile, and a full worker would wait "
            "for itself: use ctx.wait(job), which frees the slot"
        )
