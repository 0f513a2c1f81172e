"""Chapter 20. A run: jobs created together, with a handle on the whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benbi import Benbi, Context, JobFailed, Permanent, Refused
from tests.support.working import state_reached


async def test_results_come_in_the_order_of_the_calls(app: Benbi) -> None:
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    run = await app.run([double.call(number) for number in range(5)], name="doubles")
    assert (await run.get()).states == {"pending": 5}
    async with app.working():
        assert await run.results(timeout=10) == [0, 2, 4, 6, 8]
    record = await run.get()
    assert (record.name, record.total, record.final) == ("doubles", 5, True)
    listed = await app.jobs_of_run(run.id, limit=3)
    listed += await app.jobs_of_run(run.id, after=listed[-1].id)
    assert [job.id for job in listed] == [job.id for job in run.jobs]


async def test_calls_of_a_run_may_wait_for_each_other(app: Benbi) -> None:
    order: list[str] = []

    @app.task
    async def stage(name: str) -> str:
        order.append(name)
        return name

    extract = stage.call("extract")
    clean, count = (stage.options(after=[extract]).call(name) for name in ("clean", "count"))
    load = stage.options(after=[clean, count]).call("load")
    run = await app.run([extract, clean, count, load])
    async with app.working():
        assert await run.results(timeout=10) == ["extract", "clean", "count", "load"]
    assert (order[0], order[-1]) == ("extract", "load")


async def test_the_first_job_without_a_result_is_raised(app: Benbi) -> None:
    @app.task
    async def maybe(fine: bool) -> bool:
        if not fine:
            raise Permanent("no")
        return fine

    run = await app.run([maybe.call(True), maybe.call(False)])
    async with app.working():
        with pytest.raises(JobFailed) as raised:
            await run.results(timeout=10)
        assert raised.value.job.id == run.jobs[1].id
        assert (await run.wait()).states == {"completed": 1, "failed": 1}


async def test_cancel_reaches_all_of_them(app: Benbi) -> None:
    """What waits for a canceled job is canceled with it; it does not fail."""

    @app.task
    async def never_done() -> None:
        await asyncio.Event().wait()

    first = never_done.call()
    run = await app.run([first, never_done.options(after=[first]).call()])
    async with app.working():
        await state_reached(app, run.jobs[0].id, "running")
        await run.cancel()
        assert (await run.wait(timeout=10)).states == {"canceled": 2}


async def test_a_running_job_may_add_jobs_to_its_run(app: Benbi) -> None:
    """However often it starts from the top. The run ends when all of them have."""

    @app.task
    async def page(number: int) -> int:
        return number

    @app.task
    async def crawl(ctx: Context, pages: int) -> int:
        added = await ctx.run([page.call(number) for number in range(pages)])
        await ctx.sleep(0.01)
        return len(added.jobs)

    run = await app.run([crawl.call(3)])
    async with app.working():
        assert await run.results(timeout=10) == [3]
        assert (await run.wait()).states == {"completed": 4}


async def test_a_run_is_made_of_calls_of_one_owner(app: Benbi) -> None:
    @app.task
    async def work() -> None: ...

    with pytest.raises(Refused, match="one call at least"):
        await app.run([])
    with pytest.raises(Refused, match="one owner"):
        await app.run([work.options(owner="a").call(), work.options(owner="b").call()])
    assert await app.jobs() == []


def test_threads_have_the_same_names(tmp_path: Path) -> None:
    with Benbi(str(tmp_path / "jobs.db")) as app:

        @app.task
        def double(number: int) -> int:
            return 2 * number

        first = double.call(1)
        run = app.run_sync([first, double.options(after=[first]).call(2)], name="pair")
        with pytest.raises(TimeoutError):
            run.wait_sync(timeout=0.01)
        assert run.cancel_sync().states == {"canceled": 2}
        assert run.wait_sync().final
        assert [job.state for job in app.jobs_of_run_sync(run.id)] == ["canceled", "canceled"]
        again = app.run_sync([double.call(4)])

        async def work() -> None:
            async with app.working():
                await again.wait(timeout=10)

        asyncio.run(work())
        assert again.results_sync() == [8]
        assert app.get_run_sync(again.id) == app.wait_for_run_sync(again.id)


async def test_a_run_that_is_not_there_is_refused(app: Benbi) -> None:
    for unknown in ("zzz", "01a22d48-63b7-77a1-a83a-9f096f2062c6"):
        with pytest.raises(Refused, match=f"no run '{unknown}'"):
            await app.get_run(unknown)
