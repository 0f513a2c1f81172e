"""The server dies and comes back, drops connections, has none left: the fleet goes on, and nobody
is taken for dead on that account."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest

from tests.support import ledger
from tests.support.fleet import Fleet
from tests.support.polling import wait_until_async
from tests.support.seeds import SOAK, seeded
from tests.support.server import CONNECTIONS
from tests.support.site import Site, put

WORKERS = 3
SLOTS = 10
JOBS = 2000 if SOAK else 400
HEARTBEAT = 2.5
# Whoever could look meanwhile would take everybody for dead.
AWAY_SECONDS = 1.4 * HEARTBEAT
STREAM_SECONDS = 8.0 if SOAK else 2.0
CROWD_SECONDS = 1.5
CUT_ONE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'benbi'"
    " AND datname = current_database() ORDER BY random() LIMIT 1"
)
CUT_ALL = CUT_ONE.removesuffix(" ORDER BY random() LIMIT 1")


@pytest.mark.timeout(300)
@seeded
def test_a_fleet_survives_what_its_server_does(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    choice = random.Random(seed)
    with site.fleet(SLOTS, CRASH_HEARTBEAT=str(HEARTBEAT)) as fleet:
        plant = fleet.plant(monkeypatch)
        numbers = asyncio.run(_run(site, fleet, plant, choice))
        met = site.judge(plant, numbers)
        assert met["losses"] == 0, "an outage is nobody's death"
        for member in fleet.started:
            assert "was taken for dead" not in member.said
            assert "Traceback" not in member.said, member.said
        record_property("repeated effects", met["repeated effects"])


async def _run(site: Site, fleet: Fleet, plant: Any, choice: random.Random) -> dict[str, int]:
    app = plant.app
    acts: list[Callable[[Site, random.Random], Awaitable[None]]] = [
        *(_restart, _restart, _restart, _stay_away),
        *(_cut_one_after_the_other, _take_all_connections),
    ]
    choice.shuffle(acts)
    async with app:
        site.watch()
        numbers = await put(plant, {n: choice.uniform(0.0, 0.5) for n in range(JOBS)})
        for _ in range(WORKERS):
            fleet.start()
        # Who starts while the server is away ends at once: that is another matter.
        await wait_until_async(lambda: _all_at_work(fleet, app), 30.0, "each works")
        for act in acts:
            await wait_until_async(lambda: fleet.at_work(app), 30.0, "somebody works")
            await asyncio.sleep(choice.uniform(0.0, 0.5))
            await act(site, choice)
            # There must be something for the next act to disturb.
            if await ledger.live(app) < JOBS // 4:
                first = len(numbers)
                more = {n: choice.uniform(0.0, 0.5) for n in range(first, first + JOBS // 4)}
                numbers |= await put(plant, more)
        await ledger.all_final(app, len(numbers))
    assert fleet.end() == [0] * WORKERS
    return numbers


async def _restart(site: Site, choice: random.Random) -> None:
    await asyncio.to_thread(site.server.restart, "immediate")


async def _stay_away(site: Site, choice: random.Random) -> None:
    await asyncio.to_thread(site.server.stop, "immediate")
    try:
        await asyncio.sleep(AWAY_SECONDS)
    finally:
        await asyncio.to_thread(site.server.start)


async def _cut_one_after_the_other(site: Site, choice: random.Random) -> None:
    deadline = time.monotonic() + STREAM_SECONDS
    with site.server.connect(site.url) as connection:
        while time.monotonic() < deadline:
            await asyncio.to_thread(connection.execute, CUT_ONE)
            await asyncio.sleep(choice.uniform(0.01, 0.1))


async def _take_all_connections(site: Site, choice: random.Random) -> None:
    """Whoever loses a connection now gets none, for a while."""
    await asyncio.to_thread(_crowd, site)


def _crowd(site: Site) -> None:
    with ExitStack() as crowd:
        first = crowd.enter_context(site.server.connect(site.url))
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            for _ in range(CONNECTIONS + 1):
                crowd.enter_context(site.server.connect())
        first.execute(CUT_ALL)
        deadline = time.monotonic() + CROWD_SECONDS
        while time.monotonic() < deadline:
            # Whatever becomes free is taken at once.
            with suppress(psycopg.OperationalError):
                crowd.enter_context(site.server.connect())
            time.sleep(0.01)


@pytest.mark.timeout(300)
def test_workers_end_while_their_server_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they could not give back is found by whoever comes next."""

    async def run(fleet: Fleet, plant: Any) -> dict[str, int]:
        app = plant.app
        async with app:
            site.watch()
            numbers = await put(plant, dict.fromkeys(range(8), 0.9))
            for _ in range(2):
                fleet.start()
            await wait_until_async(lambda: _all_at_work(fleet, app), 30.0, "each works")
            await asyncio.to_thread(site.server.stop, "immediate")
            try:
                assert await asyncio.to_thread(fleet.end) == [0, 0]
            finally:
                await asyncio.to_thread(site.server.start)
            fleet.start()
            await ledger.all_final(app, len(numbers))
        assert fleet.end() == [0]
        return numbers

    # What was lost runs one at a time.
    with site.fleet(2) as fleet:
        plant = fleet.plant(monkeypatch)
        met = site.judge(plant, asyncio.run(run(fleet, plant)))
        assert met["losses"] > 0


async def _all_at_work(fleet: Fleet, app: Any) -> bool:
    return len(await fleet.at_work(app)) == len(fleet.members)
