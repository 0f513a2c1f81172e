"""What an attempt came to, and what follows from it. Pure: no clock, no I/O.

``decide`` proposes; the finishing statement disposes (a cancel that arrived meanwhile wins).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from benbi.job import Claim, ErrorRecord, State
from benbi.retry import Retry, delay


@dataclass(frozen=True, slots=True)
class Completed:
    """The task returned. ``result`` is JSON text."""

    result: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised. ``retry_after`` in seconds, where the other side named it."""

    error: ErrorRecord
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """The task asked to end as skipped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """Run again after ``delay`` seconds; nothing is charged."""

    delay: float
    reason: str = "snoozed"


@dataclass(frozen=True, slots=True)
class Canceled:
    """The task was stopped because somebody asked for it."""

    reason: str = "requested"


@dataclass(frozen=True, slots=True)
class Suspended:
    """The task waits: for answers (``asks``), until ``wake_in`` seconds are over, or for other
    jobs (``awaits``)."""

    asks: bool
    wake_in: float | None = None
    awaits: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """The worker gives the job back; nothing is charged."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The process that ran the task for its worker died. ``message`` says how."""

    message: str


Outcome = Completed | Failed | Skipped | Snoozed | Canceled | Suspended | Released | Lost


class Decision(NamedTuple):
    """The move proposed for one claim.

    ``live``: the new state is not final. ``failures``, ``losses``: what is charged (0 or 1).
    ``delay`` in microseconds, added by the database; None leaves the due time. ``result``,
    ``error`` and ``data`` (of the event) are JSON text.
    """

    state: str
    reason: str | None
    live: bool
    failures: int = 0
    delay: int | None = None
    result: str | None = None
    error: str | None = None
    data: str | None = None
    losses: int = 0


def decide(claim: Claim, outcome: Outcome, policy: Retry) -> Decision:
    """What should follow from an attempt's outcome, by the job's budgets and the task's policy."""
    match outcome:
        case Completed(result):
            return Decision("completed", None, live=False, result=result)
        case Failed():
            return _after_failure(claim, outcome, policy)
        case Skipped(reason):
            return Decision("skipped", reason, live=False)
        case Snoozed(seconds, reason):
            return Decision("scheduled", reason, live=True, delay=_micros(seconds))
        case Canceled(reason):
            return Decision("canceled", reason, live=False)
        case Suspended(asks=True):
            return Decision("input_required", "asked", live=True)
        case Suspended(awaits=True):
            return Decision("waiting", "awaits", live=True)
        case Suspended(wake_in=seconds):
            return Decision("scheduled", "sleeping", live=True, delay=_micros(seconds or 0))
        case Released(reason):
            return Decision("pending", reason, live=True)
        case Lost(message):
            return _after_loss(claim, message)


# Kinds of error for which another attempt can not help.
_HOPELESS = frozenset({"permanent", "bug"})


def _after_failure(claim: Claim, failed: Failed, policy: Retry) -> Decision:
    error, failures = failed.error, claim.failures + 1
    record = error_json(error)
    hopeless = error.kind in _HOPELESS or (error.kind == "unknown" and not policy.unknown)
    if hopeless or failures >= claim.max_attempts:
        reason = error.kind if hopeless else "attempts_used"
        return Decision(
            State.FAILED.value, reason, live=False, failures=1, error=record, data=record
        )
    wait = delay(policy, failures, claim.id, failed.retry_after)
    told = json.loads(record) | {"retry_in": round(wait, 3)}
    return Decision(
        State.RETRYING.value,
        error.kind,
        live=True,
        failures=1,
        delay=_micros(wait),
        data=json.dumps(told),
    )


# A job that lost two workers or more waits before it may take down the next.
LOSS_DELAY = 1_000_000


def _after_loss(claim: Claim, message: str) -> Decision:
    """As for each job of a worker that died: at once, then later, then never again."""
    record = error_json(lost(message))
    if claim.losses + 1 >= claim.max_losses:
        return Decision("failed", "lost", live=False, error=record, data=record, losses=1)
    if not claim.losses:
        return Decision("pending", "lost", live=True, data=record, losses=1)
    return Decision("retrying", "lost", live=True, delay=LOSS_DELAY, data=record, losses=1)


def lost(message: str) -> ErrorRecord:
    """The error of a job whose worker died, or the process that ran it."""
    rule = "each lost worker is charged to losses, and max_losses bounds them"
    return ErrorRecord("WorkerLost", message, "lost", rule)


def error_json(error: ErrorRecord) -> str:
    """An error record as it is stored; lone surrogates in a message do not stop it."""
    return json.dumps(
        {
            "type": error.type,
            "message": error.message,
            "kind": error.kind,
            "rule": error.rule,
            "traceback": error.traceback,
        }
    )


def _micros(seconds: float) -> int:
    return max(0, round(seconds * 1_000_000))
