"""The tasks that these tests run. Copied into the folder of each test, so imported as ``shop``."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Literal

from benbi import Artifact, Benbi, Context, Skip, SyncContext

app = Benbi()


@app.task
async def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@app.task(queue="mail")
async def greet(name: str, loud: bool = False, style: Literal["short", "long"] = "short") -> str:
    return f"{style} hello {name}{'!' if loud else ''}"


@app.task
async def analyse(ctx: Context, rounds: int, gate: str = "") -> dict[str, int]:
    """Steps, progress and a partial result; goes on once the file ``gate`` exists."""
    total = 0
    for number in range(1, rounds + 1):
        total += await ctx.step(square, name="square")(number)
        await ctx.progress(number, rounds, f"round {number}")
    await ctx.partial({"total so far": total})
    while gate and not Path(gate).exists():
        await asyncio.sleep(0.02)
    return {"total": total}


def square(number: int) -> int:
    return number * number


@app.task
async def reports(ctx: Context, gate: str = "") -> Artifact:
    """Saves a file and logs; goes on once the file ``gate`` exists."""
    logging.getLogger("shop").info("1 row")
    while gate and not Path(gate).exists():
        await asyncio.sleep(0.02)
    logging.getLogger("shop").warning("\x1b[31mno red ink")
    return await ctx.save("report.csv", b"name,price\nkite,9\n")


@app.task(retry=1)
async def breaks(message: str = "no such shelf") -> None:
    raise ValueError(message)


@app.task
async def skips() -> None:
    raise Skip("nothing to do")


@app.task
async def asks(ctx: Context) -> str:
    return "sold" if await ctx.ask("Sell it?", bool) else "kept"


@app.task
async def asks_for_text(ctx: Context) -> str:
    return await ctx.ask("Which name?", str)


@app.task
def stubborn(ctx: SyncContext, started: str) -> None:
    """Holds its thread, whatever is asked of it."""
    Path(started).touch()
    while True:
        time.sleep(0.05)


@app.task
async def blocks_the_loop(started: str) -> None:
    Path(started).touch()
    while True:
        time.sleep(0.05)
