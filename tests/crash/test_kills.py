"""Workers are killed at random while they run jobs; nothing is lost, nothing recorded twice."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benbi.job import Event
from tests.support import shadow
from tests.support.skips import NO_SKIP

SOAK = os.environ.get("BENBI_SOAK") == "1"
WORKERS = 3
JOBS = 200
# In CI a hundred kills hit a running job with each seed; elsewhere a few, with one.
LANDED = 100 if NO_SKIP or SOAK else 15
SLOTS = 4
SEEDS = [1, 2, 3] if NO_SKIP else [1]
SOAK_SEEDS = list(range(1, 21))


@dataclass
class Fleet:
    """Worker processes on one database. ``landed`` counts kills of a process that ran a job."""

    database: Path
    environment: dict[str, str]
    log: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kills: int = 0
    landed: int = 0

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "benbi", "work", "tests.crash.plant:app"],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def kill(self, choice: random.Random) -> None:
        """Kills one worker that runs a job, if there is one, and starts another."""
        busy = self.busy()
        at_work = [process for process in self.processes if process.pid in busy]
        process = choice.choice(at_work or self.processes)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.kills += 1
        self.landed += process.pid in busy
        self.processes.remove(process)
        self.start()

    def busy(self) -> set[int]:
        with closing(sqlite3.connect(self.database, timeout=30)) as connection:
            rows = connection.execute(
                "SELECT DISTINCT w.pid FROM benbi_workers AS w JOIN benbi_jobs AS j "
                "ON j.worker_n = w.n WHERE j.state = 'running'"
            ).fetchall()
        return {pid for (pid,) in rows}

    def end(self) -> list[int]:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(timeout=30) for process in self.processes]


@contextmanager
def fleet_on(tmp_path: Path, slots: int = SLOTS) -> Iterator[Fleet]:
    database, traces = tmp_path / "jobs.db", tmp_path / "traces"
    traces.mkdir()
    environment = os.environ | {
        "CRASH_DB": str(database),
        "CRASH_TRACES": str(traces),
        "CRASH_SLOTS": str(slots),
    }
    fleet = Fleet(database, environment, tmp_path / "workers.log")
    try:
        yield fleet
    finally:
        for process in fleet.processes:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "seed",
    [
        *SEEDS,
        *(pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK_SEEDS if seed not in SEEDS),
    ],
)
def test_killed_workers_lose_nothing_and_repeat_no_recorded_step(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    with fleet_on(tmp_path) as fleet:
        for name in ("CRASH_DB", "CRASH_TRACES", "CRASH_SLOTS"):
            monkeypatch.setenv(name, fleet.environment[name])
        # Anew for each seed: its app belongs to one database.
        sys.modules.pop("tests.crash.plant", None)
        plant = importlib.import_module("tests.crash.plant")
        choice = random.Random(seed)
        numbers = asyncio.run(_run(fleet, plant, choice))
        assert fleet.landed >= LANDED
        assert shadow.disagreements(fleet.database) == []
        _check_jobs(fleet.database, plant, numbers)
        losses = _check_steps(tmp_path, plant)
        record_property("kills", fleet.kills)
        record_property("landed", fleet.landed)
        record_property("losses", losses)


async def _run(fleet: Fleet, plant: Any, choice: random.Random) -> dict[str, int]:
    """Enqueues, kills until enough kills landed, then lets the fleet finish."""
    app = plant.app
    numbers: dict[str, int] = {}

    async def add(count: int) -> None:
        for handle, number in await _enqueue(plant, choice, len(numbers), count):
            numbers[handle] = number

    async with app, app.working(worker=False):
        shadow.watch(fleet.database)
        await add(JOBS)
        for _ in range(WORKERS):
            fleet.start()
        while fleet.landed < LANDED:
            await asyncio.sleep(choice.uniform(0.3, 0.8))
            fleet.kill(choice)
            if len(await app.jobs(state="completed", limit=len(numbers))) > len(numbers) - 20:
                await add(20)
        await _all_final(app, set(numbers))
    assert fleet.end() == [0] * WORKERS, "a worker ends cleanly on SIGTERM"
    return numbers


async def _enqueue(
    plant: Any, choice: random.Random, first: int, count: int
) -> list[tuple[str, int]]:
    calls = [plant.grind.call(n, choice.uniform(0.2, 1.0)) for n in range(first, first + count)]
    handles = await plant.app.enqueue_many(calls)
    return [(handle.id, first + place) for place, handle in enumerate(handles)]


async def _all_final(app: Any, jobs: set[str], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        final = {job.id for job in await app.jobs(limit=len(jobs) + 1) if job.final}
        if jobs <= final:
            return
        assert time.monotonic() < deadline, f"{len(jobs - final)} jobs did not end"
        await asyncio.sleep(0.1)


def _check_jobs(database: Path, plant: Any, numbers: dict[str, int]) -> None:
    """Every job completed, once, with the result of an undisturbed run."""
    for job_id, number in numbers.items():
        job = plant.app.get_sync(job_id)
        assert job.state == "completed", f"{job_id}: {job.state} ({job.reason})"
        assert int(plant.app.result_json_sync(job_id)) == plant.expected(number)
        finals = [e for e in plant.app.events_sync(job_id) if e.type == "completed"]
        assert len(finals) == 1
    plant.app.close_sync()


def _check_steps(tmp_path: Path, plant: Any) -> int:
    """No body starts after its record, and each repeated start has its loss before it."""
    starts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for file in (tmp_path / "traces").iterdir():
        for line in file.read_text().splitlines():
            job_id, step, at = line.split()
            starts[job_id, step].append(int(at))
    losses_in_all = 0
    events: dict[str, list[Event]] = {}
    for (job_id, step), times in starts.items():
        if job_id not in events:
            events[job_id] = plant.app.events_sync(job_id)
            losses_in_all += sum(event.reason == "lost" for event in events[job_id])
        log = events[job_id]
        (recorded,) = [
            _micros(event)
            for event in log
            if event.type == "step_completed" and event.data["name"] == step
        ]
        times.sort()
        assert times[-1] <= recorded, f"{job_id} {step}: a body started after its record"
        losses = [_micros(e) for e in log if e.reason == "lost" and e.type != "failed"]
        between = [at for at in losses if times[0] <= at <= recorded]
        assert len(times) - 1 <= len(between), f"{job_id} {step}: {times} but losses {between}"
    plant.app.close_sync()
    assert losses_in_all > 0
    return losses_in_all


def _micros(event: Event) -> int:
    return round(event.at.timestamp() * 1_000_000)
