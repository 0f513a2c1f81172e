"""Chapter 19. A job may wait for others: before it begins, and while it runs."""

from __future__ import annotations

import asyncio

import pytest

from benbi import (
    Benbi,
    Context,
    JobCanceled,
    JobFailed,
    JobHandle,
    JobNotFound,
    JobSkipped,
    Permanent,
    Refused,
    Skip,
    SyncContext,
)
from tests.support.working import state_reached


async def test_a_job_starts_when_those_before_it_have_ended(app: Benbi) -> None:
    order: list[str] = []

    @app.task
    async def bake(what: str) -> None:
        order.append(what)

    bread = await bake.enqueue("bread")
    butter = await bake.enqueue("butter")
    sandwich = await bake.options(after=[bread, butter]).enqueue("sandwich")
    record = await sandwich.get()
    assert record.state == "waiting"
    assert set(record.waits_for) == {bread.id, butter.id}
    async with app.working():
        await sandwich.result(timeout=10)
    assert order == ["bread", "butter", "sandwich"]


async def test_what_waits_for_a_failure_fails_and_names_it(app: Benbi) -> None:
    @app.task
    async def load() -> None:
        raise Permanent("the file is gone")

    @app.task
    async def report() -> None: ...

    @app.task
    async def mail() -> None: ...

    loaded = await load.enqueue()
    reported = await report.options(after=[loaded]).enqueue()
    mailed = await mail.options(after=[reported]).enqueue()
    async with app.working():
        with pytest.raises(JobFailed, match=loaded.id):
            await mailed.result(timeout=10)
    assert (await mailed.get()).reason == "upstream_failed"


async def test_the_trigger_rule_says_which_ends_let_it_run(app: Benbi) -> None:
    @app.task
    async def fragile() -> None:
        raise Permanent("no")

    @app.task
    async def clean_up() -> str:
        return "clean"

    @app.task
    async def nothing_to_do() -> None:
        raise Skip("empty")

    failed, skipped = await fragile.enqueue(), await nothing_to_do.enqueue()
    always = await clean_up.options(after=[failed, skipped], when="all_done").enqueue()
    alarm = await clean_up.options(after=[failed], when="one_failed").enqueue()
    never = await clean_up.options(after=[skipped]).enqueue()
    async with app.working():
        assert await always.result(timeout=10) == "clean"
        assert await alarm.result(timeout=10) == "clean"
        with pytest.raises(JobSkipped, match="trigger_rule"):
            await never.result(timeout=10)


async def test_a_job_that_is_retried_by_hand_takes_along_what_failed_with_it(app: Benbi) -> None:
    @app.task
    async def load(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise Permanent("the disk was full")
        return 3

    @app.task
    async def report() -> str:
        return "done"

    loaded = await load.enqueue()
    reported = await report.options(after=[loaded]).enqueue()
    async with app.working():
        with pytest.raises(JobFailed):
            await reported.result(timeout=10)
        await loaded.retry()
        assert await reported.result(timeout=10) == "done"


async def test_a_running_job_waits_without_its_slot(app: Benbi) -> None:
    """Its function starts from the top when the other job has ended, as after every wait."""

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.task
    async def add(ctx: Context, numbers: list[int]) -> int:
        run = await ctx.run([double.call(number) for number in numbers])
        return sum([await ctx.wait(job) for job in run.jobs])

    job = await add.enqueue([1, 2, 3])
    async with app.working(slots=1):
        assert await job.result(timeout=10) == 12
    reasons = [event.reason for event in await app.events(job.id) if event.type == "waiting"]
    assert set(reasons) == {"awaits"}
    assert len(await app.jobs(task="double")) == 3


async def test_a_plain_function_waits_too(app: Benbi) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def add(ctx: SyncContext, numbers: list[int]) -> int:
        run = ctx.run([double.call(number) for number in numbers])
        return sum(ctx.wait(job) for job in run.jobs)

    job = await add.enqueue([1, 2, 3])
    async with app.working(slots=1):
        assert await job.result(timeout=10) == 12
    assert len(await app.jobs(task="double")) == 3


async def test_branches_that_wait_go_on_together(app: Benbi) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    @app.task
    async def add(ctx: Context) -> int:
        run = await ctx.run([double.call(1), double.call(2)])
        return sum(await asyncio.gather(*(ctx.wait(job) for job in run.jobs)))

    job = await add.enqueue()
    async with app.working():
        assert await job.result(timeout=10) == 6
    assert (await job.get()).attempt <= 2


async def test_what_a_job_waited_for_raises_how_it_ended(app: Benbi) -> None:
    seen: list[str] = []

    @app.task
    async def fragile() -> None:
        raise Permanent("no")

    @app.task
    async def careful(ctx: Context, other: str, canceled: str) -> str:
        for job_id in (other, canceled):
            try:
                await ctx.wait(job_id)
            except (JobFailed, JobCanceled) as ended:
                seen.append(f"{type(ended).__name__} {ended.job.state}")
        await ctx.sleep(0.01)
        return "went on"

    stuck = await fragile.options(delay="1h").enqueue()
    job = await careful.enqueue((await fragile.enqueue()).id, stuck.id)
    async with app.working():
        await state_reached(app, job.id, "waiting")
        await stuck.cancel()
        assert await job.result(timeout=10) == "went on"
    assert set(seen) == {"JobFailed failed", "JobCanceled canceled"}
    assert seen[-2:] == ["JobFailed failed", "JobCanceled canceled"]


async def test_how_a_job_ended_is_recorded(app: Benbi) -> None:
    """Whoever saw it fail sees that on each replay, even if it was retried by hand meanwhile."""
    seen: list[str] = []

    @app.task
    async def fragile(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise Permanent("no")

    @app.task
    async def careful(ctx: Context, other: str) -> bool:
        try:
            await ctx.wait(other)
            seen.append("completed")
        except JobFailed:
            seen.append("failed")
        return await ctx.ask("Go on without?", bool)

    other = await fragile.enqueue()
    job = await careful.enqueue(other.id)
    async with app.working():
        await state_reached(app, job.id, "input_required")
        await other.retry()
        await other.result(timeout=10)
        await job.answer(True)
        assert await job.result(timeout=10)
    assert set(seen) == {"failed"}


async def test_what_can_not_be_waited_for_is_refused(app: Benbi) -> None:
    @app.task
    async def work(ctx: Context, wait_for: str) -> None:
        await ctx.wait(wait_for or ctx.job_id)

    other = await work.options(owner="somebody").enqueue("")
    missing = "00000000-0000-7000-8000-000000000000"
    for job_id in (other.id, missing):
        with pytest.raises(JobNotFound, match=job_id):
            await work.options(after=[job_id]).enqueue("")
    with pytest.raises(Refused, match="one_sucess"):
        work.options(after=[other], when="one_sucess")
    with pytest.raises(Refused, match="a list of jobs"):
        work.options(after=other.id)
    later = work.call("")
    with pytest.raises(Refused, match="list it first"):
        await app.run([work.options(after=[later]).call(""), later])
    jobs: list[JobHandle[None]] = [await work.enqueue(""), await work.enqueue(missing)]
    async with app.working():
        for job in jobs:
            with pytest.raises(JobFailed, match=r"itself|no job"):
                await job.result(timeout=10)
