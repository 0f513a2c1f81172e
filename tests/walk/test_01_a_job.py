"""Chapter 1. A task is a function; a job is one call of it, kept in a file until it is done.

Read the chapters in order: each test is one idea, in code that you could have written.
``app.working()`` is all the support they use: it runs ``app.work()`` while its block lasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benbi import Benbi, Context, State


@dataclass
class Report:
    city: str
    best: int


async def test_a_job_is_a_call_that_a_worker_makes(app: Benbi) -> None:
    """``enqueue`` takes the arguments of the function; ``result`` waits for what it returns."""

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with app.working():
        job = await add.enqueue(1, b=2)
        assert await job.result() == 3


async def test_a_job_waits_for_a_worker(app: Benbi) -> None:
    """No worker is needed to accept a job, and none is lost while there is none."""

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    job = await greet.enqueue("Mai")
    assert (await job.get()).state == "pending"
    async with app.working():
        assert await job.result() == "hello Mai"


async def test_a_job_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    """When ``enqueue`` returns, the job is on disk: another process finds it by its id."""
    async with Benbi(str(tmp_path / "jobs.db")) as shop:

        @shop.task
        async def ship(order: int) -> str:
            return f"order {order} is on its way"

        job_id = (await ship.enqueue(17)).id

    async with Benbi(str(tmp_path / "jobs.db")) as office:
        assert (await office.get(job_id)).task == "ship"
        assert await office.arguments_json(job_id) == '{"order":17}'


async def test_the_result_has_the_type_that_the_function_names(app: Benbi) -> None:
    """What is stored is JSON; what ``result`` gives back is what the function said it returns."""

    @app.task
    async def analyse(city: str) -> Report:
        return Report(city, best=42)

    async with app.working():
        report = await (await analyse.enqueue("Hue")).result()
        assert report == Report("Hue", 42)


async def test_a_job_can_know_itself(app: Benbi) -> None:
    """A first parameter annotated ``Context`` is not an argument: it is the job's own view."""

    @app.task
    async def who_am_i(ctx: Context) -> str:
        return ctx.job_id

    async with app.working():
        job = await who_am_i.enqueue()
        assert await job.result() == job.id


async def test_the_record_says_where_a_job_is(app: Benbi) -> None:
    """``get`` reads the record: its state, its times, how often it was tried."""

    @app.task(queue="letters")
    async def print_letter() -> None: ...

    async with app.working():
        handle = await print_letter.enqueue()
        await handle.result()
    job = await handle.get()
    assert (job.task, job.queue, job.state, job.attempt) == (
        *("print_letter", "letters"),
        *(State.COMPLETED, 1),
    )
    assert job.started_at is not None and job.finished_at is not None
    assert job.created_at <= job.started_at <= job.finished_at


async def test_a_task_is_still_a_function(app: Benbi) -> None:
    """Calling it calls it, here and now: your own tests need no database."""

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    assert await add(1, 2) == 3
