"""pgqueuer on PostgreSQL, with its defaults and a server whose commits are durable.

``BENCH_POSTGRES`` names a database that may be filled and emptied; without it the rows that
need it are left out.
"""

from __future__ import annotations

import asyncio
import os
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

URL = os.environ.get("BENCH_POSTGRES", "")


async def _durable(connection: asyncpg.Connection) -> None:
    for name in ("fsync", "synchronous_commit"):
        if await connection.fetchval(f"SHOW {name}") != "on":
            raise RuntimeError(f"the server has {name} off: not durable, no anchor")


def drained(count: int, batch: int = 100) -> float:
    """Jobs per second through one pgqueuer worker that takes ``batch`` jobs at once."""

    async def run() -> float:
        connection = await asyncpg.connect(URL)
        await _durable(connection)
        queries = Queries.from_asyncpg_connection(connection)
        if await queries.schema_is_installed():
            await queries.uninstall()
        await queries.install()
        payloads = [str(number).encode() for number in range(count)]
        for first in range(0, count, 10_000):
            part = payloads[first : first + 10_000]
            await queries.enqueue(["nothing"] * len(part), part, [0] * len(part))
        await connection.execute("VACUUM ANALYZE")
        worker = PgQueuer.from_asyncpg_connection(connection)

        @worker.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            assert job.payload is not None

        began = time.perf_counter()
        # Ends by itself when the queue is empty.
        await worker.run(batch_size=batch, mode=QueueExecutionMode.drain)
        rate = count / (time.perf_counter() - began)
        await queries.uninstall()
        await connection.close()
        return rate

    return asyncio.run(run())
