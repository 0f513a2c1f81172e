"""A job: its states, the permitted moves between them, and the records that carry it.

Imports nothing of ours: everything else speaks in these words.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID


class State(StrEnum):
    """Where a job is. Later distinctions go into ``reason``, never into a new state."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    SKIPPED = "skipped"

    @property
    def final(self) -> bool:
        """True where no worker will touch the job again in this generation."""
        return self in FINAL


FINAL: Final = frozenset({State.COMPLETED, State.FAILED, State.CANCELED, State.SKIPPED})
# Retention counts from the end, in seconds, where a task does not say otherwise.
KEEP_FAILED: Final = 30 * 24 * 3600.0
KEEP_OTHERS: Final = 7 * 24 * 3600.0

LIVE: Final = frozenset(State) - FINAL


@dataclass(frozen=True, slots=True)
class Move:
    """One permitted change of state.

    ``event`` is the type of the event that tells it; ``None`` means that the
    event is named after the state the job arrives in.
    ``charge`` is the counter that the move raises by one.
    """

    name: str
    sources: frozenset[State | None]
    targets: frozenset[State]
    event: str | None = None
    charge: str | None = None


def _move(
    name: str,
    sources: str,
    targets: str,
    *,
    event: str | None = None,
    charge: str | None = None,
) -> tuple[str, Move]:
    came_from = frozenset(None if word == "-" else State(word) for word in sources.split())
    goes_to = frozenset(State(word) for word in targets.split())
    return name, Move(name, came_from, goes_to, event, charge)


# The whole life of a job, in the order in which a job meets it.
MOVES: Final[dict[str, Move]] = dict(
    [
        _move("enqueue", "-", "waiting scheduled pending", event="created"),
        _move("settle", "waiting", "pending scheduled waiting failed skipped"),
        _move("admit", "waiting", "pending"),
        _move("due", "scheduled retrying", "pending waiting"),
        _move("claim", "pending", "running", event="started", charge="attempt"),
        _move("complete", "running", "completed"),
        _move("skip", "running", "skipped"),
        _move("fail", "running", "failed", charge="failures"),
        _move("retry", "running", "retrying", charge="failures"),
        _move("snooze", "running", "scheduled"),
        _move("sleep", "running", "scheduled"),
        _move("ask", "running", "input_required"),
        _move("wait", "running", "waiting"),
        _move("release", "running", "pending"),
        _move("lose", "running", "pending retrying failed", charge="losses"),
        _move("stop", "running", "canceled"),
        _move("cancel", "waiting scheduled pending retrying input_required", "canceled"),
        _move("answer", "input_required", "pending waiting"),
        _move("expire", "pending scheduled waiting input_required", "failed"),
        _move("again", "failed canceled skipped", "pending waiting"),
        _move(
            "mark",
            "waiting scheduled pending retrying input_required completed failed canceled skipped",
            "completed failed skipped",
        ),
    ]
)

# Events that tell a change of state; the others (progress, partial, step_completed …) do not.
STATE_EVENTS: Final = frozenset(
    {"created", "started"}
    | {str(state) for move in MOVES.values() if move.event is None for state in move.targets}
)


_STATES: Final = {str(state): state for state in State}


def as_state(text: str) -> State | str:
    """The state named by ``text``; text that newer code wrote is carried as it came."""
    return _STATES.get(text, text)


def new_id() -> bytes:
    """A UUIDv7 (RFC 9562, 5.7) with 74 fresh random bits: unguessable, never used for order."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (
        (milliseconds & 0xFFFF_FFFF_FFFF) << 80
        | 0x7000 << 64
        | (random >> 68 & 0xFFF) << 64
        | 0x8000 << 48
        | random & 0x3FFF_FFFF_FFFF_FFFF
    )
    return value.to_bytes(16, "big")


def as_datetime(micros: int | None) -> datetime | None:
    """Microseconds since the epoch as an aware UTC datetime."""
    if micros is None:
        return None
    seconds, rest = divmod(micros, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)


class NewRun(NamedTuple):
    """A run to store with the first of its jobs, or the one that they join."""

    id: bytes
    name: str


class NewJob(NamedTuple):
    """One job to store. Times and durations are microseconds; ``run_at`` is absolute,
    ``delay`` is added by the database. ``same_call_within`` asks for an equal live call first.
    """

    id: bytes
    arguments: str
    task: str
    queue: str
    owner: str
    rank: int
    delay: int | None
    run_at: int | None
    max_attempts: int
    max_losses: int
    timeout: int | None
    grace: int
    keep: int | None
    expires_in: int | None
    key: str | None
    arguments_hash: bytes | None
    same_call_within: int | None = None
    # Jobs that come first, the rule by which their ends let this one run, and the run it is in.
    after: tuple[bytes, ...] = ()
    when: str = "all_success"
    run: NewRun | None = None

    @property
    def linked(self) -> bool:
        """True where it is tied to other jobs."""
        return bool(self.after) or self.run is not None

    @property
    def likeness(self) -> tuple[Any, ...]:
        """All but the id and the arguments: jobs that are equal in it are stored as one."""
        return self[2:]


class Claim(NamedTuple):
    """A worker's right to run one attempt of one job: every later write names it.

    ``(n, token)`` is the fence. The rest is what running and deciding need,
    as it stood when the claim was made.
    """

    n: int
    token: int
    id: bytes
    task: str
    queue: str
    owner: str
    attempt: int
    failures: int
    losses: int
    max_attempts: int
    max_losses: int
    generation: int
    first_attempt: int
    timeout: int | None
    grace: int
    arguments: str
    seq: int
    scheduled_for: int | None = None

    @property
    def fence(self) -> tuple[int, int]:
        return self.n, self.token

    @property
    def job_id(self) -> str:
        return str(UUID(bytes=self.id))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job says it is: ``done`` of ``total`` (None: unknown), and a message."""

    done: float
    total: float | None
    message: str


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Why an attempt failed.

    ``kind`` is transient, unknown, permanent, bug, timeout, lost or expired; ``rule`` says in
    words which rule of the retry policy decided.
    """

    type: str
    message: str
    kind: str
    rule: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a job saved: its name within the job, bytes, SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """One record that was logged inside a job. ``number`` counts those of its attempt, from 1."""

    number: int
    attempt: int
    at: datetime
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True)
class Question:
    """What a job asks a person. ``schema`` is the JSON schema of the answer."""

    key: str
    prompt: str
    schema: dict[str, Any]
    deadline: datetime | None
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One durable call of a task, as stored. Times are aware datetimes in UTC.

    ``attempt`` numbers claims and never falls; ``failures`` and ``losses`` are budgets
    apart. ``seq`` is the number of the job's last event. ``kept_until``: from then on retention
    may remove a finished job; None while it lives.
    """

    id: str
    task: str
    queue: str
    owner: str
    state: State | str
    reason: str | None
    priority: int
    attempt: int
    failures: int
    max_attempts: int
    losses: int
    max_losses: int
    generation: int
    seq: int
    key: str | None
    cancel_requested: bool
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    kept_until: datetime | None
    progress: Progress | None = None
    error: ErrorRecord | None = None
    questions: tuple[Question, ...] = ()
    # The jobs that it still waits for, by id.
    waits_for: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class Run:
    """Jobs created together, and those that they added. ``states``: how many of them are in
    which state; ``name`` is for people."""

    id: str
    name: str
    owner: str
    created_at: datetime
    states: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def final(self) -> bool:
        """True where all of its jobs have ended."""
        return all(state in FINAL for state in self.states)


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a job's append-only log. ``seq`` starts at 1 and has no gaps."""

    job_id: str
    seq: int
    type: str
    reason: str | None
    attempt: int
    at: datetime
    data: Any = None
    # Resumes a stream over many jobs; 0 where the event was read for one job.
    cursor: int = 0

    @property
    def event_id(self) -> str:
        """The same for the same event wherever it is read."""
        return f"{self.job_id}/{self.seq}"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """What some live worker can run: all that a door needs to offer a task."""

    task: str
    queue: str
    doc: str
    arguments_schema: dict[str, Any]
    result_schema: dict[str, Any]
    tool: dict[str, Any] | None
    defaults: dict[str, Any]
    code_version: str
    last_seen: datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring task, as workers and servers have registered it. Times are aware, in UTC.

    ``spec``: a cron expression, read in ``timezone`` (empty: an interval, "every 10m").
    ``state``: active; paused; retired, when for a minute no live process has had it in its code.
    ``last``: the newest tick that made a job, which is ``last_job``; None before the first.
    ``upcoming``: the next five ticks, which make jobs as long as it is active.
    """

    name: str
    task: str
    spec: str
    timezone: str
    catchup: str
    state: str
    last: datetime | None
    last_job: str | None
    seen_at: datetime
    paused_at: datetime | None
    upcoming: tuple[datetime, ...]
