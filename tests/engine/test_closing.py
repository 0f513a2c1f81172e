"""The end of an app: nobody is left waiting, nothing goes on in secret."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benbi import Benbi, ConfigurationError, SyncContext
from benbi.errors import StoreError
from tests.support import wait_until, wait_until_async
from tests.support.foreign import write_lock
from tests.support.working import state_reached


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def test_who_follows_is_told_of_the_close(path: Path) -> None:
    app = Benbi(str(path))

    @app.task
    async def work() -> None: ...

    seen: list[str] = []
    job = await work.enqueue()

    async def follow() -> None:
        async for event in app.follow(job.id):
            seen.append(event.type)

    async def follow_all() -> None:
        async for event in app.follow_all(cursor=0):
            seen.append(event.type)

    waiting = [
        asyncio.create_task(follow()),
        asyncio.create_task(follow_all()),
        asyncio.create_task(app.wait_for_change(job.id, after=99, timeout=60)),
    ]
    await wait_until_async(lambda: len(seen) == 2)
    await app.close()
    for waiter in waiting:
        with pytest.raises(StoreError, match="closed"):
            await asyncio.wait_for(waiter, 5)
    assert app._connections._store is None, "nobody who waited has opened it again"


async def test_after_a_close_the_app_can_be_followed_again(path: Path) -> None:
    app = Benbi(str(path))

    @app.task
    async def work() -> None: ...

    job = await work.enqueue()
    first = asyncio.create_task(app.wait_for_change(job.id, after=99, timeout=60))
    await asyncio.sleep(0)
    await app.close()
    with suppress(StoreError):
        await first
    second = asyncio.create_task(app.wait_for_change(job.id, after=1, timeout=60))
    await asyncio.sleep(0.1)
    await job.cancel()
    assert (await asyncio.wait_for(second, 5)).state == "canceled"
    await app.close()


async def test_what_is_queued_at_the_close_is_committed_or_refused(path: Path) -> None:
    app = Benbi(str(path))

    @app.task
    async def work(number: int) -> None: ...

    await app.migrate()
    putting = [asyncio.create_task(work.enqueue(number)) for number in range(300)]
    await asyncio.sleep(0)
    await app.close()
    ended = await asyncio.wait_for(asyncio.gather(*putting, return_exceptions=True), 10)
    accepted = [handle for handle in ended if not isinstance(handle, BaseException)]
    assert all(isinstance(end, StoreError) for end in ended if isinstance(end, BaseException))
    assert len(accepted) > 0
    assert {job.id for job in await app.jobs(limit=500)} == {handle.id for handle in accepted}
    await app.close()


@pytest.mark.parametrize("how", ["close", "close_sync"])
async def test_workers_in_other_loops_are_drained_too(path: Path, how: str) -> None:
    app = Benbi(str(path))

    @app.task
    async def work() -> int:
        return 1

    left: list[int] = []
    thread = threading.Thread(target=lambda: left.append(asyncio.run(app.work())))
    thread.start()
    job = await work.enqueue()
    assert await job.result(10) == 1
    if how == "close":
        await app.close()
    else:
        await asyncio.to_thread(app.close_sync)
    await asyncio.to_thread(thread.join, 5)
    assert left == [0]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM benbi_workers").fetchone() == (0,)
    connection.close()


async def test_a_job_may_cancel_itself_and_enqueue_others(path: Path) -> None:
    """From the one slot there is: nothing that a job calls waits for a slot."""
    async with Benbi(str(path), slots=1) as app:

        @app.task
        async def child() -> None: ...

        @app.task
        def parent(ctx: SyncContext) -> str:
            handle = child.options(delay=100).enqueue_sync()
            handle.cancel_sync()
            app.cancel_sync(ctx.job_id)
            return handle.id

        stop = asyncio.Event()
        worker = asyncio.create_task(app.work(stop=stop))
        job = await parent.enqueue()
        child_id = await job.result(10)
        assert (await app.get(child_id)).state == "canceled"
        stop.set()
        await worker


async def test_the_last_listener_leaves_without_stopping_the_loop(path: Path) -> None:
    """Closing its connection takes a turn to write, for which it may have to wait."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            worst = max(worst, time.monotonic() - before)

    async with Benbi(str(path)) as app:

        @app.task
        async def work() -> None: ...

        job = await work.enqueue()
        ticking = asyncio.create_task(tick())
        with write_lock(path):
            waiting = asyncio.create_task(work.enqueue())
            await wait_until_async(lambda: app.store.stalled() is not None)
            await app.wait_for_change(job.id, after=99, timeout=0.1)
            await asyncio.sleep(0.1)
        await waiting
        ticking.cancel()
    assert worst < 1.0
    wait_until(lambda: "benbi-wake-close" not in [thread.name for thread in threading.enumerate()])


async def test_a_tail_survives_a_database_that_can_not_be_read_for_a_while(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Benbi(str(path)) as app:

        @app.task
        async def work() -> None: ...

        job = await work.enqueue()
        locked = sqlite3.connect(path, isolation_level=None, timeout=10)
        await wait_until_async(lambda: app._connections._store is not None)
        # Its first look fails: the table is not there.
        locked.execute("ALTER TABLE benbi_progress RENAME TO away")
        with caplog.at_level(logging.WARNING, "benbi.tail"):
            tail = app._tail()
            with tail.listen(1) as news:
                await wait_until_async(lambda: "the tail waits" in caplog.text)
                locked.execute("ALTER TABLE away RENAME TO benbi_progress")
                locked.close()
                await asyncio.wait_for(news.wait(), 5)
                await asyncio.sleep(0.1)
                news.clear()
                await job.cancel()
                await asyncio.wait_for(news.wait(), 5)
    assert (await state_reached(app, job.id, "canceled")).final
    await app.close()


async def test_a_worker_without_slots_is_refused(path: Path) -> None:
    async with Benbi(str(path)) as app:

        @app.task
        async def work() -> None: ...

        with pytest.raises(ConfigurationError, match="slots=-1"):
            await asyncio.wait_for(app.work(slots=-1), 5)
