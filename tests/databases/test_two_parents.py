"""Two parents end at the same moment in two processes: what waits for both is never lost."""

from __future__ import annotations

import multiprocessing
import sys
from pathlib import Path
from typing import Any

import pytest

from benbi.store.postgresql import PostgresDatabase
from benbi.store.sqlite import SqliteDatabase
from tests.support import postgresql, shadow
from tests.support.rig import Clock, Rig

ROUNDS = [60, pytest.param(1000, marks=pytest.mark.soak)]
SECONDS = 60


def rig_on(place: Path | str) -> Rig:
    """A file, or the URL of a server."""
    clock = Clock()
    if isinstance(place, Path):
        return Rig(SqliteDatabase(str(place), durability="normal", clock=clock), clock)
    return Rig(PostgresDatabase(place, durability="normal", clock=clock), clock)


def finish_in_step(place: Path | str, queue: str, rounds: int, together: Any) -> None:
    """One parent after the other, each at the moment at which the other process does."""
    rig = rig_on(place)
    worker = rig.worker(queue)
    for _ in range(rounds):
        claim = rig.claim_one(worker, queues=[queue])
        together.wait(SECONDS)
        rig.complete(claim)
    rig.store.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_the_child_of_both_is_released_once(rounds: int, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    rig = rig_on(path)
    shadow.watch(path)
    play(rig, path, rounds)
    assert shadow.disagreements(path) == []
    rig.store.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_so_it_is_on_a_server(rounds: int) -> None:
    with postgresql.own_database() as url:
        rig = rig_on(url)
        witness = postgresql.Witnessed(url, "benbi")
        witness.watch()
        play(rig, url, rounds)
        assert witness.disagreements() == []
        rig.store.close()
        witness.connection.close()


def play(rig: Rig, place: Path | str, rounds: int) -> None:
    children: list[str] = []
    for _ in range(rounds):
        parents = [rig.put(queue=queue) for queue in ("left", "right")]
        children.append(rig.put(queue="child", after=parents))
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    sides = [
        context.Process(target=finish_in_step, args=(place, queue, rounds, together))
        for queue in ("left", "right")
    ]
    for side in sides:
        side.start()
    for side in sides:
        side.join(SECONDS + rounds)
    assert [side.exitcode for side in sides] == [0, 0], sys.platform
    assert {rig.state(child) for child in children} == {"pending"}
    assert {tuple(rig.types(child)) for child in children} == {("created", "pending")}
