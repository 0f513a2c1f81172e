"""``benbi schedules``: list, pause, resume, run. Needs the database, no task code."""

from __future__ import annotations

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from benbi.cli import documents, exits
from benbi.cli.options import DEFAULT, Common, opened
from benbi.job import Job, Schedule

app = App(name="schedules", help="Look at recurring tasks and steer them.")

Name = Annotated[str, Parameter(help="The name of the schedule.")]


@app.command(name="list")
def list_schedules(*, common: Common = DEFAULT) -> None:
    """List schedules with their next five times, in the schedule's own time zone."""

    async def read() -> list[Schedule]:
        async with opened(common) as benbi:
            return await benbi.schedules()

    found = asyncio.run(read())
    if common.as_json:
        documents.write({"schedules": [documents.schedule_document(one) for one in found]})
        return
    if not found:
        print("no schedules; workers and servers register those of their code when they start")
        return
    from benbi.cli import screen
    from benbi.cli.timetable import schedules_view

    screen.show(schedules_view(found))


@app.command
def pause(name: Name, /, *, common: Common = DEFAULT) -> None:
    """Pause a schedule: its ticks make no jobs, and none later for those that pass meanwhile."""

    async def act() -> Schedule:
        async with opened(common) as benbi:
            return await benbi.pause_schedule(name)

    _told(asyncio.run(act()), common)


@app.command
def resume(name: Name, /, *, common: Common = DEFAULT) -> None:
    """Resume a schedule: its ticks make jobs from now on."""

    async def act() -> Schedule:
        async with opened(common) as benbi:
            return await benbi.resume_schedule(name)

    _told(asyncio.run(act()), common)


@app.command
def run(name: Name, /, *, common: Common = DEFAULT) -> None:
    """Create a job of a schedule now, beside its ticks, and print its id."""

    async def act() -> Job:
        async with opened(common) as benbi:
            return await (await benbi.run_schedule(name)).get()

    job = asyncio.run(act())
    if common.as_json:
        documents.write(documents.job_document(job))
    else:
        print(job.id)


def _told(schedule: Schedule, common: Common) -> None:
    if common.as_json:
        documents.write(documents.schedule_document(schedule))
        return
    from benbi.cli.timetable import moment

    coming = ""
    if schedule.state == "active" and schedule.upcoming:
        coming = f"  next {moment(schedule.upcoming[0], schedule.timezone)}"
    print(exits.visible(f"{schedule.name}  {schedule.state}{coming}"))
