"""Others hold back what the server could clean up, and more jobs come than workers can run."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from benbi.processes.memory import resident_bytes
from tests.support.fleet import Fleet
from tests.support.polling import wait_until_async
from tests.support.seeds import SOAK, seeded
from tests.support.site import Site

WORKERS = 2
SLOTS = 50
# In each part. What is held back slows down only what has much of it.
JOBS = 40_000 if SOAK else 3_000
# Of the clean rate, while a transaction is held. In CI another test runs beside this one.
LEAST = 0.8 if SOAK else 0.3
READERS = 4
OVERLOAD_SECONDS = 60.0 if SOAK else 2.0
OVERLOAD = 1.5
# Of a worker's memory, between a drain and the end of the overload.
MORE_BYTES = 40 * 2**20


@pytest.mark.timeout(600)
@seeded
def test_a_fleet_survives_what_others_do_to_its_server(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    with site.fleet(SLOTS) as fleet:
        plant = fleet.plant(monkeypatch)
        rates = asyncio.run(_Pressure(site, fleet, plant, random.Random(seed)).run())
        for name, rate in rates.items():
            record_property(name, round(rate))
        with site.witness() as witness:
            assert witness.disagreements() == []
        counted = site.look("SELECT state, losses, count(*) FROM benbi.jobs GROUP BY 1, 2")
        assert [row[:2] for row in counted] == [("completed", 0)]
        assert rates["held"] >= LEAST * rates["clean"], rates


class _Pressure:
    """One fleet; the clean rate, then one pressure after the other upon it."""

    def __init__(self, site: Site, fleet: Fleet, plant: Any, choice: random.Random) -> None:
        self.site = site
        self.fleet = fleet
        self.plant = plant
        self.choice = choice
        self.put = 0

    async def run(self) -> dict[str, float]:
        rates: dict[str, float] = {}
        async with self.plant.app:
            self.site.watch()
            for _ in range(WORKERS):
                self.fleet.start()
            await wait_until_async(self._all_registered, 30.0, "the fleet is there")
            await self._drain(JOBS // 4)
            rates["clean"] = await self._drain(JOBS)
            before = self._memory()
            with _held_transaction(self.site):
                rates["held"] = await self._drain(JOBS)
                with _readers(self.site, self.choice):
                    rates["read"] = await self._drain(JOBS)
                    await self._overload(rates["clean"] * OVERLOAD)
                    assert self._memory() - before < MORE_BYTES * WORKERS, "memory grows"
                    # With as much to do as there is, under all of it.
                    assert self.fleet.end(self.choice.choice(self.fleet.members)) == [0]
            self.fleet.start()
            await self._all_done()
            rates["after"] = await self._drain(JOBS)
        assert self.fleet.end() == [0] * WORKERS
        return rates

    async def _drain(self, jobs: int) -> float:
        """Jobs per second."""
        await self._put(jobs)
        began = time.monotonic()
        await self._all_done()
        return jobs / (time.monotonic() - began)

    async def _put(self, jobs: int) -> None:
        squared = self.plant.squared
        calls = [squared.call(n) for n in range(self.put, self.put + jobs)]
        await self.plant.app.enqueue_many(calls, atomic=False)
        self.put += jobs

    async def _all_done(self) -> None:
        await wait_until_async(self._none_live, 120.0, "all jobs have ended")

    async def _none_live(self) -> bool:
        live = "SELECT EXISTS (SELECT 1 FROM benbi.jobs WHERE state IN ('pending', 'running'))"
        return await asyncio.to_thread(self.site.look, live) == [(False,)]

    async def _overload(self, rate: float) -> None:
        """So many jobs per second, whatever the workers can do."""
        began, done = time.monotonic(), self.put
        while (passed := time.monotonic() - began) < OVERLOAD_SECONDS:
            due = int(passed * rate) - (self.put - done)
            if due > 0:
                await self._put(min(due, 1000))
            else:
                await asyncio.sleep(0.01)

    async def _all_registered(self) -> bool:
        return len(await self.plant.app.workers()) == WORKERS

    def _memory(self) -> int:
        return sum(resident_bytes(member.pid) for member in self.fleet.members)


@contextmanager
def _held_transaction(site: Site) -> Iterator[None]:
    """Somebody has written, sees what was there then, and forgets to end it."""
    with site.server.connect(site.url) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT pg_current_xact_id()")
        yield


@contextmanager
def _readers(site: Site, choice: random.Random) -> Iterator[None]:
    """Reports are made of the tables in which everything happens, each from one snapshot."""
    over = threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            with site.server.connect(site.url) as connection:
                while not over.is_set():
                    with connection.transaction():
                        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                        for table, column in (("jobs", "task"), ("events", "type")):
                            connection.execute(f"SELECT max(length({column})) FROM benbi.{table}")
                            over.wait(choice.uniform(0.0, 0.4))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(READERS)]
    with ExitStack() as stack:
        stack.callback(over.set)
        for thread in threads:
            thread.start()
        yield
    for thread in threads:
        thread.join()
    assert failed == []
