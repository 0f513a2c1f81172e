"""A database of one crash test on a server of the tests' own: its workers, and what must hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import ledger, outside
from tests.support.fleet import Fleet, fleet_on
from tests.support.postgresql import Witnessed, own_database
from tests.support.server import Server


@dataclass(frozen=True)
class Site:
    """``url``: the database, straight on the server, whatever stands between it and workers."""

    server: Server
    url: str
    folder: Path

    def fleet(self, slots: int, **environment: str) -> AbstractContextManager[Fleet]:
        """Workers of plant.py, none yet."""
        told = {"CRASH_OUTSIDE": self.url} | environment
        return fleet_on(self.url, self.folder, slots, **told)

    def watch(self) -> None:
        """From now on, in a migrated database, the witness sees every change of state."""
        with self.witness() as witness:
            witness.watch()
            witness.connection.execute(outside.TABLE)

    @contextmanager
    def witness(self) -> Iterator[Witnessed]:
        witness = Witnessed(self.url, "benbi")
        with closing(witness.connection):
            yield witness

    def look(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement, read on a connection of its own."""
        with self.server.connect(self.url) as connection:
            return connection.execute(sql, values).fetchall()

    def judge(self, plant: Any, numbers: Mapping[str, int]) -> dict[str, int]:
        """What must hold at the end of jobs ``toil``, by id with their numbers; what was met."""
        with self.witness() as witness:
            assert witness.disagreements() == []
        with plant.app:
            logs = ledger.all_events(plant.app)
            ledger.check_jobs(plant, numbers, logs)
        starts = ledger.starts_in(self.folder / "traces")
        losses = ledger.check_steps(starts, logs)
        effects = outside.effects(self.url)
        assert effects.keys() == {(job_id, plant.WITH_EFFECT) for job_id in numbers}
        repeated = ledger.check_effects(effects, starts, logs)
        assert self.look("SELECT id FROM benbi.workers") == [], "whoever ends signs off"
        return {"losses": losses, "repeated effects": repeated}


@contextmanager
def site_on(server: Server, folder: Path, options: str = "") -> Iterator[Site]:
    """``options``: of CREATE DATABASE."""
    with own_database(server.url, options) as url:
        yield Site(server, url, folder)


async def put(plant: Any, seconds: Mapping[int, float]) -> dict[str, int]:
    """Enqueues a job ``toil`` for each number, by the seconds it takes; the numbers by id."""
    calls = [plant.toil.call(number, share) for number, share in seconds.items()]
    handles = await plant.app.enqueue_many(calls)
    return {handle.id: number for handle, number in zip(handles, seconds, strict=True)}
