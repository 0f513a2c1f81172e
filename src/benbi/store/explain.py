"""Why a job does not run: for each state the cause, the sentence and the values in it.

What an owner is told names nothing of others: no foreign job, no worker, nobody who paused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from benbi.codec import check_against_schema
from benbi.errors import InvalidArguments
from benbi.fleet import Explanation
from benbi.job import Job, State, as_datetime
from benbi.sentence import counted, instant, quoted, span
from benbi.store import line, views
from benbi.store.database import Transaction
from benbi.store.facts import MOST_NAMED, Because, Circumstances, Facts, listed
from benbi.store.fleet import moment, workers

# A rescuer looks every quarter of the timeout, and may have seen the last beat late.
RESCUE_SECONDS: Final = 2.0
_CLAIMED_LATER: Final = (State.WAITING, State.SCHEDULED, State.RETRYING, State.PENDING)


def explain(
    view: Transaction, job_id: str, owner: str | None, default_timeout: float, beats: bool
) -> Explanation:
    """Why the job is not running, or that it is. JobNotFound."""
    job = views.job(view, job_id, owner)
    ((*around,),) = view.rows("circumstances", id=views.as_bytes(job_id))
    facts = Facts(view, job, Circumstances(*around), owner, workers(view, default_timeout, beats))
    cause, sentence, details = because(facts)
    notes = tuple(_notes(facts, cause))
    return Explanation(job.id, job.state, cause, sentence, notes, details)


def because(facts: Facts) -> Because:
    """The cause, by the state that the job is in."""
    return _WHY.get(facts.job.state, _unknown)(facts)


# States in which nothing more will happen.


def _ended(facts: Facts) -> Because:
    job = facts.job
    assert job.finished_at is not None
    reason = f" ({quoted(job.reason)})" if job.reason else ""
    error = f": {_error(job)}" if job.error else ""
    again = "" if job.state == State.COMPLETED else f"; benbi jobs retry {job.id} runs it again"
    verb = {"completed": "It completed", "failed": "It failed for good"}.get(
        job.state, f"It was {job.state}"
    )
    return Because(
        str(job.state),
        f"{verb}{reason} at {instant(job.finished_at)}{error}{again}.",
        {"reason": job.reason, "finished_at": job.finished_at},
    )


def _error(job: Job) -> str:
    return quoted(f"{job.error.type}: {job.error.message}".rstrip(" .")) if job.error else ""


# States that time, an answer or another job ends.


def _scheduled(facts: Facts) -> Because:
    job = facts.job
    if facts.left(job.run_at) <= 0:
        return _due(facts)
    details = {"due": job.run_at, "reason": job.reason}
    if job.reason == "sleeping":
        return Because("scheduled", f"It sleeps until {facts.until(job.run_at)}.", details)
    reason = f" ({quoted(job.reason)})" if job.reason else ""
    return Because("scheduled", f"It is due at {facts.until(job.run_at)}{reason}.", details)


def _retrying(facts: Facts) -> Because:
    job = facts.job
    if facts.left(job.run_at) <= 0:
        return _due(facts)
    used = [
        f"{number} of {most} {what}"
        for number, most, what in (
            (job.failures, job.max_attempts, "failures"),
            (job.losses, job.max_losses, "lost workers"),
        )
        if number
    ]
    error = f" with {_error(job)}" if job.error else ""
    return Because(
        "retrying",
        f"Attempt {job.attempt} ended{error} ({', '.join(used)}); the next one is due at "
        f"{facts.until(job.run_at)}.",
        {"due": job.run_at, "reason": job.reason, "attempt": job.attempt},
    )


def _due(facts: Facts) -> Because:
    if facts.live:
        soon = "a live worker makes it pending within a second or so"
    else:
        soon = "a worker or a server makes it pending, and no live worker is registered"
    return Because(
        "due",
        f"It has been due since {facts.since(facts.job.run_at)}; {soon}.",
        {"due": facts.job.run_at, "workers": len(facts.live)},
    )


def _input_required(facts: Facts) -> Because:
    job = facts.job
    asked = [quoted(question.prompt) for question in job.questions]
    by = min((asked.deadline for asked in job.questions if asked.deadline), default=None)
    until = f", until {facts.until(by)}" if by else ""
    prompts = " and ".join(f'"{prompt}"' for prompt in asked)
    return Because(
        "input_required",
        f"It asks {prompts} and waits for the answer{until}; benbi jobs answer {job.id} gives it.",
        {"questions": [question.key for question in job.questions], "deadline": by},
    )


def _waiting(facts: Facts) -> Because:
    return _limit(facts) if facts.around.waits_for == "limit" else _upstream(facts)


def _upstream(facts: Facts) -> Because:
    around = facts.around
    rows = facts.view.rows("upstream", n=around.n)
    if not rows:
        return Because(
            "settling",
            f"All that it waited for has ended ({counted(around.up_total, 'job')}); it goes on as "
            "soon as a worker or a server looks.",
            {"total": around.up_total, "failed": around.up_failed},
        )
    named = facts.visible(rows)
    return Because(
        "upstream",
        f"It waits for {len(rows):,} of {counted(around.up_total, 'job')} "
        f"before it{listed(named, len(rows))}.",
        {
            "unfinished": len(rows),
            "total": around.up_total,
            "failed": around.up_failed,
            "jobs": named[:MOST_NAMED],
        },
    )


def _limit(facts: Facts) -> Because:
    rows = facts.view.rows("slots_taken")
    taken: dict[str, int] = {}
    for name, *_ in rows:
        taken[name] = taken.get(name, 0) + 1
    counts = ", ".join(f"{number:,} of {name}" for name, number in taken.items())
    named = facts.visible([row[1:] for row in rows])
    return Because(
        "limit",
        f"It waits for slots of a limit; slots taken: {counts or 'none'}"
        f"{listed(named, len(rows))}.",
        {"taken": taken, "jobs": named[:MOST_NAMED]},
    )


# Running.


def _running(facts: Facts) -> Because:
    job, around = facts.job, facts.around
    worker = facts.workers.get(around.worker_n or 0)
    by = f" on worker {worker.id}" if worker and facts.operator else ""
    details = {"worker": worker.id} if worker and facts.operator else {}
    if worker and worker.silent:
        return _lost(facts, details)
    assert job.started_at is not None
    if around.cancel_requested_at is not None and around.grace_ends_at is not None:
        asked, grace = moment(around.cancel_requested_at), moment(around.grace_ends_at)
        return Because(
            "cancel_requested",
            f"It runs{by}, and was asked to stop at {instant(asked)}; what runs on after "
            f"{instant(grace)} is abandoned, and the job is canceled.",
            {"asked_at": asked, "grace_ends_at": grace} | details,
        )
    return Because(
        "running",
        f"It runs: attempt {job.attempt}{by}, since {facts.since(job.started_at)}.",
        {"attempt": job.attempt, "started_at": job.started_at} | details,
    )


def _lost(facts: Facts, details: dict[str, Any]) -> Because:
    worker = facts.workers[facts.around.worker_n or 0]
    left = facts.left(worker.beat_at) + worker.heartbeat_timeout + RESCUE_SECONDS
    silent = span(-facts.left(worker.beat_at))
    named = f"Its worker {worker.id}" if facts.operator else "Its worker"
    if not facts.live:
        rescue = "no live worker is registered to rescue it (a server would, too): start one"
    elif left > 0:
        rescue = f"rescue in at most {span(left)}"
    else:
        rescue = f"rescue overdue by {span(-left)}"
    return Because(
        "worker_lost",
        f"{named} has not beaten for {silent} and may be lost; {rescue}.",
        {
            "silent_since": worker.beat_at,
            "rescue_in": max(0.0, round(left, 3)) if facts.live else None,
            **details,
        },
    )


def _unknown(facts: Facts) -> Because:
    state = facts.job.state
    return Because(
        "unknown_state",
        f"It is {quoted(state)}, a state of newer code that this version of benbi does not know.",
        {"state": str(state)},
    )


_WHY: Final[dict[str, Callable[[Facts], Because]]] = {
    State.COMPLETED: _ended,
    State.FAILED: _ended,
    State.CANCELED: _ended,
    State.SKIPPED: _ended,
    State.SCHEDULED: _scheduled,
    State.RETRYING: _retrying,
    State.INPUT_REQUIRED: _input_required,
    State.WAITING: _waiting,
    State.PENDING: line.pending,
    State.RUNNING: _running,
}


# What else will matter.


def _notes(facts: Facts, cause: str) -> list[str]:
    job = facts.job
    notes: list[str] = []
    if job.final or job.state == State.RUNNING:
        return notes
    paused = line.pause_of(facts)
    if paused is not None and cause != paused.cause:
        notes.append(
            f"Then it will have to wait: {paused.sentence[0].lower()}{paused.sentence[1:]}"
        )
    expires_at = as_datetime(facts.around.expires_at)
    if expires_at is not None and job.state != State.RETRYING:
        notes.append(f"It fails as expired at {facts.until(expires_at)}, unless it runs by then.")
    if job.state in _CLAIMED_LATER:
        notes += _other_schema(facts)
    return notes


def _other_schema(facts: Facts) -> list[str]:
    """A claim asks for the name of a task, never for its schema: who claims it fails it."""
    given = json.loads(views.arguments(facts.view, facts.around.n))
    for schema, version, seen in facts.view.rows("published_schema", task=facts.job.task):
        try:
            check_against_schema(facts.job.task, json.loads(schema), given)
        except InvalidArguments as refusal:
            problem = quoted(str(refusal)).rstrip(".")
            published = (
                f"the task as it was last published (code {version}, {instant(moment(seen))})"
            )
            told = f"Its arguments do not fit {published}: {problem}"
            return [f"{told}; a worker with that code will fail it."]
    return []
