"""``app.cron``: what may be planned, how it fires, and how it is steered."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, ConfigurationError, Context, SyncContext, TaskDefinitionError
from benbi.errors import ScheduleNotFound
from benbi.job import Event
from tests.support.polling import wait_until_async
from tests.support.working import working

PROCESSES = 4


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return Benbi(str(tmp_path / "jobs.db"))


def nothing() -> None: ...


async def needs(city: str) -> str:
    return city


# What may be planned.


def test_the_task_stays_what_it_is(app: Benbi) -> None:
    task = app.task(nothing)
    assert app.cron("@daily")(task) is task
    call = app.task(needs).call("Hue")
    assert app.cron("@daily")(call) is call


def refused(app: Benbi, *spec: Any, planned: Any = None, **said: Any) -> str:
    """Why this is no schedule."""
    with pytest.raises(TaskDefinitionError) as error:
        app.cron(*spec, **said)(planned or app.tasks.get("nothing") or app.task(nothing))
    return str(error.value)


def test_what_is_no_schedule_is_refused_with_its_remedy(app: Benbi) -> None:
    assert "schedule nothing: '0 0 30 2 *': bad day-of-month" in refused(app, "0 0 30 2 *")
    assert "a step of the minute is 60 at the most" in refused(app, "5,*/61 * * * *")
    assert "a step of the day-of-week is 7 at the most" in refused(app, "0 0 * * mon-fri/8")
    assert "did you mean Asia/Ho_Chi_Minh" in refused(app, "@daily", timezone="Asia/Ho_Chi_Min")
    assert "a second or more" in refused(app, every=0.1)
    assert '"latest", "all" or "none"' in refused(app, "@daily", catchup="some")
    assert "one of them" in refused(app)
    assert "one of them" in refused(app, "@daily", every="1m")
    assert "leave out timezone=" in refused(app, every="1m", timezone="UTC")
    assert "1 to 200 characters" in refused(app, "@daily", name="")
    assert "1 to 200 characters" in refused(app, "@daily", name="x" * 201)


def test_a_name_is_used_once(app: Benbi) -> None:
    app.cron("@daily")(app.task(nothing))
    assert "name=" in refused(app, "@weekly")
    app.cron("@weekly", name="weekly")(app.tasks["nothing"])


def test_only_tasks_of_this_app_are_planned(app: Benbi) -> None:
    assert "above @app.task" in refused(app, "@daily", planned=nothing)
    other = Benbi(":memory:").task(nothing)
    assert "another app" in refused(app, "@daily", planned=other)


def test_arguments_are_given_or_not_needed(app: Benbi) -> None:
    task = app.task(needs)
    assert "app.cron(…)(needs.call(…))" in refused(app, "@daily", planned=task)
    app.cron("@daily")(task.call("Hue"))


@pytest.mark.parametrize(
    "option",
    [
        {"key": "k"},
        {"delay": 5},
        {"run_at": datetime(2100, 1, 1, tzinfo=UTC)},
        {"same_call_within": 5},
        {"connection": object()},
    ],
    ids=lambda option: next(iter(option)),
)
def test_what_is_said_of_one_call_is_not_said_of_all(app: Benbi, option: Any) -> None:
    call = app.task(needs).options(**option).call("Hue")
    assert f"{next(iter(option))}: of one job" in refused(app, "@daily", planned=call)


# How it fires.


async def test_a_tick_becomes_a_job_that_knows_it(app: Benbi) -> None:
    seen: list[datetime | None] = []

    @app.cron(every="1s")
    @app.task
    async def report(ctx: Context) -> None:
        seen.append(ctx.scheduled_for)

    started = datetime.now(UTC)
    async with app, working(app):
        await wait_until_async(lambda: len(seen) >= 2)
        (schedule,) = await app.schedules()
    first, second = seen[0], seen[1]
    assert first is not None and second is not None
    assert first.microsecond == 0 and timedelta() <= first - started < timedelta(seconds=5)
    assert second >= first + timedelta(seconds=1)
    assert (schedule.name, schedule.task, schedule.state) == ("report", "report", "active")
    assert schedule.last is not None and schedule.last >= second
    assert schedule.upcoming[1] - schedule.upcoming[0] == timedelta(seconds=1)
    assert len(schedule.upcoming) == 5


async def test_a_job_of_another_origin_has_no_tick(app: Benbi) -> None:
    @app.task
    def report(ctx: SyncContext) -> bool:
        return ctx.scheduled_for is None

    async with app, working(app):
        assert await (await report.enqueue()).result()


async def test_a_retry_knows_its_tick(app: Benbi) -> None:
    seen: list[datetime | None] = []

    @app.task
    async def report(ctx: Context) -> None:
        seen.append(ctx.scheduled_for)
        if len(seen) == 1:
            raise ValueError("once")

    app.cron("@yearly")(report)
    async with app, working(app):
        await wait_until_async(app.schedules)
        job = await app.run_schedule("report")
        await wait_until_async(lambda: len(seen) == 1)
        await app.store.write(_hurry)
        await job.result()
    assert seen[0] == seen[1] is not None


def _hurry(tx: Any) -> None:
    """Makes what is put off due."""
    tx.now += 3_600_000_000
    from benbi.store import moves

    moves.due(tx)


async def test_a_server_without_a_worker_fires(app: Benbi) -> None:
    app.cron(every="1s")(app.task(nothing))
    async with app, app.working(worker=False):
        jobs = await wait_until_async(app.jobs)
    assert jobs[0].task == "nothing" and jobs[0].state == "pending"


async def test_a_call_brings_its_arguments_and_options(app: Benbi) -> None:
    call = app.task(needs).options(owner="mai", priority=7, queue="slow").call("Hue")
    app.cron(every="1s", name="hue")(call)
    async with app, app.working(worker=False):
        job = (await wait_until_async(app.jobs))[0]
        assert await app.arguments_json(job.id) == '{"city":"Hue"}'
    assert (job.owner, job.priority, job.queue) == ("mai", 7, "slow")


async def test_steering_one_schedule(app: Benbi) -> None:
    app.cron("@yearly")(app.task(nothing))
    async with app, working(app):
        await wait_until_async(app.schedules)
        paused = await app.pause_schedule("nothing")
        assert paused.state == "paused" and paused.paused_at is not None
        job = await app.run_schedule("nothing")
        assert await job.result() is None
        resumed = await app.resume_schedule("nothing")
        assert (resumed.state, resumed.paused_at, resumed.last) == ("active", None, None)
        with pytest.raises(ScheduleNotFound, match="nonesuch"):
            await app.run_schedule("nonesuch")


async def test_the_blocking_twins_refuse_a_running_loop(app: Benbi) -> None:
    with pytest.raises(ConfigurationError, match="await schedules"):
        app.schedules_sync()
    for twin in (app.pause_schedule_sync, app.resume_schedule_sync, app.run_schedule_sync):
        with pytest.raises(ConfigurationError, match="await"):
            twin("nothing")


def test_steering_without_a_loop(app: Benbi) -> None:
    app.cron("@yearly")(app.task(nothing))

    async def register() -> None:
        async with app.working(worker=False):
            await wait_until_async(app.schedules)

    asyncio.run(register())
    with app:
        assert app.pause_schedule_sync("nothing").state == "paused"
        assert app.resume_schedule_sync("nothing").state == "active"
        assert app.run_schedule_sync("nothing").get_sync().state == "pending"
        assert [schedule.name for schedule in app.schedules_sync()] == ["nothing"]


async def test_several_processes_make_one_job_for_each_tick(tmp_path: Path) -> None:
    """Four processes on one file; two of them die on the way."""
    url = str(tmp_path / "jobs.db")
    command = [sys.executable, str(Path(__file__).with_name("cron_app.py"))]
    environment = {**os.environ, "BENBI_URL": url}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(PROCESSES)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"working\n"
        async with Benbi(url) as app:
            await wait_until_async(lambda: _made(app, 2), 30.0)
            for process in started[:2]:
                process.kill()
            made = await wait_until_async(lambda: _made(app, 4), 30.0)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    ticks = [datetime.fromisoformat(event.data["scheduled_for"]) for event in made]
    assert ticks == [ticks[0] + timedelta(seconds=n) for n in range(len(ticks))]


async def _made(app: Benbi, most: int) -> list[Event]:
    """The first events of all jobs in the order of their ticks; none before there are so many."""
    jobs = await app.jobs(limit=1000)
    if len(jobs) < most:
        return []
    return [(await app.events(job.id))[0] for job in reversed(jobs)]
