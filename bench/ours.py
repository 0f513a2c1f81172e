"""benbi's side of each row. History on, durable commits, arguments and results kept."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from benbi import Benbi
from bench import server

SLOTS = 100


def app_on(url: str, **settings: Any) -> Benbi:
    app = Benbi(url, slots=SLOTS, **settings)

    @app.task
    async def nothing(number: int) -> int:
        return number

    return app


def fill(app: Benbi, count: int, **options: Any) -> None:
    nothing = app.tasks["nothing"]
    bound = nothing.options(**options) if options else nothing
    for first in range(0, count, 10_000):
        app.enqueue_many_sync([bound.call(n) for n in range(first, min(count, first + 10_000))])


async def drain(app: Benbi, count: int) -> float:
    """Jobs per second from the start of the worker until it finds nothing more."""
    async with app:
        stop = asyncio.Event()
        began = time.perf_counter()
        worker = asyncio.create_task(app.work(stop=stop))
        while not app.workers_here:
            await asyncio.sleep(0)
        # Not by looking at the jobs: that would be work beside the work that is measured.
        await app.workers_here[0].out_of_work.wait()
        seconds = time.perf_counter() - began
        left = [
            *await app.jobs(limit=1, state="pending"),
            *await app.jobs(limit=1, state="running"),
        ]
        if left:
            raise RuntimeError(f"the worker stopped before its work was done: {left}")
        stop.set()
        await worker
    return count / seconds


def drained(url: str, count: int) -> float:
    app = app_on(url)
    fill(app, count)
    return asyncio.run(drain(app, count))


def drained_by(url: str, count: int, workers: int) -> float:
    """Jobs per second through so many worker processes, from the moment when all are there."""
    app = app_on(url)
    fill(app, 1)
    fleet = [_worker(url) for _ in range(workers)]
    try:
        _ended(app, app.jobs_sync(limit=1)[0].id)
        while len(app.workers_sync()) < workers:
            time.sleep(0.05)
        fill(app, count, delay=2.0)
        due = min(job.run_at for job in app.jobs_sync(limit=1, state="scheduled"))
        while app.jobs_sync(limit=1, state="scheduled") or app.jobs_sync(limit=1, state="pending"):
            time.sleep(0.05)
        while app.jobs_sync(limit=1, state="running"):
            time.sleep(0.01)
        return count / (time.time() - due.timestamp())
    finally:
        _end(*fleet)
        app.close_sync()


def _worker(url: str, **more: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"BENCH_DB": url} | more
    return subprocess.Popen([sys.executable, "-m", "bench.idle_worker"], env=environment)


def _end(*fleet: subprocess.Popen[bytes]) -> None:
    for worker in fleet:
        worker.terminate()
    for worker in fleet:
        worker.wait()


def singles(url: str, count: int) -> float:
    """Enqueues per second, one at a time, each durable before the next."""
    app = app_on(url)
    nothing = app.tasks["nothing"]
    nothing.enqueue_sync(0)
    began = time.perf_counter()
    for number in range(count):
        nothing.enqueue_sync(number)
    rate = count / (time.perf_counter() - began)
    app.close_sync()
    return rate


def concurrent(url: str, count: int, callers: int = 100) -> float:
    """Enqueues per second by ``callers`` at once, each awaiting its own."""
    app = app_on(url)
    nothing = app.tasks["nothing"]

    async def caller() -> None:
        for number in range(count // callers):
            await nothing.enqueue(number)

    async def run() -> float:
        async with app:
            await nothing.enqueue(0)
            began = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(callers)))
            return count / (time.perf_counter() - began)

    return asyncio.run(run())


def in_bulk(url: str, count: int) -> float:
    """Jobs per second by enqueue_many, 10,000 to a transaction; encoding included."""
    app = app_on(url)
    app.enqueue_many_sync([app.tasks["nothing"].call(0)])
    began = time.perf_counter()
    fill(app, count)
    rate = count / (time.perf_counter() - began)
    app.close_sync()
    return rate


def pickups(url: str, count: int, *, inotify: bool = True) -> list[float]:
    """Milliseconds from the commit of a job to its start, in another process that is idle."""
    app = app_on(url)
    nothing = app.tasks["nothing"]
    nothing.enqueue_sync(0)
    worker = _worker(url, BENCH_INOTIFY=str(int(inotify)))
    waits: list[float] = []
    try:
        _ended(app, app.jobs_sync(limit=1)[0].id)
        for number in range(count):
            # Longer than the wake's quick phase: an idle worker is what is measured.
            time.sleep(0.05 + 0.013 * (number % 7))
            handle = nothing.enqueue_sync(number)
            _ended(app, handle.id)
            started = [e.at for e in app.events_sync(handle.id) if e.type in ("created", "started")]
            waits.append((started[1] - started[0]).total_seconds() * 1000)
    finally:
        _end(worker)
        app.close_sync()
    return waits


def _ended(app: Benbi, job_id: str) -> None:
    deadline = time.monotonic() + 20
    while not app.get_sync(job_id).final:
        if time.monotonic() > deadline:
            raise RuntimeError("the worker does not take the job")
        time.sleep(0.002)


def idle_share(url: str, seconds: float) -> float:
    """Percent of a core that an idle worker takes."""
    app = app_on(url)
    app.tasks["nothing"].enqueue_sync(0)
    worker = _worker(url)
    try:
        _ended(app, app.jobs_sync(limit=1)[0].id)
        time.sleep(1.0)
        before = _cpu_seconds(worker.pid)
        time.sleep(seconds)
        return 100 * (_cpu_seconds(worker.pid) - before) / seconds
    finally:
        _end(worker)
        app.close_sync()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def growth(url: str, few: int, many: int) -> float:
    """Resident memory of a worker after ``many`` jobs, as a multiple of that after ``few``."""
    app = app_on(url)

    async def run() -> float:
        nothing = app.tasks["nothing"]
        stop = asyncio.Event()
        async with app:
            worker = asyncio.create_task(app.work(stop=stop))
            sizes: list[int] = []
            done = 0
            for goal in (few, many):
                while done < goal:
                    part = min(1000, goal - done)
                    handles = await app.enqueue_many([nothing.call(n) for n in range(part)])
                    await handles[-1].result()
                    done += part
                sizes.append(_resident())
            stop.set()
            await worker
        return sizes[1] / sizes[0]

    return asyncio.run(run())


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def claim_time(url: str, finished: int = 0, scheduled: int = 0) -> float:
    """Milliseconds that a claim of 10 takes, beside so many finished and scheduled rows."""
    app = app_on(url)
    fill(app, 4_000)
    app.close_sync()
    if url.startswith("postgresql:"):
        server.pad(url, finished, scheduled)
    else:
        _pad(Path(url), finished, scheduled)
    return timed_claims(app_on(url))


def claim_time_after(url: str, jobs: int, *, held: bool) -> float:
    """Milliseconds that a claim of 10 takes after so many jobs were run; ``held``: while another
    session holds a snapshot from before, so that nothing of them can be cleaned up."""
    with server.snapshot(url) if held else nullcontext():
        drained(url, jobs)
        app = app_on(url)
        fill(app, 4_000)
        return timed_claims(app)


def timed_claims(app: Benbi) -> float:
    from benbi.engine.marks import Marks
    from benbi.store import workers
    from benbi.store.lifecycle import ClaimRequest, claim

    worker = workers.Worker("bench", "host", 1, 10, ["default"], ["nothing"], "0")
    number = app.store.write_sync(workers.register, worker)
    spent: list[float] = []
    # As a worker claims.
    marks = Marks()
    for token in range(1, 301):
        request = ClaimRequest(
            number, token, ["default"], '["nothing"]', 10, fragile=True, marks=marks.next()
        )
        began = time.perf_counter()
        claims = app.store.write_sync(claim, request)
        spent.append(time.perf_counter() - began)
        assert len(claims) == 10
    app.close_sync()
    return 1000 * sorted(spent)[len(spent) // 2]


def _pad(path: Path, finished: int, scheduled: int) -> None:
    columns = (
        "id, task, queue, state, run_at, max_attempts, max_losses, grace, created_at, last_seq"
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        for state, count, end in (("completed", finished, 1), ("scheduled", scheduled, None)):
            connection.execute(
                f"INSERT INTO benbi_jobs ({columns}, finished_at) "
                "WITH RECURSIVE many(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i < ?) "
                "SELECT randomblob(16), 'nothing', 'default', ?, 9e15, 3, 3, 1, 1, 3, ? FROM many "
                "WHERE ? > 0",
                (count, state, end, count),
            )


def writers(folder: Path, processes: int, seconds: float) -> tuple[float, float]:
    """Smallest share of the largest, and the worst wait in milliseconds, of writer processes
    that each enqueue one job after the other."""
    path = str(folder / "writers.db")
    app_on(path).enqueue_many_sync([])
    app = app_on(path)
    app.tasks["nothing"].enqueue_sync(0)
    app.close_sync()
    environment = os.environ | {"BENCH_DB": path}
    fleet = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.writer", str(seconds)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for process in fleet:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    counts: list[int] = []
    worst = 0.0
    for process in fleet:
        assert process.stdin is not None
        process.stdin.write("begin\n")
        process.stdin.flush()
    for process in fleet:
        out, _ = process.communicate()
        count, wait = out.split()
        counts.append(int(count))
        worst = max(worst, float(wait))
    return min(counts) / max(counts), worst
