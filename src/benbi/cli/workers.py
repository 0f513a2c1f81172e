"""``benbi workers``: list. Needs the database, no task code."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING

from cyclopts import App

from benbi.cli import documents
from benbi.cli.options import DEFAULT, Common, opened

if TYPE_CHECKING:
    from benbi.fleet import WorkerRecord

app = App(name="workers", help="Look at workers.")


@app.command(name="list")
def list_workers(*, common: Common = DEFAULT) -> None:
    """List the registered workers, the oldest first; a dead one until it is buried."""

    async def read() -> list[WorkerRecord]:
        async with opened(common) as benbi:
            return await benbi.workers()

    found = asyncio.run(read())
    if common.as_json:
        documents.write({"workers": [asdict(worker) for worker in found]})
        return
    from benbi.cli import fleet, screen

    if not found:
        print("no workers")
        return
    screen.show(fleet.workers_view(found, screen.console().width))
