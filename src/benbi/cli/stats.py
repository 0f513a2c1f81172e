"""``benbi stats``: what became of jobs. Needs the database, no task code."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from benbi.cli import documents
from benbi.cli.options import DEFAULT, Common, opened

if TYPE_CHECKING:
    from benbi.fleet import Stats

_DAYS: Final = Number(gt=0, lte=3660)


def stats(
    *,
    days: Annotated[
        float, Parameter(validator=_DAYS, help="Of the last so many days; 0.5: twelve hours.")
    ] = 7,
    common: Common = DEFAULT,
) -> None:
    """Tell by task and queue how jobs ended, how long they waited and ran, what is pending.

    Of the jobs that retention has kept. waited: from due to started; ran: from started to the end
    of the attempt; both as p50 / p95 / p99.
    """

    async def read() -> Stats:
        async with opened(common) as benbi:
            return await benbi.stats(days)

    found = asyncio.run(read())
    if common.as_json:
        documents.write(asdict(found))
        return
    from benbi.cli import fleet, screen

    if not found.tasks:
        print("no jobs")
        return
    screen.show(fleet.stats_view(found, screen.console().width))
