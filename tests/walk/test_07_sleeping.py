"""Chapter 7. A job can sleep for a second or a month; its worker does other things meanwhile."""

from __future__ import annotations

from benbi import Benbi, Context, Snooze
from tests.support.working import state_reached


async def test_a_sleeping_job_holds_no_slot(app: Benbi) -> None:
    """It is ``scheduled``; nothing of it is in memory, and a restart does not wake it."""

    @app.task
    async def remind(ctx: Context) -> str:
        await ctx.sleep(3600)
        return "time is over"

    @app.task
    async def greet() -> str:
        return "hello"

    async with app.working(slots=1):
        job = await remind.enqueue()
        record = await state_reached(app, job.id, "scheduled")
        assert 3500 < (record.run_at - record.created_at).total_seconds() < 3700
        assert await (await greet.enqueue()).result() == "hello"


async def test_the_function_starts_from_the_top_and_sleeps_only_once(app: Benbi) -> None:
    """The wake time is recorded: on the second pass ``sleep`` returns at once."""
    passes: list[str] = []

    @app.task
    async def remind(ctx: Context) -> None:
        passes.append("asleep")
        await ctx.sleep(0.01)
        passes.append("awake")

    async with app.working():
        job = await remind.enqueue()
        await job.result()
    assert passes == ["asleep", "asleep", "awake"]
    assert (await job.get()).failures == 0


async def test_a_job_may_say_not_now(app: Benbi) -> None:
    """``Snooze`` ends the attempt, charges nothing, and the job is run again later."""

    @app.task(retry=1)
    async def collect(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise Snooze(0.01, "the shop is closed")
        return ctx.attempt

    async with app.working():
        job = await collect.enqueue()
        assert await job.result() == 3
    assert (await job.get()).failures == 0
