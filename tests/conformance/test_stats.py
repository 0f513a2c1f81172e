"""Statistics: each figure against a plain computation over the log of a generated history."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from benbi.fleet import Stats, TaskStats, Timings
from benbi.job import STATE_EVENTS, as_datetime
from benbi.outcome import Completed, Outcome, Released, Skipped, Snoozed, Suspended
from benbi.store import stats
from benbi.store.lifecycle import Told
from benbi.store.statements import load
from tests.support.rig import DAY, SECOND, Rig, asked, failure

TASKS = ("work", "other")
QUEUES = ("default", "mail")


def read(rig: Rig, seconds: float) -> Stats:
    """The statistics, stretch by stretch as the app reads them."""
    span: stats.Span | None = rig.store.read_sync(stats.span_of, round(seconds * SECOND))
    tally = stats.Tally(span)
    while span is not None:
        span = rig.store.read_sync(stats.count, tally, span)
    return tally.stats(rig.store.read_sync(stats.backlog))


def only(rig: Rig, seconds: float = 3600) -> TaskStats:
    (found,) = read(rig, seconds).tasks
    return found


# The plain computation.


def three_digits(seconds: float) -> float:
    return float(f"{seconds:.3g}")


def percentile(values: list[float], share: int) -> float:
    """The smallest value that is not exceeded by so many per cent."""
    ordered = sorted(values)
    return next(
        value
        for value in ordered
        if sum(other <= value for other in ordered) >= share / 100 * len(ordered)
    )


def plain_timings(values: list[float]) -> tuple[Any, ...]:
    if not values:
        return (0, None, None, None)
    return (len(values), *(three_digits(percentile(values, share)) for share in (50, 95, 99)))


def plain(rig: Rig, jobs: list[str], since: int) -> dict[tuple[str, str], dict[str, Any]]:
    """The same figures from each job's record and events, one after the other."""
    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(
        lambda: defaultdict(int) | {"waited": [], "ran": []}
    )
    for job_id in jobs:
        job = rig.job(job_id)
        its = found[job.task, job.queue]
        before = None
        for event in rig.events(job_id):
            if event.type not in STATE_EVENTS:
                continue
            if event.at >= as_datetime(since):
                if event.type in ("completed", "failed", "canceled", "skipped"):
                    its[event.type] += 1
                its["retries"] += event.type == "retrying" or (
                    event.type == "pending" and event.reason == "lost"
                )
                if before is not None and event.type == "started":
                    due = before.at
                    if before.type == "pending" and before.reason == "due":
                        due = min(due, job.run_at)
                    its["waited"].append((event.at - due).total_seconds())
                elif before is not None and before.type == "started":
                    its["ran"].append((event.at - before.at).total_seconds())
            before = event
        if job.state == "pending":
            its["pending"] += 1
    return found


def history(rig: Rig, seed: int, moves: int) -> list[str]:
    """Some hundred moves of many jobs, at times of their own."""
    chance = random.Random(seed)
    jobs: list[str] = []
    worker = rig.worker()
    running: list[Any] = []
    for _ in range(moves):
        rig.clock.tick(chance.choice((0.001, 0.4, 7, 90, 3000)) * chance.random())
        match chance.randrange(8):
            case 0 | 1:
                delay = chance.choice((None, None, 30, 600))
                task, queue = chance.choice(TASKS), chance.choice(QUEUES)
                jobs.append(rig.put(task, queue=queue, delay=delay, owner=chance.choice("ab")))
            case 2 | 3:
                running += rig.claim(worker, chance.randrange(1, 4), queues=QUEUES, tasks=TASKS)
            case 4 | 5 if running:
                claim = running.pop(chance.randrange(len(running)))
                rig.write(claim, Told("partial", None, "1"), Told("progress", None, None))
                rig.finish(claim, chance.choice(outcomes()), asks=[asked()])
            case 6:
                rig.due()
                if jobs and chance.random() < 0.5:
                    rig.cancel(chance.choice(jobs))
            case 7 if chance.random() < 0.3:
                rig.bury(worker)
                worker, running = rig.worker(), []
            case _:
                pass
    return jobs


def outcomes() -> list[Outcome]:
    return [
        Completed("1"),
        failure(),
        failure("bug"),
        Skipped("unneeded"),
        Snoozed(20.0),
        Suspended(asks=True),
        Released("drain"),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_every_figure_is_that_of_a_plain_computation(rig: Rig, seed: int) -> None:
    jobs = history(rig, seed, 400)
    seconds = 3600 * (200, 20, 4, 1)[seed]
    wanted = plain(rig, jobs, rig.clock.now - seconds * SECOND)
    found = {(each.task, each.queue): each for each in read(rig, seconds).tasks}
    busy = {place for place, its in wanted.items() if any(its.values())}
    assert set(found) == busy
    for place, each in found.items():
        its = wanted[place]
        for name in ("completed", "failed", "canceled", "skipped", "retries", "pending"):
            assert getattr(each, name) == its[name], (place, name)
        for name in ("waited", "ran"):
            timings: Timings = getattr(each, name)
            told = (timings.count, timings.p50, timings.p95, timings.p99)
            assert told == pytest.approx(plain_timings(its[name])), (place, name)
        ended = its["completed"] + its["failed"]
        assert each.success_rate == (its["completed"] / ended if ended else None)


def test_a_history_is_read_in_stretches(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    history(rig, 5, 200)
    whole = read(rig, 3600 * 200)
    assert sum(each.waited.count for each in whole.tasks) > 20
    monkeypatch.setattr(stats, "STRETCH", 7)
    assert read(rig, 3600 * 200) == whole


def test_the_log_is_read_from_the_day_asked_for(rig: Rig) -> None:
    for day in range(9):
        rig.complete(rig.running())
        rig.clock.tick(DAY / SECOND)
        span = rig.store.read_sync(stats.span_of, round(3.5 * DAY))
        ((first,),) = rig.rows("oldest_position")
        assert max(0, span.after + 1 - first) == max(0, 3 * (day + 1 - 3)), "three events each"
    assert only(rig, 3.5 * DAY / SECOND).completed == 3


def test_an_empty_database_has_no_figures(rig: Rig) -> None:
    told = read(rig, 3600)
    assert told.tasks == ()
    assert told.until == as_datetime(rig.clock.now)


def test_a_job_waits_from_its_due_time(rig: Rig) -> None:
    rig.put(delay=10)
    rig.clock.tick(70)
    rig.due()
    rig.clock.tick(5)
    rig.complete(rig.claim_one())
    assert only(rig).waited.p50 == 65.0, "nobody promoted it for a minute"


def test_what_was_given_back_waits_anew(rig: Rig) -> None:
    claim = rig.running()
    rig.clock.tick(100)
    rig.finish(claim, Released("drain"))
    rig.clock.tick(3)
    rig.complete(rig.claim_one())
    told = only(rig)
    assert (told.waited.count, told.waited.p99, told.ran.p99) == (2, 3.0, 100.0)


def test_a_lost_attempt_is_a_retry(rig: Rig) -> None:
    worker = rig.worker()
    rig.running(worker)
    rig.bury(worker)
    told = only(rig)
    assert (told.retries, told.pending, told.ran.count) == (1, 1, 1)


def test_durations_are_counted_by_three_digits() -> None:
    assert [stats.rounded(micros) for micros in (0, 7, 999, 1234, 1235, 99_950, 10**9)] == [
        0,
        7,
        999,
        1230,
        1240,
        100_000,
        10**9,
    ]
    chance = random.Random(1)
    values = [chance.randrange(10**10) for _ in range(50_000)]
    assert len({stats.rounded(value) for value in values}) < 3_000
    assert all(abs(stats.rounded(value) - value) <= value / 200 for value in values)


def test_the_statement_names_every_change_of_state() -> None:
    text = load("sqlite")["attempts_since"].sql
    for type in STATE_EVENTS - {"created"}:
        assert text.count(f"'{type}'") >= 2, type
    assert "'created'" in text
