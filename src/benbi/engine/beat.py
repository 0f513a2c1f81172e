"""The worker's heart: a thread that beats, reconciles and stops when the worker is half dead.

A beat is a counter. Each one reads the rows that the worker holds: loss detection, repair of
claims that nobody runs, and delivery of cancels are this one query. The thread has a connection
of its own and needs neither the loop nor the store's writer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from benbi.engine.patience import Trouble
from benbi.store.database import Database, Session
from benbi.store.workers import Held, beat

log = logging.getLogger("benbi.worker")

LOOP_NAMED_SECONDS = 1.0
# For each statement of a beat: a server that takes longer does not confirm in time.
BEAT_SECONDS = 3.0


class Beating(Protocol):
    """What the heart asks of its worker; called in the heart's thread.

    ``worker_n`` says which registration a beat was for: a worker that was buried has a new one.
    """

    def reconcile(self, worker_n: int, held: dict[int, Held]) -> None: ...
    def buried(self, worker_n: int) -> None: ...
    def half_dead(self, why: str) -> None: ...
    def ping(self, answer: Callable[[], None]) -> None: ...
    def stalled(self) -> float | None: ...


class Heart:
    """Beats every ``heartbeat_timeout / 5`` seconds until it is stopped."""

    def __init__(
        self,
        database: Database,
        worker_n: int,
        worker: Beating,
        *,
        heartbeat_timeout: float,
        loop_block_limit: float,
    ) -> None:
        self._database = database
        self._worker_n = worker_n
        self._worker = worker
        self._timeout = heartbeat_timeout
        self._block_limit = loop_block_limit
        self._stopping = threading.Event()
        self._session: Session | None = None
        self._turned = time.monotonic()
        self._asked = False
        self._named = False
        self._trouble = Trouble(log, "a beat failed", "beats are heard again")
        self.confirmed = time.monotonic()
        self._works_since: float | None = self.confirmed
        self._thread = threading.Thread(target=self._run, name="benbi-beat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Beats no more, from the next one on."""
        self._stopping.set()

    def stop(self, patience: float) -> None:
        """Ends it, and waits until it has: so many seconds, as a beat may be waiting for a
        database that does not answer."""
        self.end()
        self._thread.join(timeout=max(0.0, patience))

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._timeout / 5):
                why = self._sick()
                if why is not None:
                    self._worker.half_dead(why)
                    return
                if not self._beat():
                    return
        finally:
            if self._session is not None:
                self._session.close()

    def _beat(self) -> bool:
        """False where the worker was buried."""
        try:
            self._session = self._session or self._database.connect(BEAT_SECONDS)
            with self._session.write() as tx:
                held = beat(tx, self._worker_n)
        except Exception as error:
            self._trouble.begins(error)
            self._works_since = None
            return True
        self._trouble.is_over()
        if held is None:
            self._worker.buried(self._worker_n)
            return False
        self.confirmed = time.monotonic()
        if self._works_since is None:
            self._works_since = self.confirmed
        self._worker.reconcile(self._worker_n, held)
        return True

    def _sick(self) -> str | None:
        """Why this worker must stop beating: a broken worker must not look alive."""
        blocked = time.monotonic() - self._turned if self._asked else 0.0
        if blocked > self._block_limit:
            return f"the event loop has not turned for {blocked:.0f} s"
        if blocked > max(LOOP_NAMED_SECONDS, self._timeout / 5) and not self._named:
            self._named = True
            log.warning(
                "the event loop has been blocked for %.1f s: a task calls something that blocks; "
                "use a plain def task, or a step of a plain function",
                blocked,
            )
        stalled = self._worker.stalled()
        if stalled is not None and min(stalled, self._worked_for()) > self._timeout:
            return f"no write was done for {stalled:.0f} s while the beat's connection works"
        if not self._asked:
            self._asked = True
            self._turned = time.monotonic()
            self._worker.ping(self._answer)
        return None

    def _worked_for(self) -> float:
        """For how long the beat's connection has worked: after an outage, the others need a
        moment as well."""
        now = time.monotonic()
        if self._works_since is None or now - self.confirmed >= self._timeout / 2:
            return 0.0
        return now - self._works_since

    def _answer(self) -> None:
        self._asked = False
        self._named = False
