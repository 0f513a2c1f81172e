"""The tasks that these tests call, of an app on ``$BENBI_URL``; imported by processes, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import BaseModel

from benbi import Benbi, Context, Retry, Skip, SyncContext, Tool


class Gift(BaseModel):
    name: str
    price: float


class Report(BaseModel):
    household: int
    gifts: list[Gift]


class Wish(BaseModel):
    colour: str
    size: int | None = None


def register(app: Benbi) -> Benbi:
    """Registers the tasks with ``app``."""

    @app.task(tool=Tool(wait=10))
    async def find_gifts(ctx: Context, household: int, budget: float = 50.0) -> Report:
        """Finds gifts for a household."""
        await ctx.progress(1, 4, "loading")
        gifts = [Gift(name="tea", price=budget / 10), Gift(name="mug", price=budget / 5)]
        await ctx.partial({"rough": gifts[0].name})
        await ctx.progress(3, 4, "ranking")
        return Report(household=household, gifts=gifts)

    @app.task(tool=Tool(wait=0))
    async def count(ctx: Context, numbers: int, gate: str, journal: str) -> list[int]:
        """Counts in steps; before each but the first it waits for the file ``gate``."""

        def one(number: int) -> int:
            with Path(journal).open("a") as file:
                file.write(f"{number}\n")
            return number

        counted: list[int] = []
        for number in range(numbers):
            while number and not Path(gate).exists():
                await asyncio.sleep(0.02)
            counted.append(await ctx.step(one, name="one")(number))
            await ctx.progress(number + 1, numbers, "counting")
            await ctx.partial({"counted": number})
        return counted

    @app.task(tool=Tool(wait=10))
    async def waits(gate: str) -> str:
        while not Path(gate).exists():
            await asyncio.sleep(0.02)
        return "the gate is open"

    @app.task(tool=True, retry=1)
    async def breaks(message: str) -> None:
        raise ValueError(message)

    @app.task(tool=Tool(wait=0), retry=Retry(2, first=60.0))
    async def fails_slowly() -> None:
        raise ConnectionError("no route to host")

    @app.task(tool=True)
    async def skips() -> None:
        raise Skip("nothing to find")

    @app.task(tool=True)
    async def asks(ctx: Context, what: str) -> str:
        return "sold" if await ctx.ask(f"Sell the {what}?", bool) else "kept"

    @app.task(tool=True)
    async def asks_twice(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            wish = group.create_task(ctx.ask("What would you like?", Wish, key="wish"))
            note = group.create_task(ctx.ask("A note?", str | None, key="note"))
        return f"{wish.result().colour}, {note.result() or 'no note'}"

    @app.task(tool=True)
    def shouts(ctx: SyncContext, text: str) -> str:
        return text.upper()

    @app.task
    async def hidden(text: str) -> str:
        return text

    @app.task(tool=Tool(required=True, title="Only tasks", description="Needs the extension."))
    async def only_tasks() -> str:
        return "done"

    return app


# Short, so that a test need not wait for a dead worker.
app = register(Benbi(heartbeat_timeout=2.0))
