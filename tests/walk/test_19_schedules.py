"""Chapter 19. Tasks that recur: a schedule makes one job for each of its ticks."""

from __future__ import annotations

import pytest

from benbi import Benbi, Context, TaskDefinitionError
from tests.support.polling import wait_until_async


async def test_a_task_may_recur(app: Benbi) -> None:
    """Whichever worker sees a tick first makes its job; the job knows its tick."""
    seen: list[int] = []

    @app.cron(every="1s")
    @app.task
    async def look(ctx: Context) -> None:
        assert ctx.scheduled_for is not None
        seen.append(int(ctx.scheduled_for.timestamp()))

    async with app.working():
        await wait_until_async(lambda: len(seen) >= 2)
    assert sorted(set(seen)) == seen


async def test_nine_in_the_morning_is_somewhere(app: Benbi) -> None:
    """An expression is read in its zone, winter and summer; what is no time is refused at once."""

    @app.task
    async def report(city: str = "Hue") -> None: ...

    app.cron("0 9 * * mon-fri", timezone="Europe/Berlin")(report)
    app.cron("0 9 * * *", timezone="Asia/Ho_Chi_Minh", name="hanoi")(report.call("Hanoi"))
    with pytest.raises(TaskDefinitionError, match="bad day-of-month"):
        app.cron("0 9 30 2 *", name="never")(report)
    with pytest.raises(TaskDefinitionError, match="did you mean Europe/Berlin"):
        app.cron("0 9 * * *", timezone="Europe/Berlim", name="nowhere")(report)

    async with app.working():
        schedules = await wait_until_async(app.schedules)
    assert [schedule.name for schedule in schedules] == ["hanoi", "report"]
    assert {tick.hour for tick in schedules[0].upcoming} == {2}


async def test_a_schedule_can_be_paused_and_run_by_hand(app: Benbi) -> None:
    @app.cron("@yearly")
    @app.task
    async def count() -> str:
        return "counted"

    async with app.working():
        await wait_until_async(app.schedules)
        assert (await app.pause_schedule("count")).state == "paused"
        job = await app.run_schedule("count")
        assert await job.result() == "counted"
        assert (await app.resume_schedule("count")).state == "active"
