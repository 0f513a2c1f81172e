"""The server's disk is full, by a table of somebody else's; then that one goes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support import ledger
from tests.support.fleet import Fleet
from tests.support.polling import wait_until, wait_until_async
from tests.support.seeds import SOAK, seeded
from tests.support.server import Server, server
from tests.support.site import Site, put, site_on

MEBIBYTES = 40
WORKERS = 2
SLOTS = 10
JOBS = 1500 if SOAK else 300
# After the first worker has said that the disk is full.
FULL_SECONDS = 10.0 if SOAK else 2.0
FULL = "the disk of the server is full"
# What the parts of a worker say of it, once, and of its end.
TOLD = {
    "the worker waits for the database": "the worker goes on",
    "finishes can not be stored": "finishes are stored again",
    "upkeep waits for the database": "upkeep goes on",
    "a beat failed": "beats are heard again",
}
# In MiB and then by pages, until not one is left.
PIECES = (1_000_000, 7000)


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    with server(MEBIBYTES) as started:
        yield started


@pytest.fixture
def site(small_server: Server, tmp_path: Path) -> Iterator[Site]:
    with site_on(small_server, tmp_path, "TABLESPACE small") as made:
        yield made


@pytest.mark.timeout(300)
@seeded
def test_workers_wait_until_there_is_room(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    choice = random.Random(seed)
    with site.fleet(SLOTS, CRASH_HEARTBEAT="30") as fleet:
        plant = fleet.plant(monkeypatch)
        numbers = asyncio.run(_run(site, fleet, plant, choice))
        for name, value in site.judge(plant, numbers).items():
            record_property(name, value)
        for member in fleet.started:
            for begins, is_over in TOLD.items():
                # Not for each attempt.
                assert member.said.count(begins) == member.said.count(is_over), member.said


async def _run(site: Site, fleet: Fleet, plant: Any, choice: random.Random) -> dict[str, int]:
    app = plant.app
    async with app:
        site.watch()
        numbers = await put(plant, {n: choice.uniform(0.0, 0.3) for n in range(JOBS)})
        for _ in range(WORKERS):
            fleet.start()
        await wait_until_async(lambda: fleet.at_work(app), 30.0, "somebody works")
        await asyncio.sleep(choice.uniform(0.0, 1.0))
        await asyncio.to_thread(_fill, site)
        await asyncio.to_thread(
            wait_until, lambda: any(FULL in one.said for one in fleet.members), 60.0, "it is said"
        )
        before = await _finished(app)
        await asyncio.sleep(FULL_SECONDS)
        assert await _finished(app) < JOBS, "there was room for everything"
        assert await _finished(app) - before < JOBS / 2
        await asyncio.to_thread(_make_room, site)
        await ledger.all_final(app, len(numbers))
    assert fleet.end() == [0] * WORKERS
    return numbers


async def _finished(app: Any) -> int:
    return JOBS - await ledger.live(app)


def _make_room(site: Site) -> None:
    with site.server.connect(site.url) as connection:
        connection.execute("DROP TABLE ballast")


def _fill(site: Site) -> None:
    with site.server.connect(site.url) as connection:
        connection.execute("CREATE TABLE ballast (body text)")
        connection.execute("ALTER TABLE ballast ALTER body SET STORAGE EXTERNAL")
        for size in PIECES:
            with pytest.raises(psycopg.errors.DiskFull):
                while True:
                    connection.execute("INSERT INTO ballast VALUES (repeat('x', %s))", [size])
