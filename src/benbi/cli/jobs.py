"""``benbi jobs``: list, show, explain, watch, cancel, retry, answer. It needs no task code."""

from __future__ import annotations

import asyncio
import getpass
from dataclasses import asdict
from typing import Annotated, Any, Final

from cyclopts import App, Parameter

from benbi.cli import documents, exits
from benbi.cli.moves import Verb, told
from benbi.cli.options import (
    ANY_JOB,
    AT_LEAST_ONE,
    DEFAULT,
    FLAG,
    NOT_NEGATIVE,
    Common,
    Filters,
    opened,
    seconds,
)
from benbi.cli.values import answer_value
from benbi.fleet import Explanation
from benbi.job import Event, Job

app = App(name="jobs", help="Look at jobs and change their course.")
app.command("benbi.cli.kept:artifacts", name="artifacts", help="List the files that a job saved.")
app.command("benbi.cli.kept:save", name="save", help="Save one of a job's files here.")
app.command("benbi.cli.kept:logs", name="logs", help="Show what a job logged.")

# The newest ones; jobs watch shows all, without holding them in memory.
_EVENTS_SHOWN: Final = 1_000

JobId = Annotated[str, Parameter(help="The id of the job.")]
JobIds = Annotated[
    tuple[str, ...],
    Parameter(show_default=False, help="The ids of the jobs, where no filter chooses them."),
]
Yes = Annotated[
    bool, FLAG, Parameter(help="Do it to all that the filters choose, however many they are.")
]


@app.command(name="list")
def list_jobs(
    *,
    filters: Filters = ANY_JOB,
    limit: Annotated[int, Parameter(validator=AT_LEAST_ONE, help="At most so many.")] = 50,
    before: Annotated[str | None, Parameter(help="Only jobs older than this one.")] = None,
    common: Common = DEFAULT,
) -> None:
    """List jobs, newest first."""

    async def read() -> list[Job]:
        async with opened(common) as benbi:
            return await benbi.jobs(**filters.given(), limit=limit, before=before)

    found = asyncio.run(read())
    if common.as_json:
        documents.write({"jobs": [documents.job_document(job) for job in found]})
        return
    from benbi.cli import screen
    from benbi.cli.table import jobs_view

    if not found:
        print("no jobs")
        return
    screen.show(jobs_view(found, screen.console().width))
    if len(found) == limit:
        exits.tell(f"there may be older ones: --before {found[-1].id}")


@app.command
def show(job_id: JobId, /, *, common: Common = DEFAULT) -> None:
    """Show everything about a job: record, arguments, result, error, events, questions."""

    async def read() -> tuple[Job, Any, Any, list[Event]]:
        async with opened(common) as benbi:
            job = await benbi.get(job_id)
            arguments = documents.parsed(await benbi.arguments_json(job_id))
            result = documents.parsed(await benbi.result_json(job_id))
            after = max(0, job.seq - _EVENTS_SHOWN)
            events = await benbi.events(job_id, after=after, limit=_EVENTS_SHOWN)
            return job, arguments, result, events

    job, arguments, result, events = asyncio.run(read())
    if common.as_json:
        documents.write(
            {
                **documents.job_document(job),
                "arguments": arguments,
                "result": result,
                "events": [documents.event_document(entry) for entry in events],
            }
        )
        return
    from benbi.cli import screen
    from benbi.cli.sheet import job_view

    screen.show(job_view(job, arguments, result, events))


@app.command
def watch(
    job_id: JobId,
    /,
    *,
    after: Annotated[
        int, Parameter(validator=NOT_NEGATIVE, help="Start after the event of this number.")
    ] = 0,
    timeout: Annotated[str | None, Parameter(help="Stop watching after so long: 90, 10m.")] = None,
    common: Common = DEFAULT,
) -> int:
    """Follow a job until it ends; the exit code tells how it ended."""
    from benbi.cli.watch import Watch, until_end

    watching = Watch(common, after=after)

    async def follow() -> Job:
        async with opened(common) as benbi:
            return await watching.follow(benbi, job_id)

    return until_end(watching, follow(), None if timeout is None else seconds(timeout))


@app.command
def explain(job_id: JobId, /, *, common: Common = DEFAULT) -> None:
    """Say why a job is not running, or that it is."""

    async def read() -> Explanation:
        async with opened(common) as benbi:
            return await benbi.explain(job_id)

    found = asyncio.run(read())
    if common.as_json:
        documents.write(asdict(found))
        return
    for sentence in (found.sentence, *found.notes):
        print(exits.visible(sentence))


@app.command
def cancel(
    job_ids: JobIds = (),
    /,
    *,
    reason: Annotated[str | None, Parameter(help="Why, for the job's record.")] = None,
    filters: Filters = ANY_JOB,
    yes: Yes = False,
    common: Common = DEFAULT,
) -> int:
    """Cancel jobs: at once, or as soon as the running task lets go."""
    verb = Verb(
        "cancel",
        "canceled, or asked to stop",
        [f"--reason={reason}"] if reason else [],
        one=lambda app, job_id: app.cancel(job_id, reason=reason),
        many=lambda app, chosen, dry_run: app.cancel_many(**chosen, reason=reason, dry_run=dry_run),
    )
    return verb.act(job_ids, filters, common, yes=yes)


@app.command
def retry(
    job_ids: JobIds = (),
    /,
    *,
    fresh: Annotated[
        bool, FLAG, Parameter(help="Forget the recorded steps and start anew.")
    ] = False,
    filters: Filters = ANY_JOB,
    yes: Yes = False,
    common: Common = DEFAULT,
) -> int:
    """Run failed, canceled or skipped jobs again; their recorded steps are kept."""
    verb = Verb(
        "retry",
        "retried",
        ["--fresh"] if fresh else [],
        one=lambda app, job_id: app.retry(job_id, fresh=fresh),
        many=lambda app, chosen, dry_run: app.retry_many(**chosen, fresh=fresh, dry_run=dry_run),
    )
    return verb.act(job_ids, filters, common, yes=yes)


@app.command
def answer(
    job_id: JobId,
    value: Annotated[
        str,
        Parameter(allow_leading_hyphen=True, help="JSON, or plain text where text is asked for."),
    ],
    /,
    *,
    question: Annotated[
        str | None, Parameter(help="Which question, where several are open.")
    ] = None,
    by: Annotated[str | None, Parameter(help="Who answers; default: the user.")] = None,
    common: Common = DEFAULT,
) -> None:
    """Answer what a job asks."""

    async def act() -> Job:
        async with opened(common) as benbi:
            job = await benbi.get(job_id)
            decoded = answer_value(job, question, value)
            who = by or getpass.getuser()
            return await benbi.answer(job_id, decoded, question=question, by=who)

    told(asyncio.run(act()), common)
