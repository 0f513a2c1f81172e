"""The jobs that the supervisor's tests run: each kills its process on its first attempt."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

from benbi import Benbi, Context, SyncContext
from tests.support.processes import leave_pid

if os.environ.get("NEST_BREAKS"):
    os._exit(9)

app = Benbi(os.environ["NEST_DB"], heartbeat_timeout=60.0)
TRACES = os.environ["NEST_TRACES"]
held: list[bytearray] = []
if os.environ.get("NEST_IS_LARGE"):
    held.append(bytearray(300 * 2**20))


def end_this_process(how: str) -> None:
    """In one of the ways in which processes end."""
    Path(TRACES).with_name("ended").mkdir(exist_ok=True)
    Path(TRACES).with_name("ended").joinpath(how).write_text(str(time.time()))
    match how:
        case "SIGKILL" | "SIGSEGV":
            os.kill(os.getpid(), signal.Signals[how])
            time.sleep(60)
        case "exit 0" | "exit 2" | "exit 7":
            os._exit(int(how[-1]))
        case _:
            resource.setrlimit(resource.RLIMIT_AS, (1, 1))
            try:
                held.append(bytearray(2**30))
            except MemoryError:
                # As code does that can not tell anybody.
                os.abort()


@app.task
async def in_loop(ctx: Context, how: str) -> str:
    if ctx.attempt == 1:
        end_this_process(how)
    return "survived"


@app.task
def in_thread(ctx: SyncContext, how: str) -> str:
    if ctx.attempt == 1:
        end_this_process(how)
    return "survived"


@app.task(isolation="process")
def in_child(ctx: SyncContext, how: str) -> str:
    if ctx.attempt == 1:
        end_this_process(how)
    return "survived"


@app.task
async def stays() -> None:
    leave_pid(TRACES, os.getpid())
    await asyncio.sleep(600)


@app.task(grace=0.05)
def stays_in_thread() -> None:
    leave_pid(TRACES, os.getpid())
    time.sleep(600)


@app.task(isolation="process")
def stays_in_child() -> None:
    leave_pid(TRACES, os.getpid())
    with subprocess.Popen(["sleep", "600"]) as started:
        leave_pid(TRACES, started.pid)


@app.task
async def who() -> int:
    return os.getpid()


@app.task
async def waits_for(gate: str) -> int:
    leave_pid(TRACES, os.getpid())
    while not Path(gate).exists():
        await asyncio.sleep(0.01)
    return os.getpid()


@app.task
async def grows(size: int) -> int:
    held.append(bytearray(size))
    return os.getpid()
