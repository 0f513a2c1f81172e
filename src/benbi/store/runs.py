"""Runs: jobs that were created together, and those that they added."""

from __future__ import annotations

from benbi.errors import JobNotFound
from benbi.job import Job, Run, as_datetime
from benbi.store import moves, views
from benbi.store.database import Transaction

# Jobs that one transaction of a cancel touches at the most.
STRETCH = 500
NEWEST = 1 << 62


def number(view: Transaction, run_id: str, owner: str | None) -> int:
    """The run, if this owner may see it (None: an operator). Foreign and missing look alike."""
    for n, its_owner in view.rows("run_of_id", id=views.as_bytes(run_id, "run")):
        if owner is None or owner == its_owner:
            return n
    raise JobNotFound(run_id, "run")


def run(view: Transaction, run_id: str, owner: str | None) -> Run:
    """A run's record: how many of its jobs are in which state."""
    n = number(view, run_id, owner)
    ((name, its_owner, created_at),) = view.rows("run_record", run=n)
    created = as_datetime(created_at)
    assert created is not None
    return Run(run_id, name, its_owner, created, dict(view.rows("run_states", run=n)))


def jobs(
    view: Transaction, run_id: str, owner: str | None, after: str | None, limit: int
) -> list[Job]:
    """The run's jobs in the order in which they were added, after the job ``after``."""
    rows = view.rows(
        "jobs_of_run",
        run=number(view, run_id, owner),
        after=None if after is None else views.as_bytes(after),
        most=limit,
    )
    return [views.job(view, views.as_text(id), None) for (id,) in rows]


def live(view: Transaction, run_id: str, owner: str | None, after: int) -> int | None:
    """The first job after job ``after`` that has not ended."""
    rows = view.rows("live_of_run", run=number(view, run_id, owner), after=after)
    return rows[0][0] if rows else None


def cancel(tx: Transaction, run_id: str, owner: str | None, reason: str, before: int) -> int:
    """Cancels a stretch of the run's live jobs, newest first; where the next one begins (0: there
    is none)."""
    rows = tx.rows("jobs_to_cancel", run=number(tx, run_id, owner), before=before, most=STRETCH)
    moves.cancel(tx, [n for (n,) in rows], reason)
    return rows[-1][0] if rows else 0
