"""A worker process of the bench, until SIGTERM."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import benbi.connections
from benbi.wake.sqlite import SqliteWake
from bench.ours import app_on


async def main() -> None:
    if os.environ.get("BENCH_INOTIFY") == "0":
        benbi.connections.SqliteWake = partial(SqliteWake, inotify=False)
    app = app_on(os.environ["BENCH_DB"])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with app:
        await app.work(stop=stop)


if __name__ == "__main__":
    asyncio.run(main())
