"""Chapter 6. A job can ask a person, and holds no worker while it waits for the answer."""

from __future__ import annotations

from typing import Literal

import pytest

from benbi import Benbi, Context, JobFailed, Refused
from tests.support.working import state_reached


async def test_a_job_asks_and_goes_on_with_the_answer(app: Benbi) -> None:
    """It is ``input_required`` until somebody answers: a minute or a month later."""

    @app.task
    async def order(ctx: Context, price: int) -> str:
        if await ctx.ask(f"It costs {price}. Buy it?", bool):
            return "bought"
        return "left in the shop"

    async with app.working():
        job = await order.enqueue(300)
        record = await state_reached(app, job.id, "input_required")
        assert [question.prompt for question in record.questions] == ["It costs 300. Buy it?"]

        await job.answer(True)
        assert await job.result() == "bought"
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "started", "input_required"),
        *("answered", "pending", "started", "completed"),
    ]


async def test_a_waiting_job_holds_no_slot(app: Benbi) -> None:
    """A worker with one slot runs other jobs while a job of its waits for an answer."""

    @app.task
    async def order(ctx: Context) -> str:
        return await ctx.ask("Which colour?")

    @app.task
    async def greet() -> str:
        return "hello"

    async with app.working(slots=1):
        job = await order.enqueue()
        await state_reached(app, job.id, "input_required")
        assert await (await greet.enqueue()).result() == "hello"
        await job.answer("red")
        assert await job.result() == "red"


async def test_an_answer_must_fit_its_question(app: Benbi) -> None:
    """The question has a type; what does not fit is refused, and the question stays open."""

    @app.task
    async def order(ctx: Context) -> str:
        size: Literal["s", "m", "l"] = await ctx.ask("Which size?", Literal["s", "m", "l"])
        return size

    async with app.working():
        job = await order.enqueue()
        await state_reached(app, job.id, "input_required")
        with pytest.raises(Refused):
            await job.answer("xl")
        await job.answer("l")
        assert await job.result() == "l"


async def test_the_first_answer_wins(app: Benbi) -> None:
    """Two people may see one question; the second is told that it was answered."""

    @app.task
    async def order(ctx: Context) -> str:
        return await ctx.ask("Which colour?")

    job = await order.enqueue()
    async with app.working():
        await state_reached(app, job.id, "input_required")
    await job.answer("red")
    with pytest.raises(Refused):
        await job.answer("blue")


async def test_several_questions_are_answered_by_their_keys(app: Benbi) -> None:
    """``key=`` names a question; without it they are numbered."""

    @app.task
    async def order(ctx: Context) -> str:
        colour = await ctx.ask("Which colour?", key="colour")
        count = await ctx.ask("How many?", int, key="count")
        return f"{count} {colour}"

    async with app.working():
        job = await order.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("red", question="colour")
        await state_reached(app, job.id, "input_required")
        await job.answer(3, question="count")
        assert await job.result() == "3 red"


async def test_a_question_may_answer_itself_in_time(app: Benbi) -> None:
    """``timeout=`` with ``default=``: silence is an answer, too."""

    @app.task
    async def order(ctx: Context) -> bool:
        return await ctx.ask("Gift wrap?", bool, timeout=0.01, default=False)

    async with app.working():
        assert await (await order.enqueue()).result() is False


async def test_a_question_without_a_default_may_expire(app: Benbi) -> None:
    """Then the job has failed, and says that nobody answered."""

    @app.task
    async def order(ctx: Context) -> bool:
        return await ctx.ask("Gift wrap?", bool, timeout=0.01)

    async with app.working():
        with pytest.raises(JobFailed, match="nobody answered"):
            await (await order.enqueue()).result()
