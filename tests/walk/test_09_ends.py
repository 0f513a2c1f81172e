"""Chapter 9. How a job ends: completed, failed, canceled or skipped, once and for all."""

from __future__ import annotations

import asyncio

import pytest

from benbi import (
    Benbi,
    Context,
    JobCanceled,
    JobFailed,
    JobSkipped,
    NotPermitted,
    Permanent,
    Retry,
    Skip,
)
from tests.support.working import state_reached


async def test_a_failed_job_is_kept_and_can_be_run_again(app: Benbi) -> None:
    """By hand, when the cause is mended; what its steps recorded is not computed again."""
    paper: list[str] = []
    drawn: list[str] = []

    async def draw() -> str:
        drawn.append("a kite")
        return "a kite"

    @app.task
    async def print_picture(ctx: Context) -> str:
        picture = await ctx.step(draw)()
        if not paper:
            raise Permanent("no paper")
        return f"{picture} on {paper[0]}"

    async with app.working():
        job = await print_picture.enqueue()
        with pytest.raises(JobFailed, match="no paper"):
            await job.result()
        paper.append("gold")
        await job.retry()
        assert await job.result() == "a kite on gold"
    assert drawn == ["a kite"]


async def test_only_what_has_ended_without_a_result_can_be_run_again(app: Benbi) -> None:
    """A result that somebody may have read already is never taken back."""

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.working():
        job = await add.enqueue(1, 2)
        await job.result()
    with pytest.raises(NotPermitted, match="completed"):
        await job.retry()


async def test_a_job_that_does_not_run_is_canceled_at_once(app: Benbi) -> None:
    """It is over when ``cancel`` returns."""

    @app.task
    async def never() -> None:
        raise AssertionError("must not run")

    job = await never.enqueue()
    assert (await job.cancel(reason="changed my mind")).state == "canceled"
    with pytest.raises(JobCanceled, match="changed my mind"):
        await job.result()


async def test_a_running_job_is_asked_to_stop(app: Benbi) -> None:
    """Async code is canceled as asyncio cancels: ``finally`` blocks run."""
    tidied: list[str] = []

    @app.task
    async def bake() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append("the oven is off")

    async with app.working():
        job = await bake.enqueue()
        await state_reached(app, job.id, "running")
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result()
    assert tidied == ["the oven is off"]


async def test_code_that_will_not_stop_is_left_behind(app: Benbi) -> None:
    """After the grace the job is canceled all the same, and that code can write nothing more."""
    go_on = asyncio.Event()

    @app.task(grace=0.05)
    async def stubborn() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue

    async with app.working():
        job = await stubborn.enqueue()
        await state_reached(app, job.id, "running")
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result()
        go_on.set()


async def test_a_job_that_runs_too_long_is_stopped(app: Benbi) -> None:
    """``timeout=`` counts running time of one attempt; it is retried like a lost connection."""

    @app.task(timeout=0.05, retry=Retry(attempts=2, first=0.01))
    async def dawdle(ctx: Context) -> int:
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        return ctx.attempt

    async with app.working():
        job = await dawdle.enqueue()
        assert await job.result() == 2
    (retrying,) = [event for event in await app.events(job.id) if event.type == "retrying"]
    assert retrying.reason == "timeout"


async def test_a_job_may_find_that_there_is_nothing_to_do(app: Benbi) -> None:
    """``Skip`` ends it as skipped: neither a success nor a failure."""

    @app.task
    async def mail_news(count: int) -> None:
        if not count:
            raise Skip("no news")

    async with app.working():
        with pytest.raises(JobSkipped, match="no news"):
            await (await mail_news.enqueue(0)).result()


async def test_waiting_may_end_before_the_job_does(app: Benbi) -> None:
    """``result(timeout=)`` gives up waiting; the job goes on."""

    @app.task
    async def later() -> str:
        return "done"

    job = await later.enqueue()
    with pytest.raises(TimeoutError):
        await job.result(timeout=0.01)
    async with app.working():
        assert await job.result() == "done"
