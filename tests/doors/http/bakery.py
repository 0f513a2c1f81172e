"""The app that the tests of the HTTP door serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benbi import Benbi, Context, Permanent
from tests.support import wait_until_async


def bakery(url: str, **options: Any) -> Benbi:
    """A new app on the database ``url`` with a task for each thing that a door shows."""
    app = Benbi(url, **options)

    @app.task(tool=True)
    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    @app.task
    async def echo(text: str) -> str:
        return text

    @app.task
    async def tell(ctx: Context, count: int) -> int:
        for number in range(count):
            await ctx.partial(number)
        return count

    @app.task
    async def pour(ctx: Context, count: int, size: int) -> None:
        """Sends much more than fits into the buffers of a connection."""
        for number in range(count):
            await ctx.partial({"number": number, "filling": "x" * size})

    @app.task
    async def hold(ctx: Context, door: str, count: int = 1) -> str:
        """Sends partials, waits until the file ``door`` is there, and sends some more."""
        for number in range(count):
            await ctx.partial(f"before {number}")
        await wait_until_async(Path(door).exists, timeout=60)
        for number in range(count):
            await ctx.partial(f"after {number}")
        return "held"

    @app.task
    async def inch(ctx: Context, door: str) -> None:
        """Small steps, of which most are no events."""
        await ctx.progress(0, 1000, "begun")
        await ctx.progress(1, 1000, "a little")
        await wait_until_async(Path(door).exists, timeout=60)

    @app.task
    async def choose(ctx: Context) -> bool:
        return await ctx.ask("Really?", bool)

    @app.task
    async def burn() -> None:
        raise Permanent("the oven is broken")

    return app
