"""What an explanation rests on: one job, and what stands around it in the same moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from benbi.fleet import WorkerRecord
from benbi.job import Job
from benbi.sentence import instant, span
from benbi.store.database import Row, Transaction
from benbi.store.fleet import moment
from benbi.store.views import as_text

MOST_NAMED: Final = 5


class Because(NamedTuple):
    """A cause, the sentence that says it, and what the sentence says as values."""

    cause: str
    sentence: str
    details: Mapping[str, Any]


class Circumstances(NamedTuple):
    """What explains a job and is no part of its public record. Times in microseconds."""

    n: int
    rank: int
    run_at: int
    waits_for: str | None
    worker_n: int | None
    grace_ends_at: int | None
    cancel_requested_at: int | None
    expires_at: int | None
    up_total: int
    up_failed: int


@dataclass(frozen=True)
class Facts:
    """``owner``: who asks; None is an operator, who may see everything."""

    view: Transaction
    job: Job
    around: Circumstances
    owner: str | None
    workers: Mapping[int, WorkerRecord]

    @property
    def operator(self) -> bool:
        return self.owner is None

    @property
    def live(self) -> dict[int, WorkerRecord]:
        """The workers that beat."""
        return {n: worker for n, worker in self.workers.items() if not worker.silent}

    def left(self, at: datetime) -> float:
        """Seconds from now until ``at``; negative where it is over."""
        return (at - moment(self.view.now)).total_seconds()

    def since(self, at: datetime) -> str:
        """``2026-11-30 12:00:00 UTC (for 3 m 20 s)``."""
        return f"{instant(at)} (for {span(max(0.0, -self.left(at)))})"

    def until(self, at: datetime) -> str:
        """``2026-11-30 12:00:00 UTC, in 42.0 s``."""
        return f"{instant(at)}, in {span(max(0.0, self.left(at)))}"

    def visible(self, jobs: Sequence[Row]) -> list[dict[str, Any]]:
        """Of jobs (id, task, state, owner), those that whoever asks may see."""
        return [
            {"id": as_text(id), "task": task, "state": state}
            for id, task, state, owner in jobs
            if self.owner in (None, owner)
        ]


def listed(jobs: Sequence[Mapping[str, Any]], total: int) -> str:
    """``: ID (task, running), ID (task, pending) and 3 more``; empty where none may be named."""
    if not jobs:
        return ""
    shown = [f"{job['id']} ({job['task']}, {job['state']})" for job in jobs[:MOST_NAMED]]
    more = total - len(shown)
    return f": {', '.join(shown)}" + (f" and {more:,} more" if more else "")
