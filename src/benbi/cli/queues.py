"""``benbi queues``: list, pause, resume. Needs the database, no task code."""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from benbi.cli import documents, exits
from benbi.cli.options import DEFAULT, Common, opened

if TYPE_CHECKING:
    from benbi.fleet import Queue

app = App(name="queues", help="Look at queues, pause and resume them.")

QueueName = Annotated[str, Parameter(help="The name of the queue.")]


@app.command(name="list")
def list_queues(*, common: Common = DEFAULT) -> None:
    """List the queues, and what lives in them now."""

    async def read() -> list[Queue]:
        async with opened(common) as benbi:
            return await benbi.queues()

    found = asyncio.run(read())
    if common.as_json:
        documents.write({"queues": [asdict(queue) for queue in found]})
        return
    from benbi.cli import fleet, screen

    if not found:
        print("no queues")
        return
    screen.show(fleet.queues_view(found, screen.console().width))


@app.command
def pause(
    name: QueueName,
    /,
    *,
    by: Annotated[str | None, Parameter(help="Who pauses it; default: the user.")] = None,
    common: Common = DEFAULT,
) -> None:
    """Let no more of its jobs start; those that run go on, new ones are taken."""

    async def act() -> Queue:
        async with opened(common) as benbi:
            return await benbi.pause_queue(name, by=by or getpass.getuser())

    _told(asyncio.run(act()), common)


@app.command
def resume(name: QueueName, /, *, common: Common = DEFAULT) -> None:
    """Let its jobs start again, at once."""

    async def act() -> Queue:
        async with opened(common) as benbi:
            return await benbi.resume_queue(name)

    _told(asyncio.run(act()), common)


def _told(queue: Queue, common: Common) -> None:
    if common.as_json:
        documents.write(asdict(queue))
    else:
        from benbi.cli import fleet

        print(exits.visible(f"{queue.name}  {fleet.standing(queue)}; {fleet.load(queue)}"))
    if not (queue.pending or queue.running or queue.scheduled or queue.retrying or queue.workers):
        # Perhaps a slip of the pen; perhaps a pause ahead of the first job.
        exits.tell(f"there is no job and no live worker in a queue of the name {queue.name!r}")
