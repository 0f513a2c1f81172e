"""What a look at a job shows: its envelope with whatever that needs to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benbi.job import State
from benbi.server.mcp.envelope import envelope
from benbi.server.mcp.owner import current_owner

if TYPE_CHECKING:
    from benbi.app import Benbi
    from benbi.job import Job

# One look reads no more: it bounds memory, and who looks now and then misses nothing.
MOST_EVENTS: Final = 200


async def seen(app: Benbi, job: Job, *, after: int) -> dict[str, Any]:
    """The caller's envelope of the job, with the partial results of events over ``after``."""
    first = max(after, job.seq - MOST_EVENTS)
    events = await app.events(job.id, after=first, limit=MOST_EVENTS, owner=current_owner())
    # What came since the job was read is for the next look, which asks from the job's seq on.
    events = [event for event in events if event.seq <= job.seq]
    body = envelope(job, result_json=await result_of(app, job), events=events)
    if first > after:
        body["message"] += f" (partial results up to event {first} were not looked for)"
    return body


async def result_of(app: Benbi, job: Job) -> str | None:
    """The JSON text of the result of a completed job, else None."""
    if job.state != State.COMPLETED:
        return None
    return await app.result_json(job.id, owner=current_owner())
