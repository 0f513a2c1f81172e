"""The jobs that the crash tests run: three steps, each of which leaves a trace of its start."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from functools import cache
from pathlib import Path

from benbi import Benbi, Context, Retry, Transient
from tests.support.outside import Outside

app = Benbi(
    os.environ["CRASH_DB"],
    heartbeat_timeout=float(os.environ.get("CRASH_HEARTBEAT", "1")),
    slots=int(os.environ["CRASH_SLOTS"]),
)
TRACES = Path(os.environ["CRASH_TRACES"])
STEPS = ("square", "shift", "fold")
WITH_EFFECT = "shift"
# As often as there are faults, and soon.
AGAIN = Retry(attempts=1000, first=0.05, longest=0.5)

true_time = time.time_ns
# A host whose clock is wrong, as far as Python sees it.
AHEAD = float(os.environ.get("CRASH_CLOCK", "0"))


def wrong(clock: Callable[[], float], ahead: float) -> Callable[[], float]:
    return lambda: clock() + ahead


if AHEAD:
    time.time = wrong(time.time, AHEAD)
    time.time_ns = wrong(time.time_ns, int(AHEAD * 1e9))  # type: ignore[assignment]


@cache
def descriptor() -> int:
    """Of this process's file of traces."""
    return os.open(TRACES / str(os.getpid()), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def trace(job: str, step: str) -> None:
    """One line, in one write."""
    os.write(descriptor(), f"{job} {step} {true_time() // 1000}\n".encode())


@app.task(max_losses=1000, retry=1)
async def grind(ctx: Context, number: int, seconds: float) -> int:
    """The number after three steps that each take a third of the time."""
    value = number
    for name in STEPS:
        value = await ctx.step(one, name=name)(ctx.job_id, name, value, seconds / 3)
    return value


async def one(job: str, name: str, value: int, seconds: float) -> int:
    trace(job, name)
    await asyncio.sleep(seconds)
    return expected_step(name, value)


def expected_step(name: str, value: int) -> int:
    match name:
        case "square":
            return value * value
        case "shift":
            return value + 7
        case _:
            return value % 1009


def expected(number: int) -> int:
    """What an undisturbed run gives."""
    value = number
    for name in STEPS:
        value = expected_step(name, value)
    return value


@app.task(max_losses=1000)
async def squared(number: int) -> int:
    return number * number


@app.task(max_losses=1000)
async def fan_out(ctx: Context, numbers: list[int]) -> int:
    """The sum of the squares: each is a job of its own."""
    added = await ctx.run([squared.call(number) for number in numbers])
    return sum([await ctx.wait(job) for job in added.jobs])


@app.resource
async def outside() -> AsyncGenerator[Outside]:
    line = Outside(os.environ["CRASH_OUTSIDE"])
    yield line
    await line.close()


@app.task(max_losses=1000, retry=AGAIN)
async def toil(ctx: Context, number: int, seconds: float) -> int:
    """As ``grind``: its second step has an effect outside, and every third job fails once."""
    line = await ctx.resource(outside)

    async def step(name: str, value: int) -> int:
        trace(ctx.job_id, name)
        if name == WITH_EFFECT:
            await line.leave(ctx.key, ctx.job_id, name, ctx.attempt)
        await asyncio.sleep(seconds / 3)
        return expected_step(name, value)

    value = number
    for name in STEPS:
        if name == "fold" and number % 3 == 0 and ctx.attempt == 1:
            raise Transient("the first attempt fails between two steps")
        value = await ctx.step(step, name=name, retry=AGAIN)(name, value)
    return value


@app.task(max_losses=1000, retry=Retry(attempts=3, first=1.0, jitter=0), timeout=60)
async def doze(ctx: Context, seconds: float) -> float:
    """Sleeps, fails, and runs again; how far the clock of its last worker was ahead."""
    trace(ctx.job_id, "begun")
    await ctx.sleep(seconds)
    trace(ctx.job_id, "awake")
    if ctx.attempt == 2:
        raise Transient("the attempt after the sleep fails")
    trace(ctx.job_id, "again")
    return time.time() - true_time() / 1e9
