"""Workers are killed at random while they run jobs; nothing is lost, nothing recorded twice."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support import ledger, shadow
from tests.support.fleet import Fleet, fleet_on
from tests.support.seeds import SOAK, seeded
from tests.support.skips import NO_SKIP

WORKERS = 3
JOBS = 200
# In CI a hundred kills hit a running job with each seed; elsewhere a few, with one.
LANDED = 100 if NO_SKIP or SOAK else 15
SLOTS = 4


@pytest.mark.timeout(600)
@seeded
def test_killed_workers_lose_nothing_and_repeat_no_recorded_step(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    database = tmp_path / "jobs.db"
    with fleet_on(str(database), tmp_path, SLOTS) as fleet:
        plant = fleet.plant(monkeypatch)
        choice = random.Random(seed)
        numbers = asyncio.run(_run(fleet, plant, choice))
        assert fleet.landed >= LANDED
        assert shadow.disagreements(database) == []
        with plant.app:
            logs = ledger.all_events(plant.app)
            ledger.check_jobs(plant, numbers, logs)
        losses = ledger.check_steps(ledger.starts_in(tmp_path / "traces"), logs)
        assert losses > 0
        record_property("kills", fleet.kills)
        record_property("landed", fleet.landed)
        record_property("losses", losses)


async def _run(fleet: Fleet, plant: Any, choice: random.Random) -> dict[str, int]:
    """Enqueues, kills until enough kills landed, then lets the fleet finish."""
    app = plant.app
    numbers: dict[str, int] = {}

    async def add(count: int) -> None:
        for handle, number in await _enqueue(plant, choice, len(numbers), count):
            numbers[handle] = number

    async with app, app.working(worker=False):
        shadow.watch(fleet.folder / "jobs.db")
        await add(JOBS)
        for _ in range(WORKERS):
            fleet.start()
        while fleet.landed < LANDED:
            await asyncio.sleep(choice.uniform(0.3, 0.8))
            await fleet.kill_one(app, choice)
            if len(await app.jobs(state="completed", limit=len(numbers))) > len(numbers) - 20:
                await add(20)
        await ledger.all_final(app, len(numbers))
    assert fleet.end() == [0] * WORKERS, "a worker ends cleanly on SIGTERM"
    return numbers


async def _enqueue(
    plant: Any, choice: random.Random, first: int, count: int
) -> list[tuple[str, int]]:
    calls = [plant.grind.call(n, choice.uniform(0.2, 1.0)) for n in range(first, first + count)]
    handles = await plant.app.enqueue_many(calls)
    return [(handle.id, first + place) for place, handle in enumerate(handles)]
