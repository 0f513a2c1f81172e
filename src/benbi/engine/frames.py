"""What a worker and the process that runs a body for it say to each other: JSON, never pickle.

A frame is its length in four bytes, then JSON. The worker says ``do`` job, stop, answer and
end; the child ``tells`` ready, write, end and free, each with the number of the ``job`` that it
is of.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from benbi.job import Claim, ErrorRecord
from benbi.outcome import (
    Canceled,
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    Suspended,
)
from benbi.store.lifecycle import Asked, StepRecord, Told, Write
from benbi.store.recorded import Recorded

Frame = dict[str, Any]

LENGTH_BYTES: Final = 4
_OUTCOMES: Final = {
    made.__name__: made
    for made in (Canceled, Completed, Failed, Lost, Released, Skipped, Snoozed, Suspended)
}
# The statements that keep log lines, and what they take.
_LOG: Final[dict[str, dict[str, type]]] = {
    "forget_logs": {"kept": int},
    "log": {"piece": int, "body": str},
    "trim_log": {"piece": int},
}


def packed(frame: Frame) -> bytes:
    """A frame as bytes."""
    body = json.dumps(frame).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def from_claim(claim: Claim) -> Frame:
    """All but the token: what the child writes is fenced where it arrives."""
    return claim._asdict() | {"id": claim.id.hex(), "token": 0}


def as_claim(told: Frame) -> Claim:
    fields: Frame = told | {"id": bytes.fromhex(told["id"])}
    return Claim(**fields)


def from_recorded(recorded: Recorded) -> Frame:
    return {
        "steps": [_from_step(step) for step in recorded.steps.values()],
        "answers": [[key, print_.hex(), text] for key, (print_, text) in recorded.answers.items()],
        "progress": sorted(recorded.progress),
        "furthest": list(recorded.furthest.items()),
        "partials": recorded.partials,
    }


def as_recorded(told: Frame) -> Recorded:
    steps = [_as_step(step) for step in told["steps"]]
    return Recorded(
        {(step.kind, step.name, step.use): step for step in steps},
        {key: (bytes.fromhex(print_), text) for key, print_, text in told["answers"]},
        frozenset(told["progress"]),
        dict(told["furthest"]),
        tuple(told["partials"]),
    )


def from_write(write: Write) -> Frame:
    """What a write brings; its claim and its number are those of the attempt it arrives at."""
    return {
        "events": write.events,
        "steps": [_from_step(step) for step in write.steps],
        "questions": [
            asked._asdict() | {"fingerprint": asked.fingerprint.hex()} for asked in write.questions
        ],
        "progress": write.progress,
        "logs": list(write.also),
    }


def as_write(claim: Claim, told: Frame) -> Write:
    return Write(
        claim,
        0,
        [Told(*event) for event in told["events"]],
        [_as_step(step) for step in told["steps"]],
        [_as_asked(asked) for asked in told["questions"]],
        None if told["progress"] is None else tuple(told["progress"]),
        also=[_as_log(statement, values) for statement, values in told["logs"]],
    )


def from_outcome(outcome: Outcome) -> Frame:
    return {"is": type(outcome).__name__, **asdict(outcome)}


def as_outcome(told: Frame) -> Outcome:
    made = _OUTCOMES[told["is"]]
    fields = {name: value for name, value in told.items() if name != "is"}
    if made is Failed:
        fields["error"] = ErrorRecord(**fields["error"])
    return made(**fields)


def _as_log(statement: str, values: Frame) -> tuple[str, Frame]:
    """What keeps log lines; nothing else may be said to the database by its name."""
    if _LOG.get(statement) != {name: type(value) for name, value in values.items()}:
        raise TypeError(f"a child may not say {statement!r} to the database")
    return statement, values


def _as_asked(told: Frame) -> Asked:
    fields: Frame = told | {"fingerprint": bytes.fromhex(told["fingerprint"])}
    return Asked(**fields)


def _from_step(step: StepRecord) -> Frame:
    return step._asdict() | {"fingerprint": step.fingerprint.hex()}


def _as_step(told: Frame) -> StepRecord:
    fields: Frame = told | {"fingerprint": bytes.fromhex(told["fingerprint"])}
    return StepRecord(**fields)
