"""A worker's host is cut off from the database, and nobody is told; then the network is back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from benbi.engine.worker import SIGN_OFF_SECONDS
from tests.support import ledger
from tests.support.fleet import GRACE, Fleet, Member
from tests.support.polling import wait_until_async
from tests.support.proxy import Proxy
from tests.support.seeds import SOAK, seeded
from tests.support.site import Site, put

HEARTBEAT = 1.5
SLOTS = 4
JOBS = 60
# Of the first cut, beyond the time after which the worker is taken for dead.
LONGEST = 30.0 if SOAK else 3.0
# For a busy machine, and for what a process does beside.
SLACK = 7.0


@pytest.mark.timeout(300)
@seeded
def test_a_worker_that_was_cut_off_ends_nothing_and_goes_on(
    seed: int, site: Site, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    choice = random.Random(seed)
    with (
        Proxy(site.server.port) as proxy,
        site.fleet(SLOTS, CRASH_HEARTBEAT=str(HEARTBEAT)) as fleet,
    ):
        plant = fleet.plant(monkeypatch)
        numbers = asyncio.run(_Cut(site, fleet, plant, proxy, choice).run())
        met = site.judge(plant, numbers)
        for name, value in met.items():
            record_property(name, value)


class _Cut:
    """One worker beyond the network, and after a while one beside the database."""

    def __init__(
        self, site: Site, fleet: Fleet, plant: Any, proxy: Proxy, choice: random.Random
    ) -> None:
        self.site = site
        self.fleet = fleet
        self.plant = plant
        self.proxy = proxy
        self.choice = choice

    async def run(self) -> dict[str, int]:
        async with self.plant.app:
            self.site.watch()
            numbers = await put(self.plant, {n: self.choice.uniform(0.2, 0.6) for n in range(JOBS)})
            beyond = self.fleet.start(CRASH_DB=beyond_of(self.site, self.proxy))
            await wait_until_async(self._full, 30.0, "the worker has its slots full")
            await asyncio.sleep(self.choice.uniform(0.0, 0.3))
            self.proxy.cut()
            # It may have ended some since, and begun others.
            held = await self._running()
            beside = self.fleet.start()
            await wait_until_async(only(self.plant, beside), 30.0, "it is taken for dead")
            await asyncio.sleep(self.choice.uniform(0.0, LONGEST))
            self.proxy.let_through()
            await wait_until_async(
                lambda: "it starts again" in beyond.said, 60.0, "it hears that it was"
            )
            await ledger.all_final(self.plant.app, JOBS)
            self._check_first(held, beyond)
            assert await asyncio.to_thread(self.fleet.end, beside) == [0]
            numbers |= await self._work_alone(beyond)
        return numbers

    async def _full(self) -> bool:
        """Whether as many jobs run as the one worker can run."""
        return len(await self._running()) == SLOTS

    async def _running(self) -> list[str]:
        return [job.id for job in await self.plant.app.jobs(state="running", limit=JOBS)]

    def _check_first(self, held: list[str], beyond: Member) -> None:
        """Jobs that it had went elsewhere, and what it brought late was refused."""
        events = self.site.look(
            "SELECT j.id::text, e.type FROM benbi.events AS e JOIN benbi.jobs AS j ON j.n = e.job_n"
            " WHERE e.reason = 'lost'"
        )
        lost = {job_id for job_id, _ in events}
        assert lost, "it held jobs, and nobody took them from it"
        assert lost <= set(held), "nobody else lost anything"
        assert "is no longer held by attempt" in beyond.said

    async def _work_alone(self, beyond: Member) -> dict[str, int]:
        """It works as before."""
        more = {n: self.choice.uniform(0.1, 0.3) for n in range(JOBS, JOBS + 20)}
        numbers = await put(self.plant, more)
        await ledger.all_final(self.plant.app, JOBS + len(numbers))
        assert await asyncio.to_thread(self.fleet.end, beyond) == [0]
        return numbers


@pytest.mark.timeout(300)
def test_workers_that_are_cut_off_end_when_they_are_told_to(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a beat, a look or the record of a step would wait for an answer."""
    jobs = 2

    async def run(proxy: Proxy, fleet: Fleet, plant: Any) -> dict[str, int]:
        async with plant.app:
            site.watch()
            numbers = await put(plant, dict.fromkeys(range(jobs), 6.0))
            beyond = {"CRASH_DB": beyond_of(site, proxy), "CRASH_HEARTBEAT": "5"}
            busy = fleet.start(**beyond)
            await wait_until_async(lambda: _all_run(plant, jobs), 30.0, "one runs them")
            idle = fleet.start(**beyond)
            await wait_until_async(lambda: "· queues" in idle.said, 30.0, "the other one looks")
            assert await only(plant, busy, idle)()
            proxy.cut()
            # The next beats, the next looks and the records of steps are stuck.
            await asyncio.sleep(1.5)
            began = time.monotonic()
            assert await asyncio.to_thread(fleet.end) == [0, 0]
            assert time.monotonic() - began < GRACE + SIGN_OFF_SECONDS + SLACK
            heir = fleet.start()
            await wait_until_async(only(plant, heir), 30.0, "those that are gone are buried")
            await ledger.all_final(plant.app, len(numbers))
        assert fleet.end() == [0]
        return numbers

    with Proxy(site.server.port) as proxy, site.fleet(SLOTS) as fleet:
        plant = fleet.plant(monkeypatch)
        numbers = asyncio.run(run(proxy, fleet, plant))
        assert site.judge(plant, numbers)["losses"] == jobs


async def _all_run(plant: Any, jobs: int) -> bool:
    return len(await plant.app.jobs(state="running", limit=jobs + 1)) == jobs


def only(plant: Any, *members: Member) -> Callable[[], Awaitable[bool]]:
    """Whether these and no others are registered."""

    async def registered() -> bool:
        pids = {worker.pid for worker in await plant.app.workers()}
        return pids == {member.pid for member in members}

    return registered


def beyond_of(site: Site, proxy: Proxy) -> str:
    """The database's URL by way of the network."""
    return urlsplit(site.url)._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl()
