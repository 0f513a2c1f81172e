"""``benbi enqueue``: creates a job of a task that a worker has published."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from benbi.cli import documents, exits
from benbi.cli.options import DEFAULT, FLAG, Common, loaded, opened, seconds
from benbi.cli.values import arguments_from
from benbi.cli.watch import Watch, until_end
from benbi.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from benbi import Benbi
    from benbi.job import Job


def enqueue(
    task: Annotated[str, Parameter(help="The name of the task.")],
    arguments: Annotated[
        list[str] | None,
        Parameter(
            help="key=value pairs, one JSON object, or - to read it from stdin.",
            # For "-" alone; an option that does not exist is refused with the arguments.
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    app: Annotated[
        str | None, Parameter(help="module:app that holds the task, if no worker ran yet.")
    ] = None,
    owner: Annotated[str, Parameter(show_default=False, help="Whose job it is.")] = "",
    key: Annotated[str | None, Parameter(help="Idempotency key: one job for each key.")] = None,
    delay: Annotated[str | None, Parameter(help="Not before: 90, 10m, 2h.")] = None,
    priority: Annotated[int, Parameter(help="Higher runs earlier.")] = 0,
    queue: Annotated[str | None, Parameter(help="Another queue than the task's.")] = None,
    wait: Annotated[bool, FLAG, Parameter(help="Watch it to its end.")] = False,
    timeout: Annotated[str | None, Parameter(help="Stop watching after so long: 90, 10m.")] = None,
    common: Common = DEFAULT,
) -> int:
    """Create a job and print its id, which is on disk by then."""
    if timeout is not None and not wait:
        raise ConfigurationError("--timeout: how long to --wait; a job is given one by its task")
    watch = Watch(common) if wait else None
    patience = None if timeout is None else seconds(timeout)

    async def act() -> Job:
        async with _app_for(app, common) as benbi:
            handle = await benbi.enqueue(
                task,
                arguments_from(arguments or [], await _schema_of(benbi, task)),
                owner=owner,
                key=key,
                delay=None if delay is None else seconds(delay),
                priority=priority,
                queue=queue,
            )
            if watch is None:
                return await benbi.get(handle.id)
            return await asyncio.wait_for(watch.follow(benbi, handle.id), patience)

    if watch:
        return until_end(watch, act(), None)
    _print(asyncio.run(act()), common)
    return exits.DONE


def _print(job: Job, common: Common) -> None:
    if common.as_json:
        documents.write(documents.job_document(job))
        return
    print(job.id)
    if sys.stderr.isatty():
        exits.tell(f"{job.task} is {job.state}; follow it with benbi jobs watch {job.id}")


@asynccontextmanager
async def _app_for(target: str | None, common: Common) -> AsyncGenerator[Benbi]:
    if target is None:
        async with opened(common) as app:
            yield app
    else:
        async with loaded(target, common).app as app:
            yield app


async def _schema_of(app: Benbi, task: str) -> dict[str, Any]:
    if task in app.tasks:
        return app.tasks[task].signature.arguments_schema
    for entry in await app.catalogue():
        if entry.task == task:
            return entry.arguments_schema
    return {}
