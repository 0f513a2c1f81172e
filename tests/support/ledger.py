"""What must hold of the jobs of a crash test at its end, whatever happened and on each database.

Jobs are those of plant.py. Everything is read in bulk: there may be thousands of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benbi import Benbi
from benbi.job import Event, Job
from benbi.store import views
from benbi.store.database import Transaction
from tests.support.outside import Effect
from tests.support.polling import wait_until

Steps = dict[tuple[str, str], list[int]]


async def all_final(app: Benbi, count: int, seconds: float = 120.0) -> None:
    """Waits until all jobs are, of which there are so many."""
    deadline = time.monotonic() + seconds
    while left := await live(app):
        assert time.monotonic() < deadline, f"{left} jobs did not end"
        await asyncio.sleep(0.1)
    jobs = await app.jobs(limit=count + 1)
    assert len(jobs) == count
    assert [job for job in jobs if not job.final] == []


async def live(app: Benbi) -> int:
    """How many jobs have not ended."""
    queues = await app.queues()
    return sum(one.pending + one.running + one.scheduled + one.retrying for one in queues)


def all_events(app: Benbi) -> dict[str, list[Event]]:
    """The log of each job, in order: from the stream of all jobs, which must have all of them."""
    expected = sum(job.seq for job in app.jobs_sync(limit=1_000_000))
    (found,) = wait_until(
        lambda: len(events := app.store.read_sync(_stream)) >= expected and (events,),
        30.0,
        "the stream has all events",
    )
    assert len(found) == len({event.event_id for event in found}), "the stream repeats an event"
    logs: dict[str, list[Event]] = defaultdict(list)
    for event in found:
        logs[event.job_id].append(event)
    for log in logs.values():
        assert [event.seq for event in log] == list(range(1, len(log) + 1)), log
    return logs


def _stream(view: Transaction) -> list[Event]:
    found: list[Event] = []
    cursor = 0
    while page := views.events_since(view, None, cursor, 10_000):
        found += page
        cursor = page[-1].cursor
    return found


def check_jobs(plant: Any, numbers: Mapping[str, int], logs: Mapping[str, list[Event]]) -> None:
    """Every job completed, once, with the result of an undisturbed run."""
    jobs: dict[str, Job] = {job.id: job for job in plant.app.jobs_sync(limit=1_000_000)}
    assert jobs.keys() == numbers.keys()
    results = plant.app.store.read_sync(_results, list(numbers))
    for job_id, number in numbers.items():
        job = jobs[job_id]
        assert job.state == "completed", f"{job_id}: {job.state} ({job.reason})"
        assert int(results[job_id]) == plant.expected(number)
        assert [event.type for event in logs[job_id]].count("completed") == 1


def _results(view: Transaction, ids: list[str]) -> dict[str, str | None]:
    return {job_id: views.result(view, views.find(view, job_id, None)) for job_id in ids}


def starts_in(traces: Path) -> Steps:
    """When the body of each step began, by job and step, in microseconds."""
    starts: Steps = defaultdict(list)
    for file in traces.iterdir():
        for line in file.read_text().splitlines():
            job_id, step, at = line.split()
            starts[job_id, step].append(int(at))
    return {key: sorted(times) for key, times in starts.items()}


def check_steps(starts: Steps, logs: Mapping[str, list[Event]]) -> int:
    """No body starts after its record, each step is recorded once, and each repeated start has its
    cause before it: a loss, a failed try, or a worker that gave up. The losses in all."""
    for (job_id, step), times in starts.items():
        log = logs[job_id]
        recorded = micros(_record_of(log, step))
        assert times[-1] <= recorded, f"{job_id} {step}: a body started after its record"
        causes = [micros(event) for event in log if _repeats(event, step)]
        between = [at for at in causes if times[0] <= at <= recorded]
        assert len(times) - 1 <= len(between), f"{job_id} {step}: {times} but causes {between}"
    return sum(event.reason == "lost" for log in logs.values() for event in log)


def _record_of(log: list[Event], step: str) -> Event:
    records = [e for e in log if e.type == "step_completed" and e.data["name"] == step]
    assert len(records) == 1, f"{step} was recorded {len(records)} times"
    return records[0]


def _repeats(event: Event, step: str) -> bool:
    failed = event.type == "step_failed" and event.data["name"] == step
    return failed or (event.reason in ("lost", "store", "drain") and event.type != "failed")


def check_effects(
    effects: Mapping[tuple[str, str], list[Effect]], starts: Steps, logs: Mapping[str, list[Event]]
) -> int:
    """Each effect is that of a body that started, by one key for all tries of its step and no
    other's, and never after its record. How many arrived more than once."""
    keys = {place: {effect.key for effect in found} for place, found in effects.items()}
    assert [place for place, found in keys.items() if len(found) != 1] == []
    assert len(set[str]().union(*keys.values())) == len(keys)
    for (job_id, step), found in effects.items():
        assert len(found) <= len(starts[job_id, step])
        recorded = _record_of(logs[job_id], step)
        assert found[-1].at <= recorded.at, f"{job_id} {step}: an effect after its record"
    return sum(len(found) > 1 for found in effects.values())


def micros(event: Event) -> int:
    return round(event.at.timestamp() * 1_000_000)
