"""A job in one line for people and models, and when to look at it again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benbi.job import State

if TYPE_CHECKING:
    from benbi.job import ErrorRecord, Job, Progress

# How long a waiting client is told to stay away, in milliseconds.
SOON = 1_000
LATER = 5_000
AT_MOST = 30_000


def describe(job: Job, *, now: datetime | None = None) -> str:
    """What the job is doing or how it ended: ``3/8 loading``, ``attempt 2 of 5, retry in 8 s``."""
    if job.cancel_requested and not job.final:
        return "being canceled"
    match job.state:
        case State.RUNNING:
            return _running(job)
        case State.PENDING:
            return "queued" if job.attempt == 0 else f"queued again after attempt {job.attempt}"
        case State.RETRYING:
            return _retrying(job, now)
        case State.SCHEDULED:
            return f"runs in {_seconds_until(job, now)} s"
        case State.WAITING:
            return "waits for other jobs" if job.reason != "slot" else "waits for a free slot"
        case State.INPUT_REQUIRED:
            return _asking(job)
        case State.FAILED:
            return told(job.error) if job.error else f"failed: {job.reason or 'no reason kept'}"
        case _:
            return f"{job.state}: {job.reason}" if job.reason else str(job.state)


def told(error: ErrorRecord) -> str:
    """An error in one line, as Python would print it."""
    return f"{error.type}: {error.message}" if error.message else error.type


def told_progress(progress: Progress) -> str:
    """``3/8 loading``; ``3 loading`` where the total is unknown."""
    count = f"{progress.done:g}"
    if progress.total is not None:
        count += f"/{progress.total:g}"
    return f"{count} {progress.message}".rstrip()


def poll_after(job: Job, *, now: datetime | None = None) -> int | None:
    """Milliseconds until another look is worth its while; None once the job is final."""
    if job.final:
        return None
    if job.state in (State.RETRYING, State.SCHEDULED):
        return min(max(_seconds_until(job, now) * 1_000, SOON), AT_MOST)
    if job.state in (State.INPUT_REQUIRED, State.WAITING):
        return LATER
    return SOON


def _running(job: Job) -> str:
    words = told_progress(job.progress) if job.progress else "running"
    if job.failures:
        return f"attempt {job.failures + 1} of {job.max_attempts}: {words}"
    return words


def _retrying(job: Job, now: datetime | None) -> str:
    words = (
        f"attempt {max(job.failures, 1)} of {job.max_attempts}, "
        f"retry in {_seconds_until(job, now)} s"
    )
    return f"{words} ({told(job.error)})" if job.error else words


def _asking(job: Job) -> str:
    prompts = [question.prompt for question in job.questions if not question.answered]
    if not prompts:
        return "waits for an answer"
    return f"asks: {prompts[0]}" if len(prompts) == 1 else f"asks: {' | '.join(prompts)}"


def _seconds_until(job: Job, now: datetime | None) -> int:
    left = (job.run_at - (now or datetime.now(UTC))).total_seconds()
    return max(0, round(left))
