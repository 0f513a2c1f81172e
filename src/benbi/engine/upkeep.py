"""Upkeep: promotes what is due, buries the dead, ends what overran, prunes what is over, and
fires the schedules of the app.

Any process does it, several may at once: each move repeats its condition. It needs no free
slot and no user code.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from benbi.engine.patience import Trouble
from benbi.engine.schedule import Scheduler
from benbi.errors import StoreError
from benbi.job import KEEP_FAILED, KEEP_OTHERS
from benbi.store import moves, upstream, workers
from benbi.store.artifacts import sweep
from benbi.store.database import Transaction
from benbi.store.store import Store

log = logging.getLogger("benbi.upkeep")

PRUNE_SECONDS = 30.0
# How often files are looked for that no artifact records.
SWEEP_SECONDS = 600.0
# How often all jobs are looked over for one that nobody released.
NET_SECONDS = 30.0
# How long after the grace anyone may end a job whose own worker should have.
ALLOWANCE_SECONDS = 2.0
TIMEOUT_RETRY_SECONDS = 1.0
SHORTEST_PAUSE = 0.05
NOTHING_SAID: Final[Mapping[int, float]] = MappingProxyType({})


class Watch:
    """Who has not beaten: judged by counters and this process's own monotonic clock.

    A worker is lost when its counter stood still for ``heartbeat_timeout`` while this process
    looked at least every quarter of that without a gap: a pause of the watcher (suspend, a
    failed read) restarts the watch instead of burying the living. A worker with a longer timeout
    of its own beats less often, and is given that one.
    """

    def __init__(self, heartbeat_timeout: float) -> None:
        self.timeout = heartbeat_timeout
        self.interval = heartbeat_timeout / 4
        self._seen: dict[int, tuple[int, float]] = {}
        self._looked: float | None = None
        # True while some worker has not beaten for half the time: an outage looks the same.
        self.doubts = False

    def look(
        self, beats: dict[int, int], now: float, patience: Mapping[int, float] = NOTHING_SAID
    ) -> list[tuple[int, int]]:
        """(worker, beat_no) of those that are lost, given what was just read.

        ``patience``: the timeouts of the workers themselves, in seconds.
        """
        gap = self._looked is None or now - self._looked > self.interval * 1.5
        self._looked = now
        seen: dict[int, tuple[int, float]] = {}
        for worker, beat_no in beats.items():
            known = self._seen.get(worker)
            fresh = gap or known is None or known[0] != beat_no
            seen[worker] = (beat_no, now) if fresh or known is None else known
        self._seen = seen
        # The share of its time that each has been silent for.
        silent = {
            worker: (now - since) / max(self.timeout, patience.get(worker, 0.0))
            for worker, (_, since) in seen.items()
        }
        self.doubts = any(share >= 0.5 for share in silent.values())
        return [(worker, seen[worker][0]) for worker, share in silent.items() if share >= 1]

    def restart(self) -> None:
        """Forgets what was seen: the next look is the first."""
        self._looked = None


class Upkeep:
    """The loop that every worker runs beside its jobs."""

    def __init__(
        self,
        store: Store,
        *,
        heartbeat_timeout: float,
        on_claimable: Callable[[], None] = lambda: None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._watch = Watch(heartbeat_timeout)
        self._on_claimable = on_claimable
        self._prune_after = 0
        self._prune_at = time.monotonic() + PRUNE_SECONDS
        self._sweep_at = time.monotonic() + PRUNE_SECONDS
        self._net_after = 0
        self._net_at = time.monotonic() + NET_SECONDS

    async def run(self) -> None:
        """Runs until it is canceled. A fault in one round is logged; the next round comes."""
        trouble = Trouble(log, "upkeep waits for the database", "upkeep goes on")
        while True:
            try:
                await self.round()
                trouble.is_over()
            except StoreError as error:
                trouble.begins(error)
            except Exception:
                log.exception("a round of upkeep failed")
            pause = min(1.0, self._watch.interval)
            if self._scheduler is not None:
                # A tick is not kept waiting for the next look.
                pause = min(pause, max(self._scheduler.pause, SHORTEST_PAUSE))
            await asyncio.sleep(pause)

    async def round(self) -> None:
        """One round: every duty that is due now."""
        await self.promote()
        if self._scheduler is not None and await self._scheduler.round():
            self._on_claimable()
        await self._bury()
        overrun, expired, unsettled = await self._store.read(_neglected)
        if overrun:
            await self._store.write(
                moves.stop_overrun, int(ALLOWANCE_SECONDS * 1e6), int(TIMEOUT_RETRY_SECONDS * 1e6)
            )
        if expired:
            await self._store.write(moves.expire)
            self._on_claimable()
        if unsettled:
            await self.go_on()
        if time.monotonic() >= self._net_at:
            await self.cast_net()
        if time.monotonic() >= self._prune_at:
            await self._prune()
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_SECONDS
            await asyncio.to_thread(sweep, self._store)

    async def promote(self) -> None:
        """Makes due jobs pending, in stretches."""
        if not await self._store.read(_anything_due):
            return
        while await self._store.write(moves.due) == moves.STRETCH:
            self._on_claimable()
        self._on_claimable()

    async def go_on(self) -> None:
        """Releases what waits for jobs that have ended, where it was too much for their own
        transaction."""
        while await self._store.write(upstream.go_on):
            self._on_claimable()
        self._on_claimable()

    async def cast_net(self) -> None:
        """Looks over one stretch of all jobs for those that wait for nothing any more."""
        self._net_after, found = await self._store.read(upstream.adrift, self._net_after)
        if found:
            log.warning("%d jobs waited for jobs that had ended; they are settled now", len(found))
            await self._store.write(upstream.rescue, found)
            self._on_claimable()
        self._net_at = time.monotonic() + (1.0 if self._net_after else NET_SECONDS)

    async def _bury(self) -> None:
        if self._store.database.one_connection:
            # One process: its workers do not beat, and whoever looks lives as long as they do.
            return
        beats, patience = await self._store.read(workers.watched)
        lost = self._watch.look(beats, time.monotonic(), patience)
        if self._watch.doubts:
            # Where nobody can write, nobody can beat. What holds this up makes a gap in the watch.
            try:
                await self._store.write(workers.try_writing)
            except StoreError:
                self._watch.restart()
                raise
        for worker, beat_no in lost:
            jobs = await self._store.write(workers.bury, worker, beat_no)
            if jobs is not None:
                log.warning("worker %d is lost; %d of its jobs go on elsewhere", worker, len(jobs))
                self._on_claimable()

    async def _prune(self) -> None:
        stretch = await self._store.write(
            moves.prune, self._prune_after, int(KEEP_FAILED * 1e6), int(KEEP_OTHERS * 1e6)
        )
        if stretch.files:
            await asyncio.to_thread(self._store.files.remove, stretch.files)
        self._prune_after = stretch.after
        self._prune_at = time.monotonic() + (1.0 if stretch.after else PRUNE_SECONDS)


def _neglected(view: Transaction) -> tuple[bool, bool, bool]:
    ((overrun, expired),) = view.rows("neglected")
    return bool(overrun), bool(expired), bool(view.rows("unsettled", most=1))


def _anything_due(view: Transaction) -> bool:
    ((due_at,),) = view.rows("next_due")
    return due_at is not None and due_at <= view.now
