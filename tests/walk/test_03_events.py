"""Chapter 3. Events tell everything: each change of a job's state is one entry of its log."""

from __future__ import annotations

import asyncio

from benbi import Benbi, Event


async def test_a_job_tells_its_life(app: Benbi) -> None:
    """``events()`` is the whole story so far, then what comes, until the job has ended."""

    @app.task
    async def bake(loaves: int) -> int:
        return loaves

    async with app.working():
        job = await bake.enqueue(3)
        told = [event async for event in job.events()]
    assert [event.type for event in told] == ["created", "started", "completed"]


async def test_the_numbers_of_events_have_no_gaps(app: Benbi) -> None:
    """So who knows the last number misses nothing: ``after=`` goes on from there."""

    @app.task
    async def bake(loaves: int) -> int:
        return loaves

    async with app.working():
        job = await bake.enqueue(3)
        seen = [event.seq async for event in job.events()]
    assert seen == [1, 2, 3]
    assert [event.seq async for event in job.events(after=2)] == [3]
    assert [event.seq for event in await app.events(job.id, after=1)] == [2, 3]


async def test_a_listener_hears_a_job_as_it_lives(app: Benbi) -> None:
    """Events come as soon as they are committed, without asking again and again."""
    go_on = asyncio.Event()

    @app.task
    async def bake() -> None:
        await go_on.wait()

    async with app.working():
        job = await bake.enqueue()
        heard: list[str] = []
        async for event in job.events():
            heard.append(event.type)
            if event.type == "started":
                go_on.set()
    assert heard[-2:] == ["started", "completed"]


async def test_one_stream_can_tell_of_many_jobs(app: Benbi) -> None:
    """``follow_all`` has every event in the order of the commits; ``cursor`` resumes it."""

    @app.task
    async def bake(loaves: int) -> int:
        return loaves

    async def endings(cursor: int, count: int) -> list[Event]:
        found: list[Event] = []
        async for event in app.follow_all(cursor=cursor):
            if event.type == "completed":
                found.append(event)
            if len(found) == count:
                break
        return found

    async with app.working():
        jobs = [await bake.enqueue(1), await bake.enqueue(2)]
        both = await endings(cursor=0, count=2)
        assert {event.job_id for event in both} == {job.id for job in jobs}

        third = await bake.enqueue(3)
        (next_one,) = await endings(cursor=both[-1].cursor, count=1)
        assert next_one.job_id == third.id


async def test_the_record_and_the_log_agree(app: Benbi) -> None:
    """A change and its event are one transaction: the record knows the number of its last."""

    @app.task
    async def bake(loaves: int) -> int:
        return loaves

    async with app.working():
        job = await bake.enqueue(1)
        await job.result()
    record, log = await job.get(), await app.events(job.id)
    assert (record.seq, record.state) == (log[-1].seq, log[-1].type)
