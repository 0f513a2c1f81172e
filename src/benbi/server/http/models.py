"""The bodies and queries of the REST door, as OpenAPI shows them and as they are checked."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from benbi.job import State

Seconds = Annotated[float, Field(ge=0, le=366 * 24 * 3600, allow_inf_nan=False)]
Sequence = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Strict(BaseModel):
    """What a client sends: a name that is not known is an error, not a silence."""

    model_config = ConfigDict(extra="forbid")


class CreateBody(Strict):
    """A call of a task of the catalogue.

    ``delay`` is in seconds; ``run_at`` has an offset. A ``key`` used before with the same
    arguments gives the same job.
    """

    task: Annotated[str, Field(min_length=1)]
    arguments: dict[str, Any] = {}
    key: Annotated[str, Field(min_length=1)] | None = None
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0
    delay: Seconds | None = None
    run_at: AwareDatetime | None = None
    queue: Annotated[str, Field(min_length=1)] | None = None


class CancelBody(Strict):
    reason: str | None = None


class RetryBody(Strict):
    """``fresh`` forgets the recorded steps, so that they run again."""

    fresh: bool = False


class AnswerBody(Strict):
    """``question`` is the key of a question; it may be left out where one alone is open."""

    value: Any
    question: str | None = None


class ListQuery(Strict):
    state: State | None = None
    task: str | None = None
    queue: str | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    before: UUID | None = None


class EventsQuery(Strict):
    after: Sequence = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class View(BaseModel):
    """What the server answers, read from the frozen records of ``benbi.job``."""

    model_config = ConfigDict(from_attributes=True)


class ProgressView(View):
    done: float
    total: float | None
    message: str


class ErrorView(View):
    """The traceback tells of the server's inside: empty for a caller who signed in."""

    type: str
    message: str
    kind: str
    rule: str
    traceback: str


class QuestionView(View):
    key: str
    prompt: str
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    deadline: datetime | None
    answered: bool


class JobView(View):
    id: str
    task: str
    queue: str
    owner: str
    state: str
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
    progress: ProgressView | None
    error: ErrorView | None
    questions: list[QuestionView]
    waits_for: list[str]
    links: dict[str, str]


class JobsView(View):
    """``next`` is the address of the older jobs; null at the end."""

    jobs: list[JobView]
    next: str | None


class EventView(View):
    job_id: str
    seq: int
    type: str
    reason: str | None
    attempt: int
    at: datetime
    data: Any


class EventsView(View):
    """``next`` is the ``after`` of the next call; ``ended`` says that no more will come."""

    job_id: str
    events: list[EventView]
    next: int
    ended: bool


class ExplanationView(View):
    """``cause`` is stable, ``sentence`` and ``notes`` are for people."""

    job_id: str
    state: str
    cause: str
    sentence: str
    notes: list[str]
    details: dict[str, Any]


class ArtifactView(View):
    name: str
    size: int
    sha256: str
    link: str


class ArtifactsView(View):
    """``link`` is a download."""

    job_id: str
    artifacts: list[ArtifactView]


class LogsQuery(Strict):
    """``attempt``: none is the newest that logged anything."""

    attempt: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None


class LogLineView(View):
    number: int
    attempt: int
    at: datetime
    level: str
    logger: str
    message: str


class LogsView(View):
    """The last 64 KiB of the attempt, oldest first."""

    job_id: str
    lines: list[LogLineView]


class ProblemView(View):
    """RFC 9457; some kinds have more members, named in their ``detail``."""

    type: str
    title: str
    status: int
    detail: str
