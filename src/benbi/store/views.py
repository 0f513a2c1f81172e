"""The read side: records as doors, handles and people see them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from benbi.errors import JobNotFound
from benbi.job import (
    KEEP_FAILED,
    KEEP_OTHERS,
    CatalogueEntry,
    ErrorRecord,
    Event,
    Job,
    Progress,
    Question,
    State,
    as_datetime,
    as_state,
)
from benbi.secret import masked
from benbi.store.database import Row, Transaction
from benbi.store.moves import Found


def as_bytes(job_id: str, what: str = "job") -> bytes:
    """The stored form of a public id. JobNotFound for what is no id at all."""
    try:
        return UUID(job_id).bytes
    except (ValueError, AttributeError, TypeError):
        raise JobNotFound(str(job_id), what) from None


def as_text(stored: bytes) -> str:
    """The public form of a stored id."""
    text = stored.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def find(view: Transaction, job_id: str, owner: str | None) -> Found:
    """The job, if this owner may see it (None: an operator). Foreign and missing look alike."""
    for n, its_owner, state in view.rows("find", id=as_bytes(job_id)):
        if owner is None or owner == its_owner:
            return Found(n, its_owner, state)
    raise JobNotFound(job_id)


def job(view: Transaction, job_id: str, owner: str | None) -> Job:
    """One job's record, with its open questions."""
    for row in view.rows("job", id=as_bytes(job_id)):
        if owner is None or owner == row[4]:
            return _with_what_it_waits_for(view, row[0], _as_job(row))
    raise JobNotFound(job_id)


def jobs(
    view: Transaction,
    owner: str | None,
    state: str | None,
    task: str | None,
    queue: str | None,
    before: str | None,
    limit: int,
) -> list[Job]:
    """Newest first. ``before``: the id of the last job of the page before."""
    wanted = {
        "owner": owner,
        "state": state,
        "task": task,
        "queue": queue,
        "before": None if before is None else as_bytes(before),
        "most": limit,
    }
    rows = view.rows("jobs_of_owner" if owner else "jobs", **wanted)
    return [_with_what_it_waits_for(view, row[0], _as_job(row)) for row in rows]


def _with_what_it_waits_for(view: Transaction, n: int, found: Job) -> Job:
    if found.state == "waiting":
        upstream = view.rows("upstream_of", n=n)
        return replace(found, waits_for=tuple(as_text(id) for (id,) in upstream))
    if found.state != "input_required":
        return found
    rows = view.rows("open_questions_of", n=n, generation=found.generation)
    return replace(
        found,
        questions=tuple(
            Question(key, prompt, json.loads(schema), as_datetime(deadline))
            for key, prompt, schema, deadline in rows
        ),
    )


def _as_job(row: Row) -> Job:
    (
        _,
        id,
        task,
        queue,
        owner,
        state,
        reason,
        rank,
        attempt,
        failures,
        max_attempts,
        losses,
        max_losses,
        generation,
        seq,
        key,
        cancel_requested_at,
        created_at,
        run_at,
        started_at,
        finished_at,
        keep,
        progress,
        error,
        last_try,
    ) = row
    record = error or last_try
    return Job(
        id=as_text(id),
        task=task,
        queue=queue,
        owner=owner,
        state=as_state(state),
        reason=reason,
        priority=-rank,
        attempt=attempt,
        failures=failures,
        max_attempts=max_attempts,
        losses=losses,
        max_losses=max_losses,
        generation=generation,
        seq=seq,
        key=key,
        cancel_requested=cancel_requested_at is not None,
        created_at=_time(created_at),
        run_at=_time(run_at),
        started_at=as_datetime(started_at),
        finished_at=as_datetime(finished_at),
        kept_until=as_datetime(_kept_until(state, finished_at, keep)),
        progress=Progress(*json.loads(progress)) if progress else None,
        error=_as_error(record) if record else None,
    )


def _kept_until(state: str, finished_at: int | None, keep: int | None) -> int | None:
    if finished_at is None:
        return None
    default = KEEP_FAILED if state == State.FAILED else KEEP_OTHERS
    return finished_at + (int(default * 1_000_000) if keep is None else keep)


def _as_error(text: str) -> ErrorRecord:
    found: dict[str, Any] = json.loads(text)
    return ErrorRecord(
        found.get("type", ""),
        found.get("message", ""),
        found.get("kind", ""),
        found.get("rule", ""),
        found.get("traceback", ""),
    )


def _time(micros: int) -> Any:
    return as_datetime(micros)


def arguments(view: Transaction, n: int) -> str:
    """The arguments as JSON text, secrets masked."""
    rows = view.rows("arguments_of", n=n)
    return masked(rows[0][0]) if rows else "{}"


def result(view: Transaction, found: Found) -> str | None:
    """A completed job's result as JSON text; None where there is no result."""
    if found.state != "completed":
        return None
    rows = view.rows("result_of", n=found.n)
    return rows[0][0] if rows else "null"


def events(view: Transaction, job_id: str, n: int, after: int, limit: int) -> list[Event]:
    """Events with ``seq > after``, in order."""
    return [
        Event(job_id, seq, type, reason, attempt, _time(at), _data(data))
        for seq, type, reason, attempt, at, data in view.rows(
            "events_of", n=n, after=after, most=limit
        )
    ]


def events_since(view: Transaction, owner: str | None, cursor: int, limit: int) -> list[Event]:
    """Events of all jobs of an owner after ``cursor``, in commit order."""
    return [
        Event(as_text(id), seq, type, reason, attempt, _time(at), _data(data), position)
        for position, id, seq, type, reason, attempt, at, data, _ in view.rows(
            "events_since", cursor=cursor, owner=owner, most=limit
        )
    ]


def catalogue(view: Transaction) -> list[CatalogueEntry]:
    """What workers have published, by task name."""
    return [_as_entry(row) for row in view.rows("catalogue")]


def _as_entry(row: Row) -> CatalogueEntry:
    task, queue, doc, arguments, result, tool, defaults, code_version, last_seen = row
    return CatalogueEntry(
        task,
        queue,
        doc,
        _data(arguments),
        _data(result),
        _data(tool),
        _data(defaults),
        code_version,
        _time(last_seen),
    )


def _data(text: str | None) -> Any:
    return None if text is None else json.loads(text)
