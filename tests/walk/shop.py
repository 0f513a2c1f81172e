"""What the worker processes of chapters 13 and 14 run: ``benbi work shop:app``.

``Benbi()`` without an address keeps its jobs where BENBI_URL says.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from benbi import Benbi, Context

app = Benbi(heartbeat_timeout=1.0)


@app.task
def whoami() -> int:
    """The process that runs the job."""
    return os.getpid()


@app.task
async def never_done(ctx: Context) -> None:
    """Tells its process, then keeps its slot until somebody cancels it."""
    await ctx.partial(os.getpid())
    await asyncio.Event().wait()


def note(diary: str, line: str) -> int:
    with Path(diary).open("a") as file:
        file.write(f"{line}\n")
    return os.getpid()


@app.task
async def send_parcel(ctx: Context, diary: str) -> list[int]:
    """Two steps that write into a diary; the first attempt gets stuck between them."""
    wrapped_by = await ctx.step(note, name="wrap")(diary, "wrapped")
    if ctx.attempt == 1:
        await ctx.partial(wrapped_by)
        await asyncio.Event().wait()
    sent_by = await ctx.step(note, name="send")(diary, "sent")
    return [wrapped_by, sent_by]
