"""The slots of a worker: each runs one job from its claim to its finish.

A slot is free again only after the finish is durable. A body that should end is asked first
(async: canceled; a thread: told), and abandoned when its grace is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from benbi.engine.attempt import Attempt
from benbi.engine.children import Children
from benbi.engine.execute import execute, timed_out
from benbi.engine.failure import class_of, message_of
from benbi.engine.journal import Journal
from benbi.engine.threads import Threads
from benbi.errors import StoreError
from benbi.job import Claim, ErrorRecord
from benbi.outcome import Canceled, Failed, Outcome, Released, Snoozed
from benbi.store.recorded import NOTHING_RECORDED, recorded
from benbi.store.store import Store
from benbi.store.workers import Held

log = logging.getLogger("benbi.worker")

# A job whose records can not be read is put off for so long.
STORE_SECONDS = 1.0


class Running:
    """One claim under way: its attempt, the task whose code it runs, its timers."""

    __slots__ = ("attempt", "timers", "work")

    def __init__(self, attempt: Attempt, work: Any) -> None:
        self.attempt = attempt
        self.work = work
        self.timers: list[asyncio.TimerHandle] = []


class Slots:
    """What a worker runs at this moment. Lives in the worker's loop; ``on_free`` is called
    whenever a slot is free again."""

    def __init__(
        self,
        count: int,
        store: Store,
        tasks: Mapping[str, Any],
        *,
        max_payload: int,
        context_for: Callable[[Any, Attempt, Threads], Any],
        threads: Threads,
        on_free: Callable[[], None],
    ) -> None:
        self.count = count
        self.threads = threads
        self.children = Children(max_payload)
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._tasks = tasks
        self._max_payload = max_payload
        self._context_for = context_for
        self._on_free = on_free
        self._journal = Journal(store, self._loop, self._free)
        # By fence: an earlier body of the same job may not have ended yet.
        self._running: dict[tuple[int, int], Running] = {}
        # Claims on which memory and database differed at the last beat: two times is once too many.
        self._missing: set[tuple[int, int]] = set()
        self._strange: set[tuple[int, int]] = set()
        # Bodies that were abandoned and have not ended yet.
        self._left_behind: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def free(self) -> int:
        return self.count - len(self._running)

    @property
    def fragile(self) -> bool:
        """True while a job runs that lost a worker before: only one of these at a time."""
        return any(running.attempt.claim.losses for running in self._running.values())

    @property
    def abandoned(self) -> int:
        """How many bodies run on after their end was told without them."""
        return len(self._left_behind)

    def __len__(self) -> int:
        return len(self._running)

    # One job.

    def start(self, claim: Claim) -> None:
        """Runs a claim in a free slot."""
        attempt = Attempt(
            claim,
            self._store,
            NOTHING_RECORDED,
            max_payload=self._max_payload,
            loop=self._loop,
            interrupt=self.interrupt,
        )
        running = Running(attempt, self._tasks[claim.task])
        self._running[claim.fence] = running
        self._empty.clear()
        attempt.task = self._loop.create_task(self.run_one(running))

    async def run_one(self, running: Running) -> None:
        """One job, from claim to finish."""
        attempt, task = running.attempt, running.work
        try:
            if attempt.claim.attempt > attempt.claim.first_attempt:
                attempt.recorded = await self._store.read(recorded, attempt.claim)
            self._set_timeout(running)
            if task.isolation is not None:
                outcome = await self.children.run(attempt, task)
            else:
                context = self._context_for(task, attempt, self.threads)
                outcome = await execute(attempt, task, context, self.threads)
        except StoreError as error:
            log.warning("job %s is put off: %s", attempt.claim.job_id, error)
            outcome = Snoozed(STORE_SECONDS, "store")
        except Exception as fault:
            # Nothing gets here but what nobody thought of: the job fails, within its budget.
            log.exception("a fault of benbi in job %s", attempt.claim.job_id)
            outcome = Failed(_fault(fault))
        # The task holds its context, which holds the attempt: a circle for the garbage collector.
        attempt.task = None
        self._finish(running, outcome)

    def _finish(self, running: Running, outcome: Outcome) -> None:
        for timer in running.timers:
            timer.cancel()
        self._journal.finish(running.attempt, outcome, running.work.retry)

    def _free(self, attempt: Attempt, _: str | None) -> None:
        """The store has spoken."""
        self._running.pop(attempt.claim.fence, None)
        if not self._running:
            self._empty.set()
        self._on_free()

    def _set_timeout(self, running: Running) -> None:
        claim = running.attempt.claim
        if claim.timeout is not None:
            seconds = claim.timeout / 1e6
            timer = self._loop.call_later(seconds, self.interrupt, running.attempt, "timeout")
            running.timers.append(timer)

    # Ending bodies.

    def interrupt(self, attempt: Attempt, reason: str) -> None:
        """Asks one body to end: async is canceled, a thread is asked; abandoned after the grace."""
        running = self._running.get(attempt.claim.fence)
        # Once its outcome is known it only waits for the store.
        if running is None or attempt.ended or not attempt.ask_to_stop(reason):
            return
        if attempt.body is not None:
            attempt.body.cancel()
        grace = attempt.claim.grace / 1e6 + attempt.allowance
        running.timers.append(self._loop.call_later(grace, self._abandon, running))

    def interrupt_all(self, reason: str, *, exclusive_only: bool = False) -> None:
        """Asks every body to end, or those of exclusive tasks."""
        for running in list(self._running.values()):
            if running.work.exclusive or not exclusive_only:
                self.interrupt(running.attempt, reason)

    def _abandon(self, running: Running) -> None:
        """The body did not stop within its grace: its end is told without it, fenced."""
        outcome: Outcome
        match running.attempt.stop:
            case "canceled":
                outcome = Canceled("abandoned")
            case "timeout":
                outcome = timed_out()
            case reason:
                outcome = Released(reason or "drain")
        log.warning(
            "job %s did not stop within its grace and is abandoned; its code may run on",
            running.attempt.claim.job_id,
        )
        task = running.attempt.task
        if task is not None:
            self._left_behind.add(task)
            task.add_done_callback(self._left_behind.discard)
        self._finish(running, outcome)

    # Reconciliation.

    def reconcile(self, held: Mapping[int, Held]) -> list[tuple[int, int]]:
        """Compares what a beat read with what runs here. Delivers cancels and losses; returns
        the claims (n, token) that this worker holds but nobody here runs."""
        mine = set(self._running)
        rows = {(n, row.token) for n, row in held.items()}
        # Once may be a claim or a finish that crossed the beat.
        missing, self._missing = (mine - rows) & self._missing, mine - rows
        strange, self._strange = (rows - mine) & self._strange, rows - mine
        for fence in missing:
            self.interrupt(self._running[fence].attempt, "lost")
        self.deliver_cancels(held)
        return sorted(strange)

    def deliver_cancels(self, held: Mapping[int, Held]) -> None:
        """Asks the bodies to end whose jobs were canceled."""
        for n, row in held.items():
            running = self._running.get((n, row.token))
            if row.cancel_requested and running is not None:
                self.interrupt(running.attempt, "canceled")

    def runs(self, fence: tuple[int, int]) -> bool:
        """True while this claim has a slot here."""
        return fence in self._running

    # Drain.

    async def ended(self, seconds: float) -> None:
        """Returns when every body has ended and is recorded, or when the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._empty.wait()

    def close(self) -> None:
        """What still runs can write nothing any more."""
        for running in self._running.values():
            for timer in running.timers:
                timer.cancel()
            running.attempt.end()


def _fault(error: BaseException) -> ErrorRecord:
    rule = "a fault of benbi itself, retried within the job's budget"
    return ErrorRecord(class_of(error), message_of(error), "unknown", rule)
