"""pgqueuer on PostgreSQL, with its defaults: its own driver, a batch of 100 for 100 slots.

python -m bench.on_postgresql URL     one worker process, which begins when it is told to
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 100


async def _installed(url: str) -> tuple[asyncpg.Connection, Queries]:
    connection = await asyncpg.connect(url)
    queries = Queries.from_asyncpg_connection(connection)
    await queries.install()
    return connection, queries


async def _fill(connection: asyncpg.Connection, queries: Queries, count: int) -> None:
    payloads = [str(number).encode() for number in range(count)]
    for first in range(0, count, 10_000):
        part = payloads[first : first + 10_000]
        await queries.enqueue(["nothing"] * len(part), part, [0] * len(part))
    await connection.execute("VACUUM ANALYZE")


async def _work(url: str) -> None:
    connection = await asyncpg.connect(url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        assert job.payload is not None

    # Ends by itself when the queue is empty.
    await worker.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    await connection.close()


def drained(url: str, count: int, workers: int = 1) -> float:
    """Jobs per second through so many worker processes that take 100 jobs at once."""

    async def prepare() -> None:
        connection, queries = await _installed(url)
        await _fill(connection, queries, count)
        await connection.close()

    asyncio.run(prepare())
    command = [sys.executable, "-m", "bench.on_postgresql", url]
    pipe = subprocess.PIPE
    fleet = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(workers)]
    for worker in fleet:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    began = time.perf_counter()
    for worker in fleet:
        assert worker.stdin is not None
        worker.stdin.write("begin\n")
        worker.stdin.flush()
    for worker in fleet:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "done\n"
    rate = count / (time.perf_counter() - began)
    for worker in fleet:
        worker.communicate()
    return rate


def singles(url: str, count: int) -> float:
    """Enqueues per second, one at a time."""

    async def run() -> float:
        connection, queries = await _installed(url)
        began = time.perf_counter()
        for number in range(count):
            await queries.enqueue("nothing", str(number).encode(), 0)
        rate = count / (time.perf_counter() - began)
        await connection.close()
        return rate

    return asyncio.run(run())


def in_bulk(url: str, count: int) -> float:
    """Jobs per second by lists of 10,000."""

    async def run() -> float:
        connection, queries = await _installed(url)
        payloads = [str(number).encode() for number in range(count)]
        began = time.perf_counter()
        for first in range(0, count, 10_000):
            part = payloads[first : first + 10_000]
            await queries.enqueue(["nothing"] * len(part), part, [0] * len(part))
        rate = count / (time.perf_counter() - began)
        await connection.close()
        return rate

    return asyncio.run(run())


if __name__ == "__main__":
    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(_work(sys.argv[1]))
    print("done", flush=True)
