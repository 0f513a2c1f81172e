"""A worker as a child process of a server on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

_log: Final = logging.getLogger("benbi.mcp")

# A host kills the server about 4 s after it closed its input: be gone before that.
PATIENCE: Final = 1.5
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
# A worker that ran so long was healthy: its end is no sign of a broken target.
HEALTHY: Final = 60.0
KEEP_WORKING_GRACE: Final = "365d"


def worker_command(target: str, *, keep_working: bool = False) -> list[str]:
    """The command of a worker that stops when the process that started it is gone."""
    command = [sys.executable, "-m", "benbi.server.lifeline", "work", target]
    # Who is asked to stop claims nothing more and lets what runs end within the grace.
    return [*command, "--grace", KEEP_WORKING_GRACE] if keep_working else command


@asynccontextmanager
async def worker(target: str, *, keep_working: bool = False) -> AsyncGenerator[None]:
    """Keeps one worker running, started again when it dies; at the end it is let go.

    It has a session of its own, writes to standard error only, and drains once the other end
    of its standard input is closed. Its end is awaited for at most ``PATIENCE`` seconds.
    """
    command = worker_command(target, keep_working=keep_working)
    keeper = asyncio.create_task(_keep(command), name="benbi worker process")
    try:
        yield
    finally:
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper


async def _keep(command: list[str]) -> None:
    loop = asyncio.get_running_loop()
    pause = FIRST_PAUSE
    while True:
        started = loop.time()
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=2, start_new_session=True
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _let_go(process)
            raise
        pause = FIRST_PAUSE if loop.time() - started > HEALTHY else min(pause * 2, LONGEST_PAUSE)
        _log.warning("the worker ended with code %s; another starts in %g s", code, pause)
        await asyncio.sleep(pause)


async def _let_go(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            await process.wait()
