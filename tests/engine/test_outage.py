"""An outage, a burial or a job that lost its worker must not set a worker against itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benbi import Benbi, Context
from benbi.engine.upkeep import Upkeep
from benbi.engine.worker import Worker
from benbi.store import workers
from benbi.store.database import Transaction
from benbi.store.sqlite import database
from tests.support import wait_until_async
from tests.support.foreign import write_lock
from tests.support.working import state_reached, working

HEARTBEAT = 1.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def bury_now(tx: Transaction, worker: int) -> list[int] | None:
    """As a process does that took the worker for dead."""
    return workers.bury(tx, worker, workers.beats(tx)[worker])


async def worker_of(app: Benbi) -> Worker:
    """The app's one worker, once it is registered."""
    await wait_until_async(lambda: app.workers_here and app.workers_here[0]._n)
    return app.workers_here[0]


async def test_a_burial_that_a_claim_brings_to_light_is_one_burial(path: Path) -> None:
    """The claim hears of it before the beat does. The old heart must not speak for the new life."""
    async with Benbi(str(path), heartbeat_timeout=HEARTBEAT) as app:

        @app.task
        async def quick() -> int:
            return 1

        @app.task(max_losses=99)
        async def long(ctx: Context) -> int:
            # Longer than two beats, after which a claim that the database has not is given up.
            await asyncio.sleep(HEARTBEAT * 1.2)
            return ctx.attempt

        async with working(app):
            worker = await worker_of(app)
            await app.store.write(bury_now, worker._n)
            assert await (await quick.enqueue()).result(10) == 1
            second = worker._n
            job = await long.enqueue()
            assert await job.result(10) == 1
            assert worker._n == second
            assert list(await app.store.read(workers.beats)) == [second]
        assert [event.type for event in await app.events(job.id)] == [
            *("created", "started", "completed")
        ]


async def test_what_may_not_run_beside_another_does_not_keep_its_worker_busy(path: Path) -> None:
    """Of jobs that lost a worker one runs at a time; the others are seen, and not claimed."""
    async with Benbi(str(path)) as app:

        @app.task(max_losses=9)
        async def heavy() -> None:
            await asyncio.sleep(0.5)

        jobs = [await heavy.enqueue() for _ in range(2)]
        doomed = await app.store.write(
            workers.register, workers.Worker("doomed", "host", 1, 2, ["default"], ["heavy"], "0")
        )
        await app.store.write(_claim_all, doomed)
        await app.store.write(bury_now, doomed)
        async with working(app):
            await wait_until_async(lambda: app.workers_here and app.workers_here[0].claimed_at)
            worker = app.workers_here[0]
            await wait_until_async(lambda: worker._slots.fragile)
            looks: list[float] = []

            def looked() -> bool:
                if worker.claimed_at not in looks:
                    looks.append(worker.claimed_at or 0.0)
                return len(worker._slots) == 0

            await wait_until_async(looked)
            assert len(looks) < 20, "it waits for news, or for its poll"
            for job in jobs:
                await state_reached(app, job.id, "completed")


def _claim_all(tx: Transaction, worker: int) -> None:
    from benbi.store import lifecycle

    request = lifecycle.ClaimRequest(worker, 1, ["default"], '["heavy"]', 9, True)
    assert len(lifecycle.claim(tx, request)) == 2


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[None]:
    """Another process looks after the database: in a thread, with an app of its own."""
    over = threading.Event()

    async def upkeep() -> None:
        async with Benbi(str(path), heartbeat_timeout=HEARTBEAT) as other:
            stop = asyncio.Event()
            task = asyncio.create_task(other.upkeep(stop))
            while not over.is_set():
                await asyncio.sleep(0.02)
            stop.set()
            await task

    thread = threading.Thread(target=lambda: asyncio.run(upkeep()))
    thread.start()
    try:
        yield
    finally:
        over.set()
        await asyncio.to_thread(thread.join)


async def test_while_nobody_can_write_nobody_is_dead(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign program holds the write lock for longer than the heartbeat's timeout: no beat
    gets through, and the first to write afterwards must not be a burial of the living."""
    monkeypatch.setattr(database, "FOREIGN_WRITER_SECONDS", 0.2)
    go_on = asyncio.Event()
    async with Benbi(str(path), heartbeat_timeout=HEARTBEAT) as app:

        @app.task
        async def long(ctx: Context) -> int:
            await go_on.wait()
            return ctx.attempt

        async with working(app), watching(path):
            job = await long.enqueue()
            await state_reached(app, job.id, "running")
            await asyncio.sleep(HEARTBEAT / 2)
            with write_lock(path):
                await asyncio.sleep(HEARTBEAT * 2)
            await asyncio.sleep(HEARTBEAT)
            go_on.set()
            assert await job.result(10) == 1
        assert (await job.get()).losses == 0


async def test_the_dead_are_buried_all_the_same(path: Path) -> None:
    async with Benbi(str(path), heartbeat_timeout=HEARTBEAT) as app:
        dead = await app.store.write(
            workers.register, workers.Worker("dead", "host", 1, 2, ["default"], ["work"], "0")
        )
        upkeep = Upkeep(app.store, heartbeat_timeout=HEARTBEAT)
        loop = asyncio.get_running_loop()
        started = loop.time()
        while dead in await app.store.read(workers.beats):
            await upkeep.round()
            await asyncio.sleep(HEARTBEAT / 10)
            assert loop.time() - started < 2 * HEARTBEAT + 2
        assert loop.time() - started >= HEARTBEAT
