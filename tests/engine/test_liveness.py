"""Alive, dead and half dead: what a worker does with claims that memory and database differ on."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from benbi import Benbi, Context
from benbi.engine.beat import Heart
from benbi.engine.worker import Worker
from benbi.store import lifecycle, workers
from benbi.store.database import Transaction
from benbi.store.lifecycle import ClaimRequest
from benbi.store.sqlite import SqliteDatabase, database
from benbi.store.store import Store
from benbi.store.workers import Held
from tests.support import wait_until, wait_until_async
from tests.support.foreign import write_lock
from tests.support.working import state_reached, working

# Beats every 0.2 s: quick for a test, slow enough for a busy machine.
HEARTBEAT = 1.0


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db"), heartbeat_timeout=HEARTBEAT) as app:
        yield app


async def worker_of(app: Benbi) -> Worker:
    """The app's one worker, once it is registered."""
    await wait_until_async(lambda: app.workers_here and app.workers_here[0]._n)
    return app.workers_here[0]


def bury_now(tx: Transaction, worker: int) -> list[int] | None:
    """As a process does that took the worker for dead."""
    return workers.bury(tx, worker, workers.beats(tx)[worker])


async def test_a_claim_whose_reply_was_lost_is_given_back(app: Benbi) -> None:
    """The claim committed, nobody runs it, and its worker goes on beating."""

    @app.task
    async def work(ctx: Context) -> int:
        return ctx.attempt

    @app.task(queue="side")
    async def aside(ctx: Context) -> int:
        return ctx.attempt

    job = await aside.enqueue()
    async with working(app, queues=["default"]):
        worker = await worker_of(app)
        request = ClaimRequest(
            worker._n, secrets.randbits(62), ["side"], json.dumps(["aside"]), 1, True
        )
        assert len(await app.store.write(lifecycle.claim, request)) == 1
        record = await state_reached(app, job.id, "pending")
        assert (record.reason, record.losses, record.failures) == ("unheld", 0, 0)
    async with working(app):
        assert await job.result(10) == 2


async def test_a_worker_that_was_taken_for_dead_starts_again(app: Benbi) -> None:
    begun: list[int] = []
    unwound: list[int] = []
    late: list[str] = []

    @app.task
    async def long(ctx: Context) -> int:
        begun.append(ctx.attempt)
        if ctx.attempt > 1:
            return ctx.attempt
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append(ctx.attempt)
            try:
                await ctx.partial("too late")
            except BaseException as error:
                late.append(type(error).__name__)
                raise
        return 0

    async with working(app):
        job = await long.enqueue()
        worker = await worker_of(app)
        first = worker._n
        await wait_until_async(lambda: begun)
        assert await app.store.write(bury_now, first)
        assert await job.result(10) == 2
        await wait_until_async(lambda: unwound)
        assert worker._n != first
    record = await job.get()
    assert (record.losses, record.attempt) == (1, 2)
    assert late == ["Abandon"]
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "started", "pending", "started", "completed")
    ]


async def test_a_busy_body_does_not_make_its_worker_look_dead(app: Benbi, tmp_path: Path) -> None:
    """It never yields for longer than the timeout; the beat has a thread of its own."""

    @app.task
    async def stubborn() -> str:
        end = time.monotonic() + 2.5 * HEARTBEAT
        while time.monotonic() < end:
            pass
        return "done"

    watched = threading.Event()

    def watch() -> None:
        async def upkeep() -> None:
            async with Benbi(str(tmp_path / "jobs.db"), heartbeat_timeout=HEARTBEAT) as other:
                stop = asyncio.Event()
                task = asyncio.create_task(other.upkeep(stop))
                while not watched.is_set():
                    await asyncio.sleep(0.05)
                stop.set()
                await task

        asyncio.run(upkeep())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        async with working(app):
            job = await stubborn.enqueue()
            assert await job.result(20) == "done"
    finally:
        watched.set()
        await asyncio.to_thread(thread.join)
    record = await job.get()
    assert (record.attempt, record.losses) == (1, 0)


async def test_a_worker_in_memory_is_taken_for_dead_by_nobody() -> None:
    async with Benbi(":memory:", heartbeat_timeout=0.5) as app:

        @app.task
        async def long(ctx: Context) -> int:
            await asyncio.sleep(1.5)
            return ctx.attempt

        async with working(app):
            job = await long.enqueue()
            assert await job.result(10) == 1
        assert (await job.get()).losses == 0


HALF_DEAD = """
import asyncio, sys, time
import benbi.engine.worker
benbi.engine.worker.LOOP_BLOCK_LIMIT = 1.0
from benbi import Benbi

app = Benbi(sys.argv[1], heartbeat_timeout=0.5)

@app.task
async def blocks() -> None:
    time.sleep(60)

async def main() -> None:
    await blocks.enqueue()
    await app.work()

asyncio.run(main())
"""


def test_a_worker_whose_loop_is_stuck_ends_its_process(tmp_path: Path) -> None:
    """A broken worker must not look alive: supervisors and other workers see its end."""
    done = subprocess.run(
        [sys.executable, "-c", HALF_DEAD, str(tmp_path / "jobs.db")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 70, done.stderr
    assert "the event loop has not turned" in done.stderr


class Stuck:
    """A worker whose writes have come to nothing since it began; it notes what its heart says."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.beats: list[float] = []
        self.ended = threading.Event()

    def reconcile(self, worker_n: int, held: dict[int, Held]) -> None:
        self.beats.append(time.monotonic())

    def buried(self, worker_n: int) -> None: ...

    def half_dead(self, why: str) -> None:
        self.ended.set()

    def ping(self, answer: Callable[[], None]) -> None:
        answer()

    def stalled(self) -> float | None:
        return time.monotonic() - self.began


def test_after_an_outage_the_writer_has_as_long_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beat got through again first, and what the writer has to do is as old as the outage."""
    monkeypatch.setattr(database, "FOREIGN_WRITER_SECONDS", 0.1)
    store = Store(SqliteDatabase(str(tmp_path / "jobs.db")))
    store.open()
    n = store.write_sync(
        workers.register, workers.Worker("stuck", "host", 1, 1, ["default"], ["work"], "0")
    )
    worker = Stuck()
    heart = Heart(store.database, n, worker, heartbeat_timeout=HEARTBEAT, loop_block_limit=60.0)
    heart.start()
    wait_until(lambda: worker.beats)
    with write_lock(tmp_path / "jobs.db"):
        before = len(worker.beats)
        time.sleep(HEARTBEAT * 1.5)
        assert not worker.ended.is_set(), "nobody can write"
    wait_until(lambda: len(worker.beats) > before + 1)
    assert worker.ended.wait(20), "the beat works, and the writer does not"
    assert time.monotonic() - worker.beats[before + 1] >= 0.7 * HEARTBEAT
    heart.stop(10)
    store.close()


async def test_a_lost_claim_stops_the_body_at_its_next_step(app: Benbi) -> None:
    """Told at its next write, not only by the next beat."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    effects: list[int] = []

    async def effect(number: int) -> int:
        effects.append(number)
        return number

    @app.task
    async def steps(ctx: Context) -> int:
        if ctx.attempt > 1:
            return ctx.attempt
        begun.set()
        await go_on.wait()
        await ctx.step(effect)(1)
        await ctx.step(effect)(2)
        return 0

    def take_away(tx: Transaction, worker: int) -> list[int]:
        ((n, token, _),) = tx.rows("held", worker=worker)
        return workers.release(tx, worker, [(n, token)], "unheld")

    async with working(app):
        job = await steps.enqueue()
        worker = await worker_of(app)
        await begun.wait()
        await app.store.write(take_away, worker._n)
        go_on.set()
        assert await job.result(10) == 2
    assert effects == [1], "the second step never began"


async def test_each_worker_says_how_long_it_may_be_silent(app: Benbi) -> None:
    @app.task
    async def work() -> None: ...

    async with working(app):
        worker = await worker_of(app)
        _, patience = await app.store.read(workers.watched)
        assert patience == {worker._n: HEARTBEAT}
