"""Tasks that run in processes of their own. Each app of a test has them: ``on(path)``.

A child process finds them by importing this module, which then has an app without any use.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from benbi import Benbi, Context, Permanent, Secret, Skip, SyncContext
from tests.support.processes import leave_pid

app = Benbi(os.environ.get("ISOLATED_DB", ":memory:"), heartbeat_timeout=2.0)

entered: list[str] = []


@app.around
async def notes(ctx: Context) -> AsyncIterator[None]:
    entered.append(ctx.job_id)
    yield


@app.resource
def pool() -> str:
    return "the worker's"


def double(number: int, traces: str) -> int:
    leave_pid(traces, os.getpid())
    return 2 * number


@app.task(isolation="process")
def tells(ctx: SyncContext, number: int, traces: str) -> dict[str, str | int]:
    ctx.progress(1, 2, "half")
    ctx.partial({"so far": number})
    doubled = ctx.step(double)(number, traces)
    ctx.log.warning("said in the child")
    return {"doubled": doubled, "pid": os.getpid(), "key": ctx.key, "around": len(entered)}


@app.task(isolation="process")
async def pauses(ctx: Context, traces: str) -> str:
    assert await ctx.step(double)(1, traces) == 2
    await ctx.sleep(0.01)
    name = await ctx.ask("Who?", str, key="who")
    return f"{name} {ctx.attempt}"


@app.task(isolation="process", max_losses=2)
def dies(how: str) -> None:
    end(how)


@app.task(isolation="process", max_losses=1)
def dies_once(how: str) -> None:
    end(how)


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    if how == "gibberish":
        # Whatever a wild pointer may write into the line.
        for descriptor in range(3, 500):
            try:
                os.write(descriptor, b"\x00\x00\x00\x05wrong")
            except OSError:
                continue
        time.sleep(60)
    os.kill(os.getpid(), signal.Signals[how])
    time.sleep(60)


@app.task(isolation="process")
async def forks() -> str:
    return fork_and_wait()


@app.task(isolation="process")
def forks_in_thread() -> str:
    return fork_and_wait()


def fork_and_wait() -> str:
    if (pid := os.fork()) == 0:
        return "CHILD"
    os.waitpid(pid, 0)
    return "PARENT"


@app.task(isolation="process")
async def leaves_a_copy(gate: str) -> int:
    # As C code forks: nothing that Python has for it is called.
    if ctypes.PyDLL(None).fork() == 0:
        while not Path(gate).exists():
            time.sleep(0.01)
    return os.getpid()


@app.task(isolation="process", max_losses=1)
async def dies_before_its_copy(traces: str, apart: bool) -> None:
    # Not in a thread: its copy might wait for a thread that it does not have.
    if ctypes.PyDLL(None).fork() == 0:
        if apart:
            os.setsid()
        leave_pid(traces, os.getpid())
        time.sleep(60)
    while not list(Path(traces).iterdir()):
        time.sleep(0.01)
    os._exit(3)


@app.task(isolation="process")
async def leaves_a_thread_running() -> int:
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
    return os.getpid()


@app.task(isolation="process", max_losses=1)
def closes_all() -> None:
    os.closerange(0, 11)


@app.task(isolation="process", max_losses=1)
async def closes_all_in_loop() -> None:
    os.closerange(0, 11)
    await asyncio.sleep(0.01)


@app.task(isolation="process")
async def opens(ctx: Context, gate: str) -> int:
    if ctx.attempt == 1:
        Path(gate).touch()
        await asyncio.sleep(60)
    return os.getpid()


@app.task(isolation="process")
async def tries(ctx: Context, what: str) -> None:
    match what:
        case "save":
            await ctx.save("a.txt", b"a")
        case "wait":
            await ctx.wait(ctx.job_id)
        case "run":
            await ctx.run([])
        case _:
            await ctx.resource(pool)


@app.task(isolation="process")
def tries_in_thread(ctx: SyncContext, what: str) -> None:
    match what:
        case "save":
            ctx.save("a.txt", b"a")
        case "wait":
            ctx.wait(ctx.job_id)
        case "run":
            ctx.run([])
        case _:
            ctx.resource(pool)


@app.task(isolation="process")
def charges(ctx: SyncContext, token: Annotated[str, Secret]) -> int:
    ctx.log.warning("it is %s", token)
    return len(token)


@app.task(isolation="process")
def raises(what: str) -> None:
    match what:
        case "permanent":
            raise Permanent("never")
        case "skip":
            raise Skip("not today")
        case "exit":
            sys.exit(1)
        case _:
            raise MemoryError("too much")


@app.task(isolation="process", grace=0.2, timeout=30, retry=1)
def deaf(traces: str) -> None:
    leave_pid(traces, os.getpid())
    with subprocess.Popen(["sleep", "600"]) as shell_child:
        leave_pid(traces, shell_child.pid)
        Path(traces).with_name("started").touch()


@app.task(isolation="process", grace=0.2, timeout=0.5, retry=1)
def late(traces: str) -> None:
    leave_pid(traces, os.getpid())
    time.sleep(60)


@app.task(isolation="process", grace=20)
def listens(ctx: SyncContext, traces: str) -> str:
    Path(traces).with_name("started").touch()
    while not ctx.canceled:
        time.sleep(0.01)
    Path(traces).with_name("heard").touch()
    return "over"


@app.task(isolation="process", grace=20)
async def waits(traces: str) -> None:
    Path(traces).with_name("started").touch()
    try:
        await asyncio.sleep(60)
    finally:
        Path(traces).with_name("heard").touch()
