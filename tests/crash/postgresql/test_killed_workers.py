"""Workers of a fleet are killed at random; one of them again and again, as soon as it works."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.support import ledger
from tests.support.fleet import Fleet
from tests.support.seeds import SOAK, seeded
from tests.support.site import Site, put

WORKERS = 4
JOBS = 2000
SLOTS = 15
# Kills of a worker that ran jobs.
LANDED = 60 if SOAK else 6


@pytest.mark.timeout(300)
@seeded
def test_a_fleet_survives_the_death_of_its_workers(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    choice = random.Random(seed)
    with site.fleet(SLOTS) as fleet:
        plant = fleet.plant(monkeypatch)
        numbers = asyncio.run(_run(site, fleet, plant, choice))
        assert fleet.landed >= LANDED
        met = site.judge(plant, numbers)
        assert met["losses"] > 0
        for name, value in ({"kills": fleet.kills} | met).items():
            record_property(name, value)


async def _run(site: Site, fleet: Fleet, plant: Any, choice: random.Random) -> dict[str, int]:
    app = plant.app
    async with app:
        site.watch()
        # With more kills there is more to do, so that every one of them hits work.
        numbers = await put(
            plant, {n: choice.uniform(0.0, 0.1) for n in range(JOBS * (5 if SOAK else 1))}
        )
        for _ in range(WORKERS - 1):
            fleet.start()
        unlucky = fleet.start()
        while fleet.landed < LANDED:
            await asyncio.sleep(choice.uniform(0.2, 0.6))
            if at_work := await fleet.at_work(app):
                victim = unlucky if unlucky in at_work else choice.choice(at_work)
                fleet.kill(victim, at_work)
                another = fleet.start()
                unlucky = another if victim is unlucky else unlucky
            else:
                assert await ledger.live(app), "there was not enough to do"
        await ledger.all_final(app, len(numbers))
    assert fleet.end() == [0] * WORKERS
    return numbers
