"""What @app.around wraps: each attempt, in order, seen and not swallowed."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, BenbiError, Context, JobCanceled, JobFailed, Retry, SyncContext, Transient
from tests.support import wait_until_async
from tests.support.working import state_reached, working


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


async def ended(app: Benbi, job_id: str) -> bool:
    return (await app.get(job_id)).final


async def test_several_nest_in_the_order_of_registration(app: Benbi) -> None:
    told: list[str] = []

    @app.around
    async def outer(ctx: Context) -> AsyncIterator[None]:
        told.append(f"outer {ctx.task} {ctx.queue} {ctx.attempt}")
        yield
        told.append("outer ends")

    @app.around
    @asynccontextmanager
    async def inner(ctx: Context) -> AsyncIterator[None]:
        told.append("inner")
        yield
        told.append("inner ends")

    @app.task(queue="gifts")
    async def body() -> None:
        told.append("body")

    async with working(app):
        await (await body.enqueue()).result(10)
    assert told == ["outer body gifts 1", "inner", "body", "inner ends", "outer ends"]


async def test_each_attempt_is_wrapped_and_its_error_seen(app: Benbi) -> None:
    told: list[str] = []

    @app.around
    async def watch(ctx: Context) -> AsyncIterator[None]:
        try:
            yield
        except Exception as error:
            told.append(f"{ctx.attempt}: {error}")
            raise
        told.append(f"{ctx.attempt}: done")

    @app.task(retry=Retry(3, first=0))
    def body(ctx: SyncContext) -> int:
        if ctx.attempt == 1:
            raise Transient("away")
        return ctx.attempt

    async with working(app):
        assert await (await body.enqueue()).result(10) == 2
    assert told == ["1: away", "2: done"]


@pytest.mark.parametrize("error", [ValueError("swallowed"), StopAsyncIteration("swallowed")])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_an_error_that_is_swallowed_is_the_failure_all_the_same(
    app: Benbi, error: Exception, kind: str
) -> None:
    @app.around
    async def swallow(ctx: Context) -> AsyncIterator[None]:
        with suppress(Exception):
            yield

    @app.task(retry=1)
    async def in_loop() -> None:
        raise error

    @app.task(retry=1)
    def in_thread() -> None:
        raise error

    async with working(app):
        with pytest.raises(JobFailed, match="swallowed"):
            await (await (in_loop if kind == "async" else in_thread).enqueue()).result(10)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_it_raises_is_the_failure_of_the_attempt(app: Benbi, when: str) -> None:
    ran: list[int] = []

    @app.around
    async def fails(ctx: Context) -> AsyncIterator[None]:
        if when == "before":
            raise LookupError("no licence")
        yield
        raise LookupError("no licence")

    @app.task(retry=1)
    async def body() -> None:
        ran.append(1)

    async with working(app):
        with pytest.raises(JobFailed, match="no licence"):
            await (await body.enqueue()).result(10)
    assert ran == ([] if when == "before" else [1])


async def test_a_suspension_passes_through(app: Benbi, caplog: pytest.LogCaptureFixture) -> None:
    passes: list[int] = []

    @app.around
    async def watch(ctx: Context) -> AsyncIterator[None]:
        passes.append(ctx.attempt)
        try:
            yield
        except Exception as error:
            raise AssertionError("a suspension is no error") from error

    @app.task
    async def asks(ctx: Context) -> str:
        return await ctx.ask("Name?")

    @app.task
    def asks_in_a_thread(ctx: SyncContext) -> str:
        return ctx.ask("Name?")

    async with working(app):
        for task in (asks, asks_in_a_thread):
            job = await task.enqueue()
            await state_reached(app, job.id, "input_required")
            await job.answer("Mai")
            assert await job.result(10) == "Mai"
    assert passes == [1, 2, 1, 2]
    assert "caught its suspension" not in caplog.text


async def test_it_may_suspend_the_attempt_itself(app: Benbi) -> None:
    ran: list[int] = []

    @app.around
    async def later(ctx: Context) -> AsyncIterator[None]:
        await ctx.sleep(0.01)
        yield

    @app.task
    async def body(ctx: Context) -> int:
        ran.append(ctx.attempt)
        return ctx.attempt

    async with working(app):
        assert await (await body.enqueue()).result(10) == 2
    assert ran == [2]


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_cancel_reaches_what_is_around(app: Benbi, kind: str, when: str) -> None:
    """At once: the default grace is longer than the test waits."""
    reached, release = asyncio.Event(), asyncio.Event()

    @app.around
    async def slow(ctx: Context) -> AsyncIterator[None]:
        if when == "after":
            yield
        reached.set()
        await release.wait()
        if when == "before":
            yield

    @app.task
    async def in_loop() -> None: ...

    @app.task
    def in_thread() -> None: ...

    async with working(app):
        job = await (in_loop if kind == "async" else in_thread).enqueue()
        await reached.wait()
        await job.cancel()
        try:
            await wait_until_async(lambda: ended(app, job.id), timeout=5)
        finally:
            release.set()
        assert (await job.get()).reason == "requested"


async def test_a_cancel_reaches_a_body_within(app: Benbi) -> None:
    began, told = asyncio.Event(), list[str]()

    @app.around
    async def watch(ctx: Context) -> AsyncIterator[None]:
        try:
            yield
        finally:
            told.append(f"canceled {ctx.canceled}")

    @app.task
    async def body() -> None:
        began.set()
        await asyncio.Event().wait()

    async with working(app):
        job = await body.enqueue()
        await began.wait()
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result(5)
    assert told == ["canceled True"]


async def test_its_context_variables_reach_the_body(app: Benbi) -> None:
    request = contextvars.ContextVar("request", default="")

    @app.around
    async def bind(ctx: Context) -> AsyncIterator[None]:
        token = request.set(ctx.job_id)
        yield
        request.reset(token)

    @app.task
    async def in_loop() -> str:
        return request.get()

    @app.task
    def in_thread() -> list[Any]:
        return [request.get(), threading.current_thread() is threading.main_thread()]

    async with working(app):
        job = await in_loop.enqueue()
        assert await job.result(10) == job.id
        other = await in_thread.enqueue()
        assert await other.result(10) == [other.id, False]


async def test_it_has_the_resources_of_its_worker(app: Benbi) -> None:
    told: list[str] = []

    @app.resource
    async def metrics() -> list[str]:
        return told

    @app.around
    async def count(ctx: Context) -> AsyncIterator[None]:
        yield
        (await ctx.resource(metrics)).append(ctx.task)

    @app.task
    def body() -> None: ...

    async with working(app):
        await (await body.enqueue()).result(10)
    assert told == ["body"]


def test_what_can_not_be_around_is_refused() -> None:
    app = Benbi(":memory:")

    async def no_yield(ctx: Context) -> None: ...

    with pytest.raises(BenbiError, match="one yield"):
        app.around(no_yield)  # type: ignore[type-var]
