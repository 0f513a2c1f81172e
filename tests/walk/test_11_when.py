"""Chapter 11. When a job runs: later, before others, only where it belongs, or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from benbi import Benbi, Context, JobFailed, Refused


async def test_a_job_can_be_delayed(app: Benbi) -> None:
    """``delay=`` in seconds, as a timedelta, or as a text such as "10m"."""

    @app.task
    async def remind() -> None: ...

    job = await remind.options(delay="10m").enqueue()
    record = await job.get()
    assert record.state == "scheduled"
    assert record.run_at - record.created_at == timedelta(minutes=10)


async def test_a_job_can_be_planned(app: Benbi) -> None:
    """``run_at=`` takes a time with a time zone: "at nine" is not a time until you say where."""

    @app.task
    async def remind() -> None: ...

    new_year = datetime(2100, 1, 1, tzinfo=UTC)
    job = await remind.options(run_at=new_year).enqueue()
    assert (await job.get()).run_at == new_year
    with pytest.raises(Refused, match="time zone"):
        remind.options(run_at=datetime(2100, 1, 1))


async def test_what_is_due_is_run(app: Benbi) -> None:
    """A worker wakes up for it; nobody else is needed."""

    @app.task
    async def remind() -> str:
        return "time is over"

    async with app.working():
        job = await remind.options(delay=0.05).enqueue()
        assert await job.result() == "time is over"
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "pending", "started", "completed"),
    ]


async def test_the_urgent_goes_first(app: Benbi) -> None:
    """A higher ``priority`` runs earlier; equal ones run in the order they came."""
    ran: list[str] = []

    @app.task
    async def serve(guest: str) -> None:
        ran.append(guest)

    await serve.enqueue("first")
    await serve.enqueue("second")
    last = await serve.options(priority=-1).enqueue("patient")
    await serve.options(priority=5).enqueue("urgent")
    async with app.working(slots=1):
        await last.result()
    assert ran == ["urgent", "first", "second", "patient"]


async def test_a_worker_takes_the_queues_it_is_given(app: Benbi) -> None:
    """Heavy work can have workers of its own; a call may name another queue than its task."""
    ran: list[str] = []

    @app.task(queue="heavy")
    async def lift(ctx: Context, what: str) -> None:
        ran.append(what)

    await lift.enqueue("a piano")
    light = await lift.options(queue="light").enqueue("a feather")
    async with app.working(queues=["light"]):
        await light.result()
    assert ran == ["a feather"]


async def test_a_job_may_be_worthless_after_a_while(app: Benbi) -> None:
    """``expires_in=``: what has not started by then fails instead of coming too late."""

    @app.task
    async def fetch_breakfast() -> None: ...

    job = await fetch_breakfast.options(queue="kitchen", expires_in=0.01).enqueue()
    async with app.working():
        with pytest.raises(JobFailed, match="expired"):
            await job.result()
