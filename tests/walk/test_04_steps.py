"""Chapter 4. A step runs once: what it returned is recorded and never computed again.

A job that is retried starts its function from the top. Steps return what was recorded;
everything outside them runs again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from benbi import Benbi, Context, JobFailed, Retry, StepChanged, Transient

SOON = Retry(attempts=3, first=0.01)


@dataclass
class Page:
    title: str


async def test_a_recorded_step_is_not_run_again(app: Benbi) -> None:
    """The first attempt fails after the step; the second one gets its result for nothing."""
    payments: list[int] = []

    async def pay(amount: int) -> str:
        payments.append(amount)
        return f"receipt {len(payments)}"

    @app.task(retry=SOON)
    async def order(ctx: Context, amount: int) -> str:
        receipt = await ctx.step(pay)(amount)
        if ctx.attempt == 1:
            raise Transient("the printer is busy")
        return receipt

    async with app.working():
        job = await order.enqueue(100)
        assert await job.result() == "receipt 1"
    assert payments == [100]
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "started", "step_completed", "retrying"),
        *("pending", "started", "completed"),
    ]


async def test_a_plain_function_can_be_a_step(app: Benbi) -> None:
    """It runs in a thread, so that the other jobs of the worker go on meanwhile."""

    def count(words: str) -> int:
        return len(words.split())

    @app.task
    async def measure(ctx: Context, words: str) -> int:
        return await ctx.step(count)(words)

    async with app.working():
        assert await (await measure.enqueue("a b c")).result() == 3


async def test_a_step_gives_the_same_type_each_time(app: Benbi) -> None:
    """The value is decoded from its record the first time too: no surprise on the second."""
    seen: list[object] = []

    async def load() -> Page:
        return Page("Kites")

    @app.task(retry=SOON)
    async def read(ctx: Context) -> None:
        seen.append(await ctx.step(load)())
        if ctx.attempt == 1:
            raise Transient

    async with app.working():
        await (await read.enqueue()).result()
    assert seen == [Page("Kites"), Page("Kites")]


async def test_steps_in_a_loop_are_told_apart_by_their_number(app: Benbi) -> None:
    """The third call of a function is another step than its second."""
    fetched: list[int] = []

    async def fetch(page: int) -> int:
        fetched.append(page)
        return page * 10

    @app.task(retry=SOON)
    async def collect(ctx: Context) -> list[int]:
        pages: list[int] = []
        for page in range(3):
            pages.append(await ctx.step(fetch)(page))
            if page == 1 and ctx.attempt == 1:
                raise Transient("cut off in the middle")
        return pages

    async with app.working():
        assert await (await collect.enqueue()).result() == [0, 10, 20]
    assert fetched == [0, 1, 2]


async def test_steps_may_run_side_by_side(app: Benbi) -> None:
    """Where their order may differ from time to time, ``key=`` tells them apart."""

    async def fetch(page: int) -> int:
        return page * 10

    @app.task
    async def collect(ctx: Context) -> list[int]:
        return await asyncio.gather(
            *(ctx.step(fetch, key=str(page))(page) for page in range(3)),
        )

    async with app.working():
        assert await (await collect.enqueue()).result() == [0, 10, 20]


async def test_a_step_has_tries_of_its_own(app: Benbi) -> None:
    """``retry=`` tries the step again without starting the job's function from the top."""
    starts: list[int] = []
    calls: list[int] = []

    async def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("try again")
        return "there"

    @app.task
    async def call(ctx: Context) -> str:
        starts.append(ctx.attempt)
        return await ctx.step(flaky, retry=SOON)()

    async with app.working():
        assert await (await call.enqueue()).result() == "there"
    assert (len(calls), starts) == (3, [1])


async def test_a_step_knows_a_key_to_hand_outside(app: Benbi) -> None:
    """What happens between an effect and its record may happen twice: ``ctx.key`` is the same
    on every attempt, and other services refuse to act twice on one key."""
    keys: list[str] = []

    @app.task(retry=SOON)
    async def order(ctx: Context) -> None:
        async def pay() -> None:
            keys.append(ctx.key)
            if ctx.attempt == 1:
                raise ConnectionError("paid, but the answer was lost")

        await ctx.step(pay)()

    async with app.working():
        await (await order.enqueue()).result()
    assert len(keys) == 2 and len(set(keys)) == 1


async def test_chance_and_time_can_be_recorded(app: Benbi) -> None:
    """``now``, ``uuid`` and ``random`` are steps: the same on every attempt."""
    seen: list[tuple[object, object, object]] = []

    @app.task(retry=SOON)
    async def draw(ctx: Context) -> None:
        seen.append((await ctx.now(), await ctx.uuid(), await ctx.random()))
        if ctx.attempt == 1:
            raise Transient

    async with app.working():
        await (await draw.enqueue()).result()
    assert seen[0] == seen[1]


async def test_a_step_with_other_arguments_is_noticed(app: Benbi) -> None:
    """The record belongs to one call: a function that asks for another gets StepChanged."""

    async def load(page: int) -> int:
        return page

    @app.task(retry=SOON)
    async def read(ctx: Context) -> None:
        await ctx.step(load)(ctx.attempt)
        raise Transient

    async with app.working():
        job = await read.enqueue()
        with pytest.raises(JobFailed) as failed:
            await job.result()
    error = failed.value.job.error
    assert error is not None and error.type == StepChanged.__name__
