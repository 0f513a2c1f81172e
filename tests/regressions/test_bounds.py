"""What must not grow with the load, and what must not depend on who calls."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benbi import Benbi, Context, Retry
from tests.support import wait_until_async
from tests.support.working import state_reached, working


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(path)) as app:
        yield app


def open_files(path: Path) -> int:
    """Descriptors of this process on the database file."""
    folder = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")
    found = 0
    for entry in folder.iterdir():
        try:
            found += os.path.samestat(entry.stat(), path.stat())
        except OSError:
            continue
    return found


async def test_many_jobs_at_once_need_few_connections(app: Benbi, path: Path) -> None:
    """No connection is held while user code runs: 150 waiting calls are no 150 connections."""
    begun = 0
    over = asyncio.Event()

    @app.task
    async def waits(number: int) -> int:
        nonlocal begun
        begun += 1
        await over.wait()
        return number

    handles = await app.enqueue_many([waits.call(number) for number in range(150)])
    async with working(app, slots=150):
        await wait_until_async(lambda: begun == 150)
        assert 1 <= open_files(path) <= 8
        over.set()
        assert await handles[-1].result(20) == 149


async def test_a_tasks_policy_is_stored_with_its_jobs_whoever_makes_them(
    app: Benbi, path: Path
) -> None:
    """One place where defaults are resolved: a door without the code gives the same budgets."""

    @app.task(queue="slow", retry=Retry(attempts=7), max_losses=2, timeout=30, grace=4, keep=60)
    async def work() -> None: ...

    await app.publish()
    async with Benbi(str(path)) as door:
        ids = [(await work.enqueue()).id, (await app.enqueue("work")).id]
        ids += [(await door.enqueue("work")).id, (await work.options(key="k").enqueue()).id]
        ids += [handle.id for handle in await app.enqueue_many([work.call()])]
    for job_id in ids:
        job = await app.get(job_id)
        assert (job.queue, job.max_attempts, job.max_losses) == ("slow", 7, 2)


async def test_open_questions_of_an_owner_are_found_by_whoever_comes_later(path: Path) -> None:
    """Server, worker and client are all gone: jobs, questions and answers are on disk."""

    def app_of(path: Path) -> Benbi:
        app = Benbi(str(path))

        @app.task
        async def order(ctx: Context, cake: str) -> str:
            return f"{cake} with {await ctx.ask('What on top?', str, key='topping')}"

        return app

    async with app_of(path) as first, working(first):
        mine = await first.tasks["order"].options(owner="u1").enqueue("lemon")
        other = await first.tasks["order"].options(owner="u2").enqueue("plain")
        for job in (mine, other):
            await state_reached(first, job.id, "input_required")
    async with app_of(path) as second:
        (found,) = await second.jobs(owner="u1", state="input_required")
        assert [question.prompt for question in found.questions] == ["What on top?"]
        await second.answer(found.id, "cream", owner="u1")
    async with app_of(path) as third, working(third):
        assert await third.handle(mine.id).result(10) == "lemon with cream"


async def test_a_cancel_touches_one_job_and_no_later_one(app: Benbi) -> None:
    """A cancel belongs to one row: the next call of the same task is not touched by it."""

    @app.task
    async def work() -> int:
        return 1

    first = await work.options(key="k1").enqueue()
    await first.cancel()
    await first.cancel()
    second = await work.options(key="k2").enqueue()
    async with working(app):
        assert await second.result(10) == 1
        await second.cancel()
    assert (await second.get()).state == "completed"
