"""An app whose schedules are due each second, for processes that all have it."""

from __future__ import annotations

import asyncio
import sys

from benbi import Benbi, Context

app = Benbi()


@app.cron(every="1s", catchup="all")
@app.task
async def tick(ctx: Context) -> str:
    return str(ctx.scheduled_for)


async def main() -> None:
    async with app, app.working():
        sys.stdout.write("working\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
