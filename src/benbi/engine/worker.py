"""A worker: claims jobs for its free slots, keeps its heart beating, drains when asked to."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from benbi.engine.attempt import Attempt, current
from benbi.engine.beat import Heart
from benbi.engine.grace import ENDLESS_SECONDS, Grace
from benbi.engine.hints import Hints
from benbi.engine.joblog import watch
from benbi.engine.marks import Marks
from benbi.engine.patience import Trouble
from benbi.engine.schedule import Scheduler
from benbi.engine.slots import Slots
from benbi.engine.threads import Threads
from benbi.engine.upkeep import Upkeep
from benbi.engine.wear import Wear
from benbi.errors import ClaimLost, StoreError
from benbi.loops import call_in_loop
from benbi.processes.ends import process_mark
from benbi.store import lifecycle, moves, workers
from benbi.store.database import Transaction
from benbi.store.lifecycle import ClaimRequest
from benbi.store.store import Store
from benbi.store.workers import Held

log = logging.getLogger("benbi.worker")

# Polling always runs underneath the hints.
POLL_SECONDS = 1.0
# While more is known to wait than there are slots, looks only deliver cancels.
LOOK_SECONDS = 0.1
LOOP_BLOCK_LIMIT = 300.0
EXCLUSIVE_SHARE = 0.8
SIGN_OFF_SECONDS = 5.0

_numbers = count(1)


class Worker:
    """Runs jobs of ``tasks`` (by every name they answer to) from ``queues``, ``slots`` at once."""

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Any],
        hints: Hints,
        *,
        queues: Sequence[str],
        slots: int,
        heartbeat_timeout: float,
        max_payload: int,
        version: str,
        publish: Callable[[Transaction], None],
        context_for: Callable[[Any, Attempt, Threads], Any],
        threads: Threads,
        scheduler: Scheduler | None = None,
    ) -> None:
        self.id = _new_id()
        self.loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        # When the database last answered a claim or a look: health is tied to it.
        self.claimed_at: float | None = None
        # Set while it runs nothing and knows of nothing that it could claim.
        self.out_of_work = asyncio.Event()
        self.wear = Wear()
        self.queues = list(queues)
        self._store = store
        self._tasks = tasks
        self._task_names = json.dumps(sorted(tasks))
        self._hints = hints
        self._heartbeat_timeout = heartbeat_timeout
        self._version = version
        self._publish = publish
        self._scheduler = scheduler
        self._news = asyncio.Event()
        self._slots = Slots(
            slots,
            store,
            tasks,
            max_payload=max_payload,
            context_for=context_for,
            threads=threads,
            on_free=self._note_free,
        )
        self._n = 0
        self._hungry = True
        self._claiming = False
        self._marks = Marks()
        self._buried = False
        self._stop = asyncio.Event()
        self._grace = Grace()
        self._trouble = Trouble(log, "the worker waits for the database", "the worker goes on")
        self._heart: Heart | None = None
        self._guard: asyncio.TimerHandle | None = None
        self._due_timer: asyncio.TimerHandle | None = None

    @property
    def slots(self) -> int:
        """How many jobs it runs at once."""
        return self._slots.count

    @property
    def abandoned(self) -> int:
        """How many bodies run on after their jobs were ended without them."""
        return self._slots.abandoned

    # The life of a worker.

    async def run(
        self, stop: asyncio.Event, grace: float, started: asyncio.Event | None = None
    ) -> int:
        """Works until ``stop`` is set, then drains for at most ``grace`` seconds.

        ``started`` is set once it has registered. Returns the number of jobs whose code did not
        stop.
        """
        self._stop = stop
        watch(current)
        try:
            await self._register()
        except asyncio.CancelledError:
            await self._drain(0, None)
            raise
        if started is not None:
            started.set()
        unsubscribe = self._hints.subscribe(self._news.set)
        upkeep = Upkeep(
            self._store,
            heartbeat_timeout=self._heartbeat_timeout,
            on_claimable=self._news.set,
            scheduler=self._scheduler,
        )
        turns, stopped = map(asyncio.ensure_future, (self._turns(), self._when_stopped()))
        beside = [asyncio.create_task(upkeep.run()), turns, stopped]
        try:
            await asyncio.wait([turns, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
            await self._drain(grace, turns)
            for timer in filter(None, (self._due_timer, self._guard)):
                timer.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        return len(self._slots)

    async def end(self) -> None:
        """Asks the worker to drain and waits until it has."""
        self._stop.set()
        await self.ended.wait()

    def hurry(self, grace: float) -> None:
        """Drains; what runs, also in a drain under way, gets at most so many seconds more."""
        self._grace.shorten(grace)
        self._stop.set()

    def _note_free(self) -> None:
        self._news.set()
        self.wear.note_abandoned(self._slots.abandoned, self._slots.count)

    async def _when_stopped(self) -> None:
        await self._stop.wait()
        self._news.set()

    async def _register(self) -> None:
        worker = workers.Worker(
            self.id,
            socket.gethostname(),
            os.getpid(),
            self._slots.count,
            self.queues,
            sorted(self._tasks),
            self._version,
            round(self._heartbeat_timeout * 1e6),
        )
        registering = asyncio.ensure_future(self._store.write(workers.register, worker))
        try:
            self._n = await asyncio.shield(registering)
        except asyncio.CancelledError:
            # Its row is there, or soon will be: the drain that follows must know which.
            with suppress(StoreError):
                self._n = await registering
            raise
        await self._store.write(self._publish)
        self._buried = False
        self._heart = Heart(
            self._store.database,
            self._n,
            self,
            heartbeat_timeout=self._heartbeat_timeout,
            loop_block_limit=LOOP_BLOCK_LIMIT,
        )
        # The one connection of :memory: is one process: nobody else could miss a beat.
        if not self._store.database.one_connection:
            self._heart.start()
            if self._guard is None and any(task.exclusive for task in self._tasks.values()):
                self._guard_exclusive()

    # Turns: claim, or wait and look.

    async def _turns(self) -> None:
        while not self._stop.is_set():
            await self._turn()

    async def _turn(self) -> None:
        """One turn: claims for what is free, or waits for news and looks."""
        try:
            if self._buried:
                await self._start_again()
            free = min(self._slots.free, self.wear.left)
            if self._hungry and free > 0:
                await self._claim(int(free))
                return
            await self._wait_for_news()
            if not self._stop.is_set() and self._look_is_due():
                await self._look()
        except ClaimLost:
            self._buried = True
        except StoreError as error:
            self._trouble.begins(error)
            await asyncio.sleep(POLL_SECONDS)
        except Exception:
            # A worker that ends here would leave its queue to nobody; its health shows the stall.
            log.exception("a turn of the worker failed")
            await asyncio.sleep(POLL_SECONDS)

    async def _wait_for_news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._news.wait()
        self._news.clear()

    def _look_is_due(self) -> bool:
        known = self._hungry and self.claimed_at is not None
        return not known or time.monotonic() - (self.claimed_at or 0.0) >= LOOK_SECONDS

    async def _look(self) -> None:
        """Reads, without a lock, whether there is anything to do."""
        empty = not len(self._slots)
        pending, canceled, due_at, now = await self._store.read(
            workers.look,
            json.dumps(self.queues),
            self._task_names,
            not self._slots.fragile,
            self._n,
        )
        self._answered()
        if canceled:
            self._slots.deliver_cancels(await self._store.read(workers.held, self._n))
        if due_at is not None:
            if due_at <= now:
                await self._store.write(moves.due)
                pending = True
            else:
                self._plan_wake((due_at - now) / 1e6)
        self._hungry = self._hungry or bool(pending)
        self._note_idle(empty)

    def _answered(self) -> None:
        self.claimed_at = time.monotonic()
        self._trouble.is_over()

    def _note_idle(self, empty: bool) -> None:
        """``empty``: nothing ran when it looked, so nothing that ran can have left anything."""
        if empty and not self._hungry and not len(self._slots):
            self.out_of_work.set()
        else:
            self.out_of_work.clear()

    def _plan_wake(self, seconds: float) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
        self._due_timer = self.loop.call_later(seconds, self._news.set)

    async def _claim(self, free: int) -> None:
        empty, marks = not len(self._slots), self._marks.next()
        mine = (self._n, secrets.randbits(63), self.queues, self._task_names)
        request = ClaimRequest(*mine, free, fragile=not self._slots.fragile, marks=marks)
        self._claiming = True
        try:
            claims = await self._store.write(lifecycle.claim, request)
        finally:
            self._claiming = False
        self._answered()
        self._hungry = self._marks.more(len(claims) == free)
        for claim in claims:
            self._slots.start(claim)
        self._note_idle(empty)
        self.wear.note_started(len(claims))

    # What the heart asks for, from its own thread.

    def reconcile(self, worker_n: int, held: dict[int, Held]) -> None:
        call_in_loop(self.loop, self._reconcile, worker_n, held)

    def _reconcile(self, worker_n: int, held: dict[int, Held]) -> None:
        if worker_n != self._n:
            return
        strange = self._slots.reconcile(held)
        if strange:
            self.loop.create_task(self._give_back(strange))

    async def _give_back(self, claims: list[tuple[int, int]]) -> None:
        """Rows of ours that nobody here runs (a claim whose reply was lost): uncharged."""
        unheld = [fence for fence in claims if not self._slots.runs(fence)]
        if unheld:
            log.warning("%d claims that nobody holds are given back", len(unheld))
            await self._store.write(workers.release, self._n, unheld, "unheld")
            self._news.set()

    def buried(self, worker_n: int) -> None:
        call_in_loop(self.loop, self._note_burial, worker_n)

    def _note_burial(self, worker_n: int) -> None:
        # A claim may have brought it to light before the beat did: then it is old news.
        if worker_n == self._n:
            self._buried = True
            self._news.set()

    async def _start_again(self) -> None:
        """This worker was taken for dead: its bodies stop, it registers under a new number."""
        log.error("worker %s was taken for dead; its jobs went elsewhere, it starts again", self.id)
        self._slots.interrupt_all("lost")
        if self._heart is not None:
            self._heart.end()
        self.id = _new_id()
        await self._register()
        self._hungry = True

    def _guard_exclusive(self) -> None:
        """Bodies of exclusive tasks stop before anybody may take this worker for dead."""
        assert self._heart is not None
        self._guard = self.loop.call_later(self._heartbeat_timeout / 20, self._guard_exclusive)
        unconfirmed = time.monotonic() - self._heart.confirmed
        if unconfirmed >= EXCLUSIVE_SHARE * self._heartbeat_timeout:
            self._slots.interrupt_all("lost", exclusive_only=True)

    def half_dead(self, why: str) -> None:
        """In the heart's thread: the process can not be trusted with its claims any more."""
        log.critical("worker %s ends: %s", self.id, why)
        os._exit(70)

    async def idle(self) -> bool:
        """True where it holds no job, and the database has none for it: tests wait for that."""
        return await self._store.read(
            workers.idle, json.dumps(self.queues), self._task_names, self._n
        )

    def ping(self, answer: Callable[[], None]) -> None:
        call_in_loop(self.loop, answer)

    def stalled(self) -> float | None:
        return self._store.stalled()

    # Drain.

    async def _drain(self, grace: float, turns: asyncio.Future[None] | None) -> None:
        """Bodies get the grace; what is left is canceled and goes back, uncharged. It takes no
        longer than that and the seconds to sign off, whatever the database does."""
        self._grace.shorten(grace)
        if len(self._slots):
            log.info("draining: %d jobs are running, %s", len(self._slots), self._grace.told)
        if turns is not None:
            # A claim under way is awaited: its jobs run, or go back. A look may take for ever.
            if not self._claiming:
                turns.cancel()
            await self._grace.wait_for(turns)
        await self._grace.wait_for(self._slots.ended(ENDLESS_SECONDS))
        over = max(self._grace.end, time.monotonic() + SIGN_OFF_SECONDS)
        self._slots.interrupt_all("drain")
        await self._slots.ended(max(1.0, self._grace.left))
        await self._slots.children.close()
        if self._heart is not None and not self._store.database.one_connection:
            await self._slots.threads.run(self._heart.stop, (over - time.monotonic()) / 2)
        try:
            async with asyncio.timeout(max(0.0, over - time.monotonic())):
                released = await self._store.write(workers.sign_off, self._n, "drain")
        except (StoreError, TimeoutError) as error:
            why = str(error) or "the database does not answer"
            log.error("could not sign off; another process will notice: %s", why)
        else:
            if released:
                log.warning("%d jobs whose code did not stop went back", len(released))
        self._slots.close()


def _new_id() -> str:
    return f"{process_mark()}{next(_numbers)}"
