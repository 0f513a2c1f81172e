"""Progress: a report never costs the job, and no number of reports floods the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context
from tests.support.working import working


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


async def told(app: Benbi, job_id: str) -> list[dict[str, Any]]:
    events = await app.events(job_id, limit=100_000)
    return [event.data for event in events if event.type == "progress"]


class Number:
    """A number of somebody else's, as numpy has them."""

    def __float__(self) -> float:
        return 3.0


async def test_a_message_that_is_no_unicode_costs_nothing(app: Benbi) -> None:
    """File names come with surrogates. The last report travels with the job's end."""

    @app.task
    async def scan(ctx: Context) -> int:
        await ctx.progress(1, 10, "one.txt")
        await ctx.progress(1, 10, "two\udcff.txt")
        return 2

    async with working(app):
        job = await scan.enqueue()
        assert await job.result(10) == 2
    record = await job.get()
    assert record.progress is not None and record.progress.message == "two?.txt"


async def test_numbers_of_other_libraries_are_numbers(app: Benbi) -> None:
    @app.task
    async def count(ctx: Context) -> int:
        await ctx.progress(Number(), Number(), "third")  # type: ignore[arg-type]
        return 3

    async with working(app):
        job = await count.enqueue()
        assert await job.result(10) == 3
    assert await told(app, job.id) == [{"done": 3.0, "total": 3.0, "message": "third"}]


async def test_each_tenth_is_told_once(app: Benbi) -> None:
    @app.task
    async def steady(ctx: Context) -> None:
        for done in range(101):
            await ctx.progress(done, 100)

    async with working(app):
        job = await steady.enqueue()
        await job.result(10)
    assert [report["done"] for report in await told(app, job.id)] == list(range(0, 101, 10))


@pytest.mark.parametrize("total", ["grows", "is fixed"])
async def test_reports_without_end_are_few_events(app: Benbi, total: str) -> None:
    """A total that grows with the work, a bar that goes to and fro: a loop must not fill a disk."""

    @app.task
    async def restless(ctx: Context) -> None:
        for number in range(5000):
            if total == "grows":
                await ctx.progress(number, number + 5, f"number {number}")
            else:
                await ctx.progress(number % 10, 10)

    async with working(app):
        job = await restless.enqueue()
        await job.result(20)
    assert 1 <= len(await told(app, job.id)) < 50
