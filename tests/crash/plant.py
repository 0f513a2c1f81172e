"""The jobs that the crash tests run: three steps, each of which leaves a trace of its start."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from benbi import Benbi, Context

app = Benbi(os.environ["CRASH_DB"], heartbeat_timeout=1.0, slots=int(os.environ["CRASH_SLOTS"]))
TRACES = Path(os.environ["CRASH_TRACES"])


def trace(job: str, step: str) -> None:
    """One line, in one write, in a file of this process."""
    line = f"{job} {step} {time.time_ns() // 1000}\n"
    descriptor = os.open(TRACES / str(os.getpid()), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@app.task(max_losses=1000, retry=1)
async def grind(ctx: Context, number: int, seconds: float) -> int:
    """The number after three steps that each take a third of the time."""
    value = number
    for name in ("square", "shift", "fold"):
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
    for name in ("square", "shift", "fold"):
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
