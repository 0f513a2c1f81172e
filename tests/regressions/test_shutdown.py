"""A worker ends when it should: within its time, with nothing lost and nothing counted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import benbi.engine.worker
import benbi.store.sqlite.database
from benbi import Benbi, Context
from benbi.errors import StoreBusy
from benbi.store.database import Transaction
from tests.support import wait_until_async
from tests.support.foreign import write_lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(path)) as app:
        yield app


async def test_a_worker_ends_in_time_while_somebody_holds_the_database(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benbi.engine.worker, "SIGN_OFF_SECONDS", 0.3)
    monkeypatch.setattr(benbi.store.sqlite.database, "FOREIGN_WRITER_SECONDS", 0.2)
    app = Benbi(str(path))
    begun, stop = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(ctx: Context) -> int:
        begun.set()
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    job = await work.enqueue()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.2))
    await begun.wait()
    with write_lock(path):
        stop.set()
        started = time.monotonic()
        assert await worker == 1, "one job could not be given back"
        await app.close()
        assert time.monotonic() - started < 10
    async with app:
        assert (await app.get(job.id)).state == "running", "others will find it lost"


async def test_a_claim_that_commits_during_the_drain_is_given_back(app: Benbi) -> None:
    """The worker was told to end while its claim waited for its turn to write."""
    begun: list[int] = []

    @app.task(grace=0.1)
    async def work(ctx: Context) -> None:
        begun.append(ctx.attempt)
        await asyncio.Event().wait()

    gates = [threading.Event() for _ in range(3)]

    def hold(_: Transaction, gate: threading.Event) -> None:
        gate.wait(10)

    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.1))
    await wait_until_async(lambda: app.workers_here and app.workers_here[0].claimed_at)
    # One of the claim's lane in each round of the writer: the job commits between the first and
    # the second, and its claim stands behind the third, however fast the worker is.
    lane = app.store._batcher._lanes["workers"].waiting
    holds = [
        asyncio.create_task(app.store._batcher.put("workers", (hold, (gate,), {})))
        for gate in gates
    ]
    await wait_until_async(lambda: len(lane) == 2, what="the first is under way")
    enqueueing = asyncio.create_task(work.enqueue())
    await wait_until_async(lambda: app.store._batcher._lanes["enqueue"].waiting)
    gates[0].set()
    job = await enqueueing
    await wait_until_async(lambda: len(lane) == 2 and lane[-1].item[0] is not hold)
    stop.set()
    for gate in gates:
        gate.set()
    await asyncio.gather(worker, *holds)
    record = await job.get()
    assert (record.state, record.attempt) == ("pending", 1), "claimed, and given back"
    assert (record.failures, record.losses) == (0, 0)
    assert [event.type for event in await app.events(job.id)] == ["created", "started", "pending"]


async def test_a_database_that_somebody_holds_is_told_as_busy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody hangs for ever at a BEGIN: the caller is told, and nothing was stored."""
    monkeypatch.setattr(benbi.store.sqlite.database, "FOREIGN_WRITER_SECONDS", 0.1)
    app = Benbi(str(path))

    @app.task
    async def work() -> None: ...

    async with app:
        app.store._batcher._busy_seconds = 0.2
        with write_lock(path), pytest.raises(StoreBusy, match="another program holds"):
            await work.enqueue()
        assert await app.jobs() == []
        await work.enqueue()
        assert len(await app.jobs()) == 1
