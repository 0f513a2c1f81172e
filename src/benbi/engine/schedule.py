"""Fires schedules: each worker's upkeep, and that of servers, makes jobs of the ticks that passed.

Any number of processes do it at once: the store lets one of them have each tick. A process
fires what stands in the store as it stands in its own code, and nothing else.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benbi.engine.ticks import Ticks
from benbi.job import NewJob, new_id
from benbi.store import schedules
from benbi.store.database import Transaction
from benbi.store.schedules import Definition, Due, Stored
from benbi.store.store import Store

log = logging.getLogger("benbi.schedule")

Catchup = Literal["latest", "all", "none"]

# Jobs that one transaction makes of missed ticks at the most.
STRETCH: Final = 100
# A tick that is older than this was missed: a restart takes seconds.
LATE: Final = 60 * 1_000_000
# How often the processes that hold a definition say so, and after how long without that another
# definition takes its place.
SEEN: Final = 15 * 1_000_000
UNSEEN: Final = 60 * 1_000_000


@dataclass(frozen=True)
class Plan:
    """A schedule as the code has it: when, and the job that each tick makes."""

    name: str
    ticks: Ticks
    catchup: Catchup
    job: NewJob

    @property
    def definition(self) -> Definition:
        """The row that this plan registers."""
        return Definition(
            self.name,
            self.ticks.spec,
            self.ticks.timezone,
            self.catchup,
            self.job.task,
            schedules.as_template(self.job),
        )

    def due(self, row: Stored, first: int, now: int) -> Due:
        """What to make of the ticks from ``first`` to ``now``."""
        if self.catchup == "all":
            ticks = list(self._stretch(row.last_tick, now))
            return Due(self.name, row.version, row.last_tick, ticks[-1], ticks, now - first > LATE)
        latest = self.ticks.latest(row.last_tick, now)
        assert latest is not None
        wanted = self.catchup == "latest" or now - latest <= LATE
        ticks = [latest] if wanted else []
        return Due(self.name, row.version, row.last_tick, latest, ticks, now - first > LATE)

    def _stretch(self, after: int, until: int) -> Iterator[int]:
        for _ in range(STRETCH):
            tick = self.ticks.after(after)
            if tick is None or tick > until:
                return
            yield tick
            after = tick


@dataclass
class _Look:
    """What one reading of the schedules came to."""

    due: list[Due]
    stale: list[Stored]
    orphans: list[str]
    pause: float


class Scheduler:
    """The part of upkeep that fires an app's schedules."""

    def __init__(self, store: Store, plans: Mapping[str, Plan]) -> None:
        self._store = store
        self._plans = dict(plans)
        self._definitions = {name: plan.definition for name, plan in plans.items()}
        self._by = f"{socket.gethostname()}-{os.getpid()}"
        self._registered = False
        # By name: the last tick, and the one after it. Cron arithmetic is not free.
        self._next: dict[str, tuple[int, int | None]] = {}
        # By name: a definition of other code, when it was seen, and since when we know that.
        self._silent: dict[str, tuple[int, int]] = {}
        self._looked = 0
        # Seconds from the last round to the next tick.
        self.pause = math.inf

    async def round(self) -> bool:
        """Makes jobs of what is due. True where it made any."""
        if not self._registered:
            await self._register(list(self._definitions))
            self._registered = True
        made, more = False, True
        while more:
            look = await self._store.read(self._look)
            if look.stale:
                await self._store.write(schedules.seen, look.stale)
            if look.orphans:
                log.warning("schedules that no process holds: %s", ", ".join(look.orphans))
                await self._register(look.orphans)
            self.pause = look.pause
            more = False
            for due in look.due:
                count = await self._fire(due)
                made, more = made or count > 0, more or count == STRETCH
        return made

    def next_tick(self, view: Transaction) -> int | None:
        """The first tick that is still to come, of the schedules that this process holds."""
        rows, now = schedules.every(view)
        held = [
            self._plans[row.name].ticks.after(max(now, row.last_tick))
            for row in rows
            if row.definition == self._definitions.get(row.name) and row.paused_at is None
        ]
        return min((tick for tick in held if tick is not None), default=None)

    async def _register(self, names: Sequence[str]) -> None:
        definitions = [self._definitions[name] for name in names]
        await self._store.write(schedules.register, definitions, self._by)

    async def _fire(self, due: Due) -> int:
        """How many jobs were made of it here."""
        jobs = [self._plans[due.name].job._replace(id=new_id()) for _ in due.ticks]
        try:
            if not await self._store.write(schedules.fire, due, jobs):
                return 0
        except Exception:
            # What is wrong with one must not keep the others, nor the rest of upkeep.
            log.exception("schedule %s could not fire; it is tried again", due.name)
            self.pause = math.inf
            return 0
        if due.missed:
            log.warning("schedule %s missed ticks; it makes %d jobs now", due.name, len(jobs))
        return len(jobs)

    def _look(self, view: Transaction) -> _Look:
        """In a reader's thread, which the arithmetic may keep busy for a moment."""
        rows, now = schedules.every(view)
        stored = {row.name: row for row in rows}
        look = _Look([], [], [], math.inf)
        if now - self._looked >= SEEN:
            # A pause of this process, or of the whole machine: others had no chance either.
            self._silent.clear()
        self._looked = now
        for name, definition in self._definitions.items():
            row = stored.get(name)
            if row is None or row.definition != definition:
                # Forgotten, or other code is newer: as long as there is any.
                if row is None or self._is_silent(row, now):
                    look.orphans.append(name)
                continue
            if now - row.seen_at >= SEEN:
                look.stale.append(row)
            try:
                self._consider(look, row, now)
            except Exception:
                # What is wrong with one must not keep the others.
                log.exception("schedule %s can not fire", name)
        return look

    def _is_silent(self, row: Stored, now: int) -> bool:
        """Whether nobody has said for a minute, while we looked, that they hold the definition."""
        known = self._silent.get(row.name)
        if known is None or known[0] != row.seen_at:
            known = self._silent[row.name] = (row.seen_at, now)
        return now - known[1] >= UNSEEN

    def _consider(self, look: _Look, row: Stored, now: int) -> None:
        known = self._next.get(row.name)
        if known is None or known[0] != row.last_tick:
            tick = self._plans[row.name].ticks.after(row.last_tick)
            known = self._next[row.name] = (row.last_tick, tick)
        tick = known[1]
        if tick is None or row.paused_at is not None:
            return
        look.pause = min(look.pause, max(0, tick - now) / 1e6)
        if tick <= now:
            look.due.append(self._plans[row.name].due(row, tick, now))
