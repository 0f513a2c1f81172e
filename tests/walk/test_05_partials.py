"""Chapter 5. A long job tells how far it is, and shows what it has so far."""

from __future__ import annotations

import asyncio

from benbi import Benbi, Context, Retry, Transient


async def test_progress_stands_in_the_record(app: Benbi) -> None:
    """Done, in all, and a message; ``wait_for_change`` returns as soon as it is new."""
    go_on = asyncio.Event()

    @app.task
    async def bake(ctx: Context) -> None:
        await ctx.progress(1, 4, "the oven is hot")
        await go_on.wait()

    async with app.working():
        job = await bake.enqueue()
        record = await job.get()
        while record.progress is None:
            record = await app.wait_for_change(job.id, after=record.seq, timeout=10)
        go_on.set()
        await job.result()
    assert record.progress.done == 1 and record.progress.total == 4
    assert record.progress.message == "the oven is hot"


async def test_progress_is_an_event_where_it_matters(app: Benbi) -> None:
    """A loop may report as often as it likes: the log gets each tenth of the way, no more."""

    @app.task
    async def count(ctx: Context) -> None:
        for number in range(1000):
            await ctx.progress(number + 1, 1000)

    async with app.working():
        job = await count.enqueue()
        told = [event.data["done"] async for event in job.events() if event.type == "progress"]
    assert told == sorted(told) and 1 < len(told) <= 12


async def test_partial_results_are_seen_before_the_end(app: Benbi) -> None:
    """``partial`` returns when its value is on disk; clients see it at once, as an event."""
    go_on = asyncio.Event()

    @app.task
    async def search(ctx: Context) -> list[str]:
        await ctx.partial({"found": ["a kite"]})
        await go_on.wait()
        return ["a kite", "a drum"]

    async with app.working():
        job = await search.enqueue()
        async for event in job.events():
            if event.type == "partial":
                assert event.data == {"found": ["a kite"]}
                assert (await job.get()).state == "running"
                go_on.set()
        assert await job.result() == ["a kite", "a drum"]


async def test_a_retried_job_does_not_tell_the_same_twice(app: Benbi) -> None:
    """The function starts from the top, but what stands in the log already is left out."""

    @app.task(retry=Retry(attempts=2, first=0.01))
    async def search(ctx: Context) -> None:
        await ctx.partial("a kite")
        if ctx.attempt == 1:
            raise Transient("cut off")
        await ctx.partial("a drum")

    async with app.working():
        job = await search.enqueue()
        partials = [event.data async for event in job.events() if event.type == "partial"]
    assert partials == ["a kite", "a drum"]
