"""Lost and stuck jobs come back without anybody's help, and living workers are left alone."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from benbi import Benbi, Context, JobFailed, Retry, SyncContext
from benbi.errors import ConfigurationError
from benbi.store import lifecycle, workers
from benbi.store.lifecycle import ClaimRequest
from benbi.store.workers import Worker
from tests.support import wait_until_async
from tests.support.working import state_reached, working

HEARTBEAT = 1.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(path), heartbeat_timeout=HEARTBEAT) as app:
        yield app


async def claimed_by_the_dead(app: Benbi) -> None:
    """Everything in the queue "orphans" is claimed by a worker that never beats."""
    told = Worker("dead", "host", 1, 10, ["orphans"], ["work"], "0")
    worker = await app.store.write(workers.register, told)
    request = ClaimRequest(worker, 42, ["orphans"], '["work"]', 10, True)
    assert await app.store.write(lifecycle.claim, request)


async def test_rescue_needs_no_free_slot(app: Benbi) -> None:
    """Its worker is full for as long as the test lasts, and the rescued job is another's."""
    busy, over = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None: ...

    @app.task
    async def fills() -> None:
        busy.set()
        await over.wait()

    orphan = await work.options(queue="orphans").enqueue()
    async with working(app, slots=1, queues=["default"]):
        await fills.enqueue()
        await busy.wait()
        await claimed_by_the_dead(app)
        record = await state_reached(app, orphan.id, "pending", 20)
        assert (record.reason, record.losses) == ("lost", 1)
        over.set()


async def test_rescue_goes_on_after_rounds_that_failed(
    app: Benbi, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(queue="orphans")
    async def work() -> None: ...

    def rename(old: str, new: str) -> None:
        with closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")

    job = await work.enqueue()
    await claimed_by_the_dead(app)
    stop = asyncio.Event()
    with caplog.at_level(logging.WARNING, "benbi.upkeep"):
        rename("benbi_workers", "away")
        upkeep = asyncio.create_task(app.upkeep(stop))
        await wait_until_async(lambda: "a round of upkeep failed" in caplog.text)
        rename("away", "benbi_workers")
    assert (await state_reached(app, job.id, "pending", 20)).reason == "lost"
    stop.set()
    await upkeep


async def test_a_body_that_ignores_its_timeout_does_not_hold_its_job(app: Benbi) -> None:
    """A thread can not be stopped: it is left behind, its writes are refused, the job ends."""
    go_on, refused = threading.Event(), threading.Event()

    @app.task(timeout=0.1, grace=0.1, retry=Retry(attempts=1))
    def deaf(ctx: SyncContext) -> None:
        go_on.wait(20)
        try:
            ctx.partial("too late")
        except BaseException:
            refused.set()
            raise

    async with working(app):
        job = await deaf.enqueue()
        with pytest.raises(JobFailed, match="timeout"):
            await job.result(10)
        go_on.set()
        assert await asyncio.to_thread(refused.wait, 10)
    assert [event.type for event in await app.events(job.id)] == ["created", "started", "failed"]


async def test_a_worker_claims_no_more_than_it_can_run_at_once(app: Benbi) -> None:
    """No prefetch: what waits for a slot is pending, and anybody may take or cancel it."""
    begun: list[int] = []
    over = asyncio.Event()

    @app.task
    async def work(number: int) -> None:
        begun.append(number)
        await over.wait()

    handles = await app.enqueue_many([work.call(number) for number in range(10)])
    async with working(app, slots=3):
        await wait_until_async(lambda: len(begun) == 3)
        states = [(await handle.get()).state for handle in handles]
        assert (states.count("running"), states.count("pending")) == (3, 7)
        assert (await handles[-1].cancel()).state == "canceled", "at once, no worker asked"
        over.set()
        await handles[-2].result(10)


async def test_polling_finds_what_no_hint_told(path: Path) -> None:
    """The channel of hints is dead; jobs of another process start all the same."""

    class Deaf(Benbi):
        def _make_wake(self) -> None:
            return None

    def tasks_of(app: Benbi) -> Benbi:
        @app.task
        async def work() -> int:
            return 1

        return app

    async with Deaf(str(path)) as app, Benbi(str(path)) as elsewhere:
        tasks_of(app)
        work = tasks_of(elsewhere).tasks["work"]
        async with working(app):
            await wait_until_async(lambda: app.workers_here and app.workers_here[0].claimed_at)
            job = await work.enqueue()
            assert await job.result(5) == 1


@pytest.mark.parametrize("seconds", [0, -1, 0.1])
def test_a_heartbeat_that_can_not_be_kept_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="heartbeat_timeout"):
        Benbi(":memory:", heartbeat_timeout=seconds)


async def test_a_retry_and_a_rescue_of_one_job_never_both_run_it(app: Benbi) -> None:
    """The body failed while its worker was taken for dead: one of the two moves wins."""
    begun: list[int] = []
    fail = asyncio.Event()

    @app.task(retry=Retry(attempts=5, first=0.01))
    async def work(ctx: Context) -> int:
        begun.append(ctx.attempt)
        if ctx.attempt == 1:
            await fail.wait()
            raise ConnectionError("while it was buried")
        return ctx.attempt

    def bury(tx: object, worker: int) -> object:
        return workers.bury(tx, worker, workers.beats(tx)[worker])  # type: ignore[arg-type]

    async with working(app):
        job = await work.enqueue()
        await wait_until_async(lambda: begun)
        fail.set()
        await app.store.write(bury, app.workers_here[0]._n)
        result = await job.result(10)
    record = await job.get()
    assert result == record.attempt == 2
    assert begun == [1, 2]
    assert record.failures + record.losses == 1
