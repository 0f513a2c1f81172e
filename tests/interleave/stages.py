"""Where moves meet: a few jobs each, so placed that the moves of a stage have something to do.

The job that a stage is about is its subject. Most have a child that waits for it, so that its end
is told to somebody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benbi.job import Claim, NewJob, NewRun, new_id
from benbi.outcome import Suspended
from benbi.store import schedules, views
from benbi.store.schedules import Definition
from tests.support.rig import SECOND, Rig, asked, failure

HOUR = 3600.0
DAY = 24 * HOUR


class World:
    """One stage, built once. Jobs are stored under names; those that a move brings, by
    ``coming``, are the same in every order that is played."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.names: dict[bytes, str] = {}
        self.ids: dict[str, str] = {}
        self.workers: dict[str, int] = {}
        self.claims: dict[str, Claim] = {}
        self.run = NewRun(new_id(), "run")
        self._coming: dict[str, NewJob] = {}

    def put(self, name: str, **fields: Any) -> str:
        """Stores a job; ``after``: names."""
        job = self.new(name, **fields)
        (job_id,) = self.rig.put_rows(job)
        self.ids[name] = job_id
        return job_id

    def new(self, name: str, **fields: Any) -> NewJob:
        after = [self.ids[one] for one in fields.pop("after", ())]
        made = self.rig.new(after=after, **fields)
        self.names[made.id] = name
        return made

    def coming(self, name: str, **fields: Any) -> NewJob:
        """A job that a move will store."""
        if name not in self._coming:
            self._coming[name] = self.new(name, **fields)
        return self._coming[name]

    def worker(self, name: str) -> int:
        """A registered worker."""
        if name not in self.workers:
            self.workers[name] = self.rig.worker(name)
        return self.workers[name]

    def start(self, name: str, worker: str, **fields: Any) -> Claim:
        """Stores a job and claims it."""
        self.put(name, rank=-9, **fields)
        claim = self.claims[name] = self.rig.claim_one(self.worker(worker))
        assert claim.job_id == self.ids[name]
        return claim

    def id(self, name: str) -> bytes:
        return views.as_bytes(self.ids[name])

    @property
    def run_id(self) -> str:
        return views.as_text(self.run.id)

    def n(self, name: str = "subject") -> int:
        return self.rig.found(self.ids[name]).n


def _pending(world: World) -> None:
    """It may be claimed, and its time is over."""
    world.worker("other")
    world.put("subject", run=world.run, expires_in=round(HOUR * SECOND), within=2 * DAY)
    world.put("child", after=["subject"])
    world.rig.clock.tick(2 * HOUR)


def _due(world: World) -> None:
    """Scheduled, due, and its time is over."""
    world.worker("other")
    world.put("subject", run=world.run, delay=60.0, expires_in=round(HOUR * SECOND))
    world.put("child", after=["subject"])
    world.rig.clock.tick(2 * HOUR)


def _retrying(world: World) -> None:
    """It failed, and is due again."""
    claim = world.start("subject", "worker")
    world.rig.finish(claim, failure())
    world.worker("other")
    world.rig.clock.tick(HOUR)


def _running(world: World) -> None:
    """It runs, and has run over its time; so does a second one, and a child waits for both."""
    world.start(
        "subject", "worker", run=world.run, timeout=60 * SECOND, within=2 * DAY, max_losses=1
    )
    world.start("second", "other")
    world.put("child", after=["subject", "second"], expires_in=round(HOUR * SECOND))
    world.put("grandchild", after=["child"])
    world.rig.clock.tick(2 * HOUR)


def _canceling(world: World) -> None:
    """It runs, was asked to stop, and has not within its grace."""
    world.start("subject", "worker")
    world.start("second", "other")
    world.put("child", after=["subject"], when="all_done")
    world.rig.cancel(world.ids["subject"])
    world.rig.clock.tick(HOUR)


def _asking(world: World) -> None:
    """It waits for two answers, the time for one is over, and there is a default."""
    claim = world.start("subject", "worker", run=world.run)
    questions = [asked("first", default="grey", timeout=60.0), asked("second")]
    world.rig.finish(claim, Suspended(asks=True), asks=questions)
    world.worker("other")
    world.put("child", after=["subject"])
    world.rig.clock.tick(HOUR)


def _asking_late(world: World) -> None:
    """It waits for one answer, the time for it is over, and there is no default."""
    claim = world.start("subject", "worker")
    world.rig.finish(claim, Suspended(asks=True), asks=[asked("first", timeout=60.0)])
    world.worker("other")
    world.put("child", after=["subject"])
    world.rig.clock.tick(HOUR)


def _failed(world: World) -> None:
    """It failed and its child with it, for which a second one runs on."""
    claim = world.start("subject", "worker", run=world.run, within=2 * DAY)
    world.start("second", "other")
    world.put("child", after=["subject", "second"])
    world.put("grandchild", after=["child"])
    world.put("third", after=["second"])
    world.rig.finish(claim, failure("permanent"))


def _over(world: World) -> None:
    """It ended long ago, as another of its run did; what has a key and the newest stay."""
    world.worker("other")
    world.put("subject", run=world.run, key="k")
    world.put("sibling", run=world.run)
    for name in ("subject", "sibling"):
        world.rig.cancel(world.ids[name])
    world.put("newest")
    world.rig.clock.tick(100 * DAY)


def _unsettled(world: World) -> None:
    """It ended, and its children were too many for one transaction."""
    claim = world.start("subject", "worker")
    world.start("second", "other")
    world.put("child", after=["subject"])
    world.put("both", after=["subject", "second"])
    world.put("third", after=["subject"])
    world.rig.finish(claim, failure("permanent"))
    world.rig.clock.tick(100 * DAY)


def _absent(world: World) -> None:
    """There is nothing yet, but for a worker."""
    world.worker("other")


def _scheduled(world: World) -> None:
    """Two schedules, and one tick to take."""
    register = [definition(world, name) for name in ("daily", "hourly")]
    world.rig.store.write_sync(schedules.register, register, "here")
    world.rig.clock.tick(HOUR)


def definition(world: World, name: str, spec: str = "1h") -> Definition:
    """What code says of a schedule."""
    job = schedules.as_template(world.rig.new(name))
    return Definition(name, spec, "UTC", "latest", "work", job)


STAGES: dict[str, Callable[[World], None]] = {
    "pending": _pending,
    "due": _due,
    "retrying": _retrying,
    "running": _running,
    "canceling": _canceling,
    "asking": _asking,
    "asking late": _asking_late,
    "failed": _failed,
    "over": _over,
    "unsettled": _unsettled,
    "absent": _absent,
    "idle": _absent,
    "catalogue": _absent,
    "unscheduled": _absent,
    "scheduled": _scheduled,
}
