"""Hosts whose clocks are a minute and a half wrong, in both directions, beside a right one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from benbi.job import Event
from tests.support import ledger
from tests.support.fleet import Fleet
from tests.support.polling import wait_until_async
from tests.support.seeds import seeded
from tests.support.site import Site

CLOCKS = {"right": 0.0, "ahead": 90.0, "behind": -90.0}
SLOTS = 6
JOBS = 60
HEARTBEAT = "2"
RETRY_SECONDS = 1.0  # of ``doze``
# What the clocks of two reads may differ in: whoever reads first is not the one who writes first.
FINE = 0.05
# Nothing waits for a wrong clock: a minute and a half is far more.
LATE = 30.0


@pytest.mark.timeout(300)
@seeded
def test_a_wrong_clock_runs_nothing_early_and_buries_nobody(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(seed)
    with site.fleet(SLOTS, CRASH_HEARTBEAT=HEARTBEAT) as fleet:
        plant = fleet.plant(monkeypatch)
        delays = asyncio.run(_run(site, fleet, plant, choice))
        with site.witness() as witness:
            assert witness.disagreements() == []
        with plant.app:
            logs = ledger.all_events(plant.app)
            jobs = {job.id: job for job in plant.app.jobs_sync(limit=JOBS + 1)}
            ahead = {
                round(float(plant.app.result_json_sync(job_id)))
                for job_id, job in jobs.items()
                if job.state == "completed"
            }
    assert {job.state for job in jobs.values()} == {"completed"}
    assert ahead == {0, 90, -90}, "each of the three ran some to their ends"
    assert [e for log in logs.values() for e in log if e.reason in ("lost", "timeout")] == []
    assert not any("is lost" in member.said for member in fleet.started)
    for job_id, (delay, nap) in delays.items():
        waits = dict(_waits(logs[job_id]))
        assert list(waits) == ["created", "scheduled", "retrying"], logs[job_id]
        for why, planned in (("created", delay), ("scheduled", nap), ("retrying", RETRY_SECONDS)):
            assert planned - FINE <= waits[why] < planned + LATE, f"{job_id}: {why} {waits[why]}"


async def _run(
    site: Site, fleet: Fleet, plant: Any, choice: random.Random
) -> dict[str, tuple[float, float]]:
    """The delay and the sleep of each job."""
    app = plant.app
    delays: dict[str, tuple[float, float]] = {}
    async with app:
        site.watch()
        for clock in CLOCKS.values():
            fleet.start(CRASH_CLOCK=str(clock))
        await wait_until_async(lambda: _registered(app), 30.0, "all three work")
        for _ in range(JOBS):
            # Wherever they wait, whoever is free takes them.
            delay, nap = choice.uniform(0.2, 3.0), choice.uniform(0.2, 2.0)
            handle = await plant.doze.options(delay=delay).enqueue(nap)
            delays[handle.id] = (delay, nap)
        await ledger.all_final(app, JOBS, 60.0)
    assert fleet.end() == [0] * len(CLOCKS)
    return delays


async def _registered(app: Any) -> bool:
    return len(await app.workers()) == len(CLOCKS)


def _waits(log: list[Event]) -> Iterator[tuple[str, float]]:
    """Why the job waited, and for how long it did, by the server's clock."""
    since: Event | None = None
    for event in log:
        if event.type in ("created", "scheduled", "retrying"):
            since = event
        elif event.type == "started" and since is not None:
            yield since.type, (event.at - since.at).total_seconds()
            since = None
