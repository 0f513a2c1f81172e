"""A cancel, a drain or a time-out that comes when the body is not what runs."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context, JobCanceled, JobFailed, JobSkipped, Retry, Skip, SyncContext
from benbi.errors import Abandon, ClaimLost, Suspend
from benbi.store import workers
from benbi.store.database import Transaction
from tests.support import wait_until_async
from tests.support.working import state_reached, working

# The default grace: whoever ends no sooner was abandoned.
GRACE = 10.0


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


async def types_of(app: Benbi, job_id: str) -> list[str]:
    return [event.type for event in await app.events(job_id)]


def settling(app: Benbi, go_on: asyncio.Event) -> Any:
    """A task that is suspended while a step beside it is still under way."""

    async def slow() -> str:
        await go_on.wait()
        return "slow"

    @app.task
    async def asks(ctx: Context) -> list[str]:
        return await asyncio.gather(ctx.step(slow)(), ctx.ask("Go on?"))

    return asks


async def test_a_cancel_while_a_suspension_settles_takes_effect_with_it(app: Benbi) -> None:
    go_on = asyncio.Event()
    task = settling(app, go_on)
    async with working(app):
        job = await task.enqueue()
        await state_reached(app, job.id, "running")
        started = time.monotonic()
        await job.cancel()
        await asyncio.sleep(0.1)
        go_on.set()
        with pytest.raises(JobCanceled, match="requested"):
            await job.result(10)
        assert time.monotonic() - started < GRACE / 2
    assert "step_completed" in await types_of(app, job.id)


async def test_a_drain_while_a_suspension_settles_loses_no_question(app: Benbi) -> None:
    go_on = asyncio.Event()
    task = settling(app, go_on)
    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.1))
    job = await task.enqueue()
    await state_reached(app, job.id, "running")
    stop.set()
    await asyncio.sleep(0.3)
    go_on.set()
    assert await worker == 0
    assert (await job.get()).state == "input_required"


async def test_a_branch_that_asks_is_not_waited_for_by_its_own_body(app: Benbi) -> None:
    """The body waits for what the suspended branch would have done: it gets the grace."""

    @app.task(grace=0.2)
    async def indirect(ctx: Context) -> str:
        answered = asyncio.Event()
        answers: list[str] = []

        async def ask() -> None:
            answers.append(await ctx.ask("Name?"))
            answered.set()

        asking = asyncio.create_task(ask())
        await answered.wait()
        await asking
        return answers[0]

    async with working(app):
        job = await indirect.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("Mai")
        assert await job.result(10) == "Mai"


async def test_what_suspends_in_any_wrapping_goes_on_with_its_answer(
    app: Benbi, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def wrapped(ctx: Context) -> list[str]:
        async def inner() -> str:
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(ctx.ask("In groups?", key="groups"))
            return asked.result()

        async def generator() -> AsyncIterator[str]:
            try:
                yield await ctx.ask("In a generator?", key="generator")
            finally:
                await ctx.progress(1, 1, "closing")

        answers = [await asyncio.shield(ctx.ask("Shielded?", key="shield"))]
        async with asyncio.timeout(5):
            answers.append(await ctx.ask("In time?", key="timeout"))
        answers.append(await asyncio.wait_for(ctx.ask("Soon?", key="wait_for"), 5))
        async with asyncio.TaskGroup() as group:
            nested = group.create_task(inner())
        answers.append(nested.result())
        answers += [text async for text in generator()]
        return answers

    async with working(app):
        job = await wrapped.enqueue()
        keys = ["shield", "timeout", "wait_for", "groups", "generator"]
        for key in keys:
            await state_reached(app, job.id, "input_required")
            await job.answer(key, question=key)
        assert await job.result(10) == keys
    assert "caught its suspension" not in caplog.text


def let_grow(tx: Transaction, pages: int | None) -> None:
    """The database may grow by so many pages; None: as it likes. Its disk is full otherwise."""
    cursor = tx._cursor  # type: ignore[attr-defined]
    ((count,),) = cursor.execute("PRAGMA page_count").fetchall()
    most = 1 << 30 if pages is None else count + pages
    cursor.execute(f"PRAGMA max_page_count = {most}").fetchall()


@pytest.mark.parametrize("how", ["cancel", "drain"])
async def test_a_finish_that_waits_for_the_disk_is_not_cut_off(app: Benbi, how: str) -> None:
    """What was done is recorded when there is room, however short the grace of the task."""

    @app.task(grace=0.05)
    async def large() -> str:
        return "x" * 500_000

    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.1 if how == "drain" else 5.0))
    await wait_until_async(lambda: app.workers_here and app.workers_here[0]._n)
    await app.store.write(let_grow, 40)
    job = await large.enqueue()
    await wait_until_async(lambda: app.workers_here[0]._slots._journal._troubled)
    if how == "cancel":
        await job.cancel()
    else:
        stop.set()
    await asyncio.sleep(0.3)
    assert len(app.workers_here[0]._slots) == 1, "the slot holds the finish"
    await app.store.write(let_grow, None)
    assert len(await job.result(10)) == 500_000
    stop.set()
    await worker
    assert (await job.get()).attempt == 1


async def test_an_earlier_body_of_a_job_does_nothing_to_the_present_one(tmp_path: Path) -> None:
    """One worker runs both: the job was taken from it, came back, and the old thread lives on."""
    seen: list[Any] = []
    second_began = threading.Event()
    app = Benbi(str(tmp_path / "jobs.db"), heartbeat_timeout=1.0)

    @app.task(timeout=1.2, retry=1)
    def stubborn(ctx: SyncContext) -> int:
        seen.append(ctx.attempt)
        if ctx.attempt == 1:
            assert second_began.wait(10)
            try:
                ctx.progress(1, 2, "from the grave")
            except BaseException as error:
                seen.append(type(error).__name__)
            return 0
        second_began.set()
        # Longer than what is left of the first one's time-out.
        time.sleep(0.8)
        ctx.progress(2, 2, "nobody asked it to stop")
        return ctx.attempt

    def bury(tx: Transaction, worker: int) -> list[int] | None:
        return workers.bury(tx, worker, workers.beats(tx)[worker])

    async with app, working(app):
        job = await stubborn.enqueue()
        await wait_until_async(lambda: seen)
        await asyncio.sleep(0.6)
        assert await app.store.write(bury, app.workers_here[0]._n)
        assert await job.result(10) == 2
        await wait_until_async(lambda: len(seen) == 3)
    assert seen == [1, 2, "Abandon"]
    types = ["created", "started", "pending", "started", "progress", "completed"]
    assert await types_of(app, job.id) == types


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


@pytest.mark.parametrize(
    "error",
    [
        Unreadable(),
        NoText(),
        GeneratorExit(),
        KeyboardInterrupt(),
        SystemExit(1),
        StopIteration(),
        asyncio.CancelledError(),
        BaseExceptionGroup("both", [GeneratorExit(), ValueError("no")]),
        type("Odd", (BaseException,), {})(),
        # Not ours: nothing was asked, stopped or lost.
        Suspend(),
        Abandon("no reason"),
        ClaimLost("not so"),
        BaseExceptionGroup("all", [ClaimLost("not so")]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_whatever_a_task_raises_is_its_jobs_end(
    app: Benbi, error: BaseException, kind: str
) -> None:
    async def in_loop() -> None:
        raise error

    def in_thread() -> None:
        raise error

    task = app.task(name="raises", retry=Retry(attempts=1))(
        in_loop if kind == "async" else in_thread
    )
    async with working(app):
        with pytest.raises(JobFailed):
            await (await task.enqueue()).result(10)
    record = (await app.jobs())[0]
    assert record.error is not None and record.error.rule


async def test_a_reason_to_skip_need_not_be_readable(app: Benbi) -> None:
    @app.task
    async def unneeded() -> None:
        raise Skip(Unreadable())

    async with working(app):
        with pytest.raises(JobSkipped):
            await (await unneeded.enqueue()).result(10)
