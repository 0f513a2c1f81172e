"""Schedules: one job for each tick whoever tries, and what a tick that has passed comes to."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import NoReturn

import pytest

from benbi.engine.schedule import LATE, SEEN, STRETCH, UNSEEN, Catchup, Plan, Scheduler
from benbi.engine.ticks import Cron, Every
from benbi.errors import ScheduleNotFound
from benbi.job import Event, as_datetime, new_id
from benbi.store import schedules, views
from benbi.store.schedules import KEEP_UNSEEN, Due, Stored
from tests.support.rig import SECOND, Rig

MINUTE = 60 * SECOND


def refuse(problem: str) -> NoReturn:
    raise AssertionError(problem)


def plan(
    rig: Rig,
    name: str = "report",
    every: str | None = "10m",
    *,
    cron: str = "",
    catchup: Catchup = "latest",
    **fields: object,
) -> Plan:
    """A schedule that makes jobs of the task ``work``."""
    ticks = Cron(cron, "UTC", refuse) if cron else Every(every or "", refuse)
    return Plan(name, ticks, catchup, rig.new(**fields))


def process(rig: Rig, *plans: Plan) -> Scheduler:
    """A process that has these schedules in its code, and has begun to work."""
    found = Scheduler(rig.store, {one.name: one for one in plans})
    turn(found)
    return found


def turn(scheduler: Scheduler) -> bool:
    """One round of its upkeep."""
    return asyncio.run(scheduler.round())


def row(rig: Rig, name: str = "report") -> Stored:
    return rig.store.read_sync(schedules.one, name)


def made(rig: Rig) -> list[Event]:
    """The first event of each job, oldest job first."""
    ids = [str(job_id) for (job_id,) in _ids(rig)]
    return [rig.events(job_id)[0] for job_id in ids]


def _ids(rig: Rig) -> list[tuple[str]]:
    jobs = rig.store.read_sync(views.jobs, None, None, None, None, None, 10_000)
    return [(job.id,) for job in reversed(jobs)]


def ticks(rig: Rig) -> list[str]:
    """The times that the jobs so far were made for."""
    return [event.data["scheduled_for"] for event in made(rig)]


def clock(rig: Rig, seconds: float) -> str:
    """The time so many seconds from now, as the event of a tick tells it."""
    moment = as_datetime(rig.clock.now + round(seconds * SECOND))
    assert moment is not None
    return moment.isoformat().replace("+00:00", "Z")


@pytest.fixture(autouse=True)
def on_the_dot(rig: Rig) -> None:
    """The tests begin at a multiple of ten minutes."""
    rig.clock.now += -rig.clock.now % (10 * MINUTE)


def test_a_new_schedule_counts_from_now(rig: Rig) -> None:
    scheduler = process(rig, plan(rig))
    assert not turn(scheduler)
    rig.clock.tick(599)
    assert not turn(scheduler) and made(rig) == []
    rig.clock.tick(1)
    assert turn(scheduler)
    assert ticks(rig) == [clock(rig, 0)]
    assert not turn(scheduler), "a tick is over when it has its job"


def test_a_tick_is_one_job_however_many_saw_it(rig: Rig) -> None:
    mine = plan(rig)
    process(rig, mine)
    rig.clock.tick(600)
    seen = row(rig)
    due = mine.due(seen, seen.last_tick + 600 * SECOND, rig.clock.now)
    jobs = [[mine.job._replace(id=new_id())] for _ in range(3)]
    assert [rig.store.write_sync(schedules.fire, due, job) for job in jobs] == [True, False, False]
    assert len(made(rig)) == 1


def test_a_tick_is_one_job_after_an_unknown_commit(rig: Rig) -> None:
    mine = plan(rig)
    process(rig, mine)
    rig.clock.tick(600)
    seen = row(rig)
    due, jobs = mine.due(seen, rig.clock.now, rig.clock.now), [mine.job._replace(id=new_id())]
    rig.store.write_sync(schedules.fire, due, jobs)
    rig.store.write_sync(schedules.fire, due, jobs)
    assert len(made(rig)) == 1


def test_retention_of_the_job_does_not_bring_its_tick_back(rig: Rig) -> None:
    """Two processes look; one fires, and its job is over and gone before the other gets there."""
    mine = plan(rig)
    process(rig, mine)
    rig.clock.tick(600)
    seen = row(rig)
    due = mine.due(seen, rig.clock.now, rig.clock.now)
    assert rig.store.write_sync(schedules.fire, due, [mine.job._replace(id=new_id())])
    rig.complete(rig.claim_one())
    rig.put("other")  # The newest job stays whatever its age.
    rig.clock.tick(8 * 86_400)
    assert rig.prune() == 1
    assert not rig.store.write_sync(schedules.fire, due, [mine.job._replace(id=new_id())])


def test_the_job_knows_its_tick(rig: Rig) -> None:
    scheduler = process(rig, plan(rig, arguments={"city": "Hue"}, rank=-3))
    rig.clock.tick(600.7)
    turn(scheduler)
    claim = rig.claim_one()
    assert claim.scheduled_for == rig.clock.now - round(0.7 * SECOND)
    assert claim.arguments == '{"city": "Hue"}'
    (created,) = made(rig)
    assert created.type == "created"
    assert created.data == {"schedule": "report", "scheduled_for": clock(rig, -0.7)}
    found = row(rig)
    assert (found.fired_at, found.last_job) == (claim.scheduled_for, claim.id)


def test_another_job_has_no_tick(rig: Rig) -> None:
    assert rig.running().scheduled_for is None


@pytest.mark.parametrize(
    ("catchup", "expected"), [("latest", [0]), ("all", [-1800, -1200, -600, 0]), ("none", [])]
)
def test_what_was_missed_while_nobody_was_there(
    rig: Rig, catchup: Catchup, expected: list[int]
) -> None:
    process(rig, plan(rig, catchup=catchup))
    rig.clock.tick(2400 + 300)
    scheduler = process(rig, plan(rig, catchup=catchup))
    assert ticks(rig) == [clock(rig, seconds - 300) for seconds in expected]
    rig.clock.tick(300)
    assert turn(scheduler), "and then it goes on"
    assert ticks(rig)[-1] == clock(rig, 0)


def test_a_restart_misses_nothing(rig: Rig) -> None:
    """catchup="none": a tick is missed when it is a minute old, not a moment."""
    process(rig, plan(rig, catchup="none"))
    rig.clock.tick(600 + LATE / SECOND)
    process(rig, plan(rig, catchup="none"))
    assert ticks(rig) == [clock(rig, -60)]


def test_all_that_was_missed_is_made_in_stretches(rig: Rig) -> None:
    process(rig, plan(rig, every="1s", catchup="all"))
    rig.clock.tick(2 * STRETCH + 50)
    process(rig, plan(rig, every="1s", catchup="all"))
    assert ticks(rig) == [clock(rig, n + 1 - 2 * STRETCH - 50) for n in range(2 * STRETCH + 50)]


def test_a_stretch_is_bounded(rig: Rig) -> None:
    mine = plan(rig, every="1s", catchup="all")
    process(rig, mine)
    rig.clock.tick(86_400)
    seen = row(rig)
    due = mine.due(seen, seen.last_tick + SECOND, rig.clock.now)
    assert len(due.ticks) == STRETCH and due.tick == due.ticks[-1]


def test_a_paused_schedule_makes_no_jobs(rig: Rig) -> None:
    scheduler = process(rig, plan(rig, catchup="all"))
    rig.store.write_sync(schedules.pause, "report")
    rig.clock.tick(1800)
    assert not turn(scheduler) and made(rig) == []
    rig.store.write_sync(schedules.resume, "report")
    assert not turn(scheduler), "what passed meanwhile is nobody's"
    rig.clock.tick(600)
    turn(scheduler)
    assert ticks(rig) == [clock(rig, 0)]


def test_a_pause_wins_over_who_has_looked_already(rig: Rig) -> None:
    mine = plan(rig)
    process(rig, mine)
    rig.clock.tick(600)
    due = mine.due(row(rig), rig.clock.now, rig.clock.now)
    rig.store.write_sync(schedules.pause, "report")
    assert not rig.store.write_sync(schedules.fire, due, [mine.job])
    rig.store.write_sync(schedules.resume, "report")
    assert not rig.store.write_sync(schedules.fire, due, [mine.job]), "nor does a resume undo it"


def test_pausing_and_resuming_can_be_repeated(rig: Rig) -> None:
    process(rig, plan(rig))
    first = rig.store.write_sync(schedules.pause, "report")
    rig.clock.tick(1)
    assert rig.store.write_sync(schedules.pause, "report") == first
    rig.store.write_sync(schedules.resume, "report")
    resumed = row(rig)
    rig.clock.tick(900)
    assert rig.store.write_sync(schedules.resume, "report") == resumed


def test_a_pause_survives_a_restart(rig: Rig) -> None:
    process(rig, plan(rig))
    rig.store.write_sync(schedules.pause, "report")
    rig.clock.tick(900)
    process(rig, plan(rig))
    assert row(rig).paused_at is not None and made(rig) == []


def test_run_now_is_a_job_beside_the_ticks(rig: Rig) -> None:
    scheduler = process(rig, plan(rig, arguments={"city": "Hue"}))
    rig.store.write_sync(schedules.pause, "report")
    rig.clock.tick(100)
    job_id = new_id()
    for _ in range(2):
        rig.store.write_sync(schedules.run_now, "report", job_id)
    (created,) = made(rig)
    assert created.data == {
        "schedule": "report",
        "scheduled_for": clock(rig, 0),
        "by_hand": True,
    }
    claim = rig.claim_one()
    assert (claim.id, claim.arguments, claim.scheduled_for) == (
        job_id,
        '{"city": "Hue"}',
        rig.clock.now,
    )
    rig.store.write_sync(schedules.resume, "report")
    rig.clock.tick(500)
    assert turn(scheduler), "the next tick comes all the same"


@pytest.mark.parametrize("move", [schedules.pause, schedules.resume])
def test_a_schedule_that_is_not_there(rig: Rig, move: object) -> None:
    with pytest.raises(ScheduleNotFound, match="nonesuch"):
        rig.store.write_sync(move, "nonesuch")  # type: ignore[arg-type]
    with pytest.raises(ScheduleNotFound):
        rig.store.write_sync(schedules.run_now, "nonesuch", new_id())


# Several versions of the code.


def test_of_two_releases_the_newer_fires(rig: Rig) -> None:
    old = process(rig, plan(rig, every="10m"))
    new = process(rig, plan(rig, every="15m"))
    for _ in range(6):
        rig.clock.tick(300)
        turn(old)
        turn(new)
    assert ticks(rig) == [clock(rig, -900), clock(rig, 0)]


def test_the_older_release_does_not_fire_what_it_saw_before(rig: Rig) -> None:
    old = plan(rig, every="10m")
    process(rig, old)
    seen = row(rig)
    process(rig, plan(rig, every="10m", arguments={"new": True}))
    rig.clock.tick(600)
    due = old.due(seen, rig.clock.now, rig.clock.now)
    assert not rig.store.write_sync(schedules.fire, due, [old.job])


def test_where_the_newer_release_is_gone_the_older_fires_again(rig: Rig) -> None:
    """An old process that is started again during a deploy counts as the newest, until it ends."""
    new = process(rig, plan(rig, every="10m"))
    process(rig, plan(rig, every="15m"))
    turn(new)
    for _ in range(5):
        rig.clock.tick(10)
        turn(new)
        assert row(rig).spec == "every 15m"
    rig.clock.tick(10)
    turn(new)
    assert row(rig).spec == "every 10m"
    rig.clock.tick(540)
    assert turn(new)
    assert ticks(rig) == [clock(rig, 0)]


def test_after_a_pause_of_the_machine_the_newer_still_fires(rig: Rig) -> None:
    """Who looks first finds that nobody was seen for long: so it was for all of them."""
    old = process(rig, plan(rig, every="10m"))
    new = process(rig, plan(rig, every="15m"))
    turn(old)
    rig.clock.tick(10 * UNSEEN / SECOND)
    for _ in range(20):
        turn(old)
        turn(new)
        rig.clock.tick(10)
    assert row(rig).spec == "every 15m"


def test_other_times_count_from_when_the_former_were_last_seen(rig: Rig) -> None:
    """The ticks of the new times that passed before are none; in a stop for a deploy they are."""
    process(rig, plan(rig, every="10m", catchup="all"))
    rig.clock.tick(120)
    process(rig, plan(rig, every="1m", catchup="all"))
    assert ticks(rig) == [clock(rig, -60), clock(rig, 0)]


def test_a_schedule_of_other_times_makes_up_for_nothing_before_it(rig: Rig) -> None:
    """Every minute since nine in the morning would be many."""
    mine = process(rig, plan(rig, every="1d"))
    for _ in range(60):
        rig.clock.tick(10)
        turn(mine)
    process(rig, plan(rig, every="1m", catchup="all"))
    assert ticks(rig) == []


def test_a_tick_is_not_made_again_by_other_times(rig: Rig) -> None:
    scheduler = process(rig, plan(rig, every="10m"))
    rig.clock.tick(600)
    turn(scheduler)
    process(rig, plan(rig, every="5m", catchup="all"))
    assert ticks(rig) == [clock(rig, 0)]


def test_another_job_at_the_same_times_misses_nothing(rig: Rig) -> None:
    process(rig, plan(rig, catchup="latest"))
    rig.clock.tick(700)
    process(rig, plan(rig, catchup="latest", arguments={"city": "Hue"}))
    assert ticks(rig) == [clock(rig, -100)]
    assert rig.claim_one().arguments == '{"city": "Hue"}'


def test_a_schedule_that_left_the_code_does_not_fire(rig: Rig) -> None:
    process(rig, plan(rig, "report"), plan(rig, "clean"))
    rig.clock.tick(600)
    process(rig, plan(rig, "clean"))
    assert [event.data["schedule"] for event in made(rig)] == ["clean"]
    assert row(rig, "report").fired_at is None


def test_a_schedule_that_left_the_code_long_ago_is_forgotten(rig: Rig) -> None:
    process(rig, plan(rig, "report"), plan(rig, "clean"))
    rig.clock.tick(KEEP_UNSEEN / SECOND)
    process(rig, plan(rig, "clean"))
    assert row(rig, "report")
    rig.clock.tick(1)
    process(rig, plan(rig, "clean"))
    with pytest.raises(ScheduleNotFound):
        row(rig, "report")


def test_a_live_schedule_is_never_forgotten(rig: Rig) -> None:
    mine = process(rig, plan(rig, every="1d"))
    for _ in range(40):
        rig.clock.tick(86_400)
        turn(mine)
        process(rig, plan(rig, "clean", catchup="none"))
    assert row(rig).version == 1


def test_a_process_says_that_it_is_there(rig: Rig) -> None:
    mine = process(rig, plan(rig))
    rig.clock.tick(SEEN / SECOND - 1)
    turn(mine)
    assert rig.clock.now - row(rig).seen_at == SEEN - SECOND
    rig.clock.tick(1)
    turn(mine)
    assert row(rig).seen_at == rig.clock.now


def test_one_that_fails_does_not_keep_the_others(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = plan(rig, "broken"), plan(rig, "sound")
    scheduler = process(rig, broken, sound)

    def fail(at: int) -> NoReturn:
        raise OverflowError("no such year")

    broken.ticks.after = fail  # type: ignore[method-assign]
    scheduler._next.clear()
    rig.clock.tick(600)
    with suppress(OverflowError):
        turn(scheduler)
    assert [event.data["schedule"] for event in made(rig)] == ["sound"]
    assert "schedule broken can not fire" in caplog.text


def test_a_job_that_the_store_refuses_keeps_no_other(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    broken = plan(rig, "broken", every="1s", catchup="all", max_attempts=0)
    scheduler = process(rig, broken, plan(rig, "sound"))
    rig.clock.tick(600)
    assert turn(scheduler)
    assert [event.data["schedule"] for event in made(rig)] == ["sound"]
    assert row(rig, "broken").fired_at is None
    assert "schedule broken could not fire" in caplog.text
    assert scheduler.pause == math.inf, "and not at once"


def test_a_tick_that_is_nobodys_makes_no_job(rig: Rig) -> None:
    process(rig, plan(rig))
    seen = row(rig)
    due = Due("report", seen.version, seen.last_tick, rig.clock.now + SECOND, [])
    assert rig.store.write_sync(schedules.fire, due, [])
    assert made(rig) == [] and row(rig).fired_at is None
