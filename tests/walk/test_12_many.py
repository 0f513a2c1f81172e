"""Chapter 12. Many at once: made in one transaction, run side by side, listed page by page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benbi import Benbi, InvalidArguments


async def test_many_jobs_are_made_in_one_transaction(app: Benbi) -> None:
    """``call`` checks the arguments and stores nothing; ``enqueue_many`` stores all of them."""

    @app.task
    async def square(number: int) -> int:
        return number * number

    async with app.working():
        jobs = await app.enqueue_many([square.call(number) for number in range(100)])
        results = [await job.result() for job in jobs]
    assert results == [number * number for number in range(100)]


async def test_all_or_none(app: Benbi) -> None:
    """One bad call, and none of them is stored."""

    @app.task
    async def square(number: int) -> int:
        return number * number

    wrong: Any = "three"
    with pytest.raises(InvalidArguments):
        await app.enqueue_many([square.call(1), square.call(2), square.call(wrong)])
    assert await app.jobs() == []


async def test_a_worker_runs_many_side_by_side(app: Benbi) -> None:
    """``slots=`` of them: here each waits until all three are there."""
    together = asyncio.Barrier(3)

    @app.task
    async def meet() -> None:
        await together.wait()

    async with app.working(slots=3):
        jobs = await app.enqueue_many([meet.call() for _ in range(3)])
        for job in jobs:
            await job.result()


async def test_jobs_are_listed_page_by_page(app: Benbi) -> None:
    """Newest first; ``before=`` takes the last id of the page before."""

    @app.task
    async def square(number: int) -> int:
        return number * number

    made = [job.id for job in await app.enqueue_many([square.call(n) for n in range(5)])]
    first = await app.jobs(limit=3)
    second = await app.jobs(limit=3, before=first[-1].id)
    assert [job.id for job in [*first, *second]] == made[::-1]
    assert len(await app.jobs(state="pending", task="square")) == 5
