"""Contexts for plain calls of a task: no database and no worker; what the task tells is kept.

Everything else is the real thing: a value that JSON can not carry is refused here as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypedDict, TypeVar, Unpack, cast
from uuid import UUID, uuid4

from benbi.codec import codec_for
from benbi.context import Context, SyncContext
from benbi.engine.attempt import Attempt
from benbi.engine.facts import Facts
from benbi.engine.replay import AskOptions
from benbi.engine.resources import Resource
from benbi.engine.saving import checked_name
from benbi.engine.threads import Threads
from benbi.engine.uses import Identity
from benbi.errors import Refused
from benbi.job import Artifact, Claim, Progress
from benbi.options import Duration, seconds_of
from benbi.outcome import Snoozed
from benbi.store.batcher import Ticket
from benbi.store.files import Content
from benbi.store.lifecycle import Accepted, Asked, StepRecord, Write
from benbi.store.recorded import NOTHING_RECORDED
from benbi.task import Call
from benbi.testing.clock import FakeClock

T = TypeVar("T")

MAX_PAYLOAD = 1_048_576


class ContextOptions(TypedDict, total=False):
    """The keywords of ``testing.context``; the defaults stand behind each."""

    answers: Mapping[str, Any]  # {}; by the question's key= or its text
    steps: Mapping[str, Any]  # {}; results by the step's name: it does not run; an error: raised
    resources: Mapping[Resource[Any], Any]  # {}; values of ctx.resource
    task: str  # "task"
    owner: str  # ""
    attempt: int  # 1
    job_id: str  # a new one
    clock: FakeClock  # a new one; ctx.sleep moves it on


class Taken(NamedTuple):
    """A step that was recorded: its name, and its result as JSON gives it back."""

    name: str
    result: Any


class Answered(NamedTuple):
    """A question, and the answer that the task got."""

    question: str
    answer: Any


class _Notes:
    """Stands where an attempt expects its store: accepts each write and keeps what it says."""

    def __init__(self) -> None:
        self.steps: list[Taken] = []
        self.partials: list[Any] = []

    def record(self, write: Write, size: int, loop: asyncio.AbstractEventLoop | None) -> Ticket:
        for step in write.steps:
            if step.state == "completed" and step.kind == "step":
                self.steps.append(Taken(step.name, json.loads(step.result or "null")))
        for event in write.events:
            if event.type == "partial":
                self.partials.append(json.loads(event.data or "null"))
        ticket = Ticket(write, size, loop)
        ticket.settle(Accepted(False))
        if loop is not None:
            ticket.settle_in_loop()
        return ticket


class _Rehearsal(Attempt):
    """An attempt that nobody claimed."""

    def __init__(self, claim: Claim, notes: _Notes, prepared: Mapping[str, Any]) -> None:
        super().__init__(
            claim,
            cast("Any", notes),
            NOTHING_RECORDED,
            max_payload=MAX_PAYLOAD,
            # Only what is told between two writes needs one, and progress is kept at once.
            loop=cast("Any", None),
            interrupt=lambda attempt, reason: None,
        )
        self.reports: list[Progress] = []
        self._notes = notes
        self._prepared = prepared

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.reports.append(Progress(done, total, message))

    def recall(self, identity: Identity, fingerprint: bytes, on_change: str) -> StepRecord | None:
        kind, name, use = identity
        if name not in self._prepared:
            return super().recall(identity, fingerprint, on_change)
        value = self._prepared[name]
        if isinstance(value, BaseException):
            raise value
        text = codec_for(type(value)).encode(value, f"the prepared result of step {name!r}")
        self._notes.steps.append(Taken(name, json.loads(text)))
        return StepRecord(kind, name, use, fingerprint, "completed", 1, text, None)

    def pause(self, seconds: float) -> None:
        return None

    def suspend(
        self,
        *,
        asked: Asked | None = None,
        step: StepRecord | None = None,
        wake_in: float | None = None,
        snooze: Snoozed | None = None,
        awaits: bytes | None = None,
    ) -> None:
        if snooze is None:
            super().suspend(asked=asked, step=step, wake_in=wake_in, awaits=awaits)


class _Recording(Facts):
    """What both recording contexts keep."""

    def __init__(self, **options: Unpack[ContextOptions]) -> None:
        self.clock = options.get("clock") or FakeClock()
        self.questions: list[Answered] = []
        self.files: dict[str, bytes] = {}
        self.sleeps: list[float] = []
        self._answers = options.get("answers", {})
        self._values = options.get("resources", {})
        self._notes = _Notes()
        self._rehearsal = _Rehearsal(_claim(options), self._notes, options.get("steps", {}))
        super().__init__(self._rehearsal, Threads(), self.clock, cast("Any", None), None)

    @property
    def reports(self) -> list[Progress]:
        """Each call of ``progress``, in order."""
        return self._rehearsal.reports

    @property
    def partials(self) -> list[Any]:
        """The partial results, as JSON gives them back."""
        return self._notes.partials

    @property
    def steps(self) -> list[Taken]:
        """The steps that were recorded, in the order of their ends."""
        return self._notes.steps

    def cancel(self) -> None:
        """From now on ``canceled`` is True, and what the task tells or records ends it."""
        self._rehearsal.ask_to_stop("canceled")

    def _answer(self, question: str, type_: Any, options: AskOptions) -> Any:
        self._rehearsal.check()
        codec = codec_for(type_)
        for name in (options.get("key") or question, question):
            if name in self._answers:
                value = self._answers[name]
                break
        else:
            if "default" not in options:
                raise LookupError(
                    f"no answer to {question!r}: prepare one with "
                    f"testing.context(answers={{{question!r}: …}})"
                )
            value = options["default"]
        answer = codec.decode(codec.encode(value, f"the prepared answer to {question!r}"))
        self.questions.append(Answered(question, answer))
        return answer

    def _slept(self, duration: Duration) -> None:
        self._rehearsal.check()
        seconds = seconds_of(duration, "sleep", _refuse)
        self.sleeps.append(seconds)
        self.clock.advance(seconds)

    def _saved(self, name: str, content: Content) -> Artifact:
        self._rehearsal.check()
        name = checked_name(name)
        if name in self.files:
            raise Refused(f"{name!r} was saved already; a name is saved once in a job")
        if isinstance(content, bytes | bytearray | memoryview):
            data = bytes(content)
        elif isinstance(content, str | os.PathLike):
            data = Path(content).read_bytes()
        else:
            data = content.read()
        self.files[name] = data
        return Artifact(name, len(data), hashlib.sha256(data).hexdigest())

    def _no_other_jobs(self, what: str) -> NoReturn:
        raise LookupError(
            f"ctx.{what} needs jobs, and a plain call has none: test it with benbi_app"
        )

    def _value_of(self, resource: Resource[T]) -> T:
        self._rehearsal.check()
        if resource not in self._values:
            raise LookupError(
                f"no value for {resource!r}: prepare one with "
                "testing.context(resources={resource: …})"
            )
        return self._values[resource]


class RecordingContext(_Recording, Context):
    """A Context for a plain call of an async task. Made by ``testing.context``."""

    async def ask(self, question: str, type_: Any = str, **options: Unpack[AskOptions]) -> Any:
        return self._answer(question, type_, options)

    async def sleep(self, duration: Duration) -> None:
        self._slept(duration)

    async def resource(self, resource: Resource[T]) -> T:
        return self._value_of(resource)

    async def save(self, name: str, content: Content) -> Artifact:
        return self._saved(name, content)

    async def wait(self, job: Any) -> Any:
        self._no_other_jobs("wait")

    async def run(self, calls: Sequence[Call], *, name: str = "") -> NoReturn:
        self._no_other_jobs("run")

    async def _pause(self, seconds: float) -> None:
        return None


class RecordingSyncContext(_Recording, SyncContext):
    """A SyncContext for a plain call of a ``def`` task. Made by ``testing.sync_context``."""

    def ask(self, question: str, type_: Any = str, **options: Unpack[AskOptions]) -> Any:
        return self._answer(question, type_, options)

    def sleep(self, duration: Duration) -> None:
        self._slept(duration)

    def resource(self, resource: Resource[T]) -> T:
        return self._value_of(resource)

    def save(self, name: str, content: Content) -> Artifact:
        return self._saved(name, content)

    def wait(self, job: Any) -> Any:
        self._no_other_jobs("wait")

    def run(self, calls: Sequence[Call], *, name: str = "") -> NoReturn:
        self._no_other_jobs("run")


def context(**options: Unpack[ContextOptions]) -> RecordingContext:
    """A Context for a plain call of an async task: ``await order(testing.context(), 17)``.

    It keeps ``reports`` (of progress), ``partials``, ``steps``, ``questions``, ``sleeps`` and
    ``files`` (what was saved).
    Steps run and their results are checked; asks get prepared answers, LookupError without one
    (and without a default); sleeps and back-offs take no time.
    """
    return RecordingContext(**options)


def sync_context(**options: Unpack[ContextOptions]) -> RecordingSyncContext:
    """The same for a ``def`` task."""
    return RecordingSyncContext(**options)


def _claim(options: ContextOptions) -> Claim:
    attempt = options.get("attempt", 1)
    given = options.get("job_id")
    known = {
        "n": 0,
        "token": 0,
        "id": (uuid4() if given is None else UUID(given)).bytes,
        "task": options.get("task", "task"),
        "queue": "default",
        "owner": options.get("owner", ""),
        "attempt": attempt,
        "failures": attempt - 1,
        "losses": 0,
        "max_attempts": attempt,
        "max_losses": 1,
        "generation": 1,
        "first_attempt": 1,
        "grace": 0,
        "arguments": "{}",
        "seq": 0,
    }
    # What only the store sets, and nothing here reads.
    return Claim(**cast("dict[str, Any]", dict.fromkeys(Claim._fields) | known))


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
