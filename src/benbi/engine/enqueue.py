"""Enqueue is data first: calls become rows, purely; the store commits them in batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benbi.codec import arguments_hash
from benbi.errors import PayloadTooLarge, Refused, UnknownTask
from benbi.job import CatalogueEntry, NewJob, new_id
from benbi.task import Call, Options, Task

# enqueue_many is atomic up to this many jobs; more would hold the write lock too long.
MOST_ATOMIC = 10_000


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a task says of its jobs: resolved once, stored with each of them. Seconds."""

    queue: str
    max_attempts: int
    max_losses: int
    timeout: float | None
    grace: float
    keep: float | None

    def as_json(self) -> dict[str, Any]:
        return {
            "max_attempts": self.max_attempts,
            "max_losses": self.max_losses,
            "timeout": self.timeout,
            "grace": self.grace,
            "keep": self.keep,
        }

    @classmethod
    def of_task(cls, task: Task[Any, Any]) -> Defaults:
        return cls(
            task.queue, task.retry.attempts, task.max_losses, task.timeout, task.grace, task.keep
        )

    @classmethod
    def of_catalogue(cls, queue: str, stored: Mapping[str, Any]) -> Defaults:
        """What a catalogue row says, for a door that does not have the task's code."""
        return cls(
            queue,
            stored["max_attempts"],
            stored["max_losses"],
            stored["timeout"],
            stored["grace"],
            stored["keep"],
        )


def rows_of(calls: Sequence[Call], max_payload: int) -> list[NewJob]:
    """The rows for calls of registered tasks. PayloadTooLarge; Refused over MOST_ATOMIC."""
    if len(calls) > MOST_ATOMIC:
        raise Refused(
            f"{len(calls):,} jobs in one call: one transaction takes at most {MOST_ATOMIC:,}; "
            "pass atomic=False to store them in several"
        )
    return [
        row_of(
            call.task.name, Defaults.of_task(call.task), call.arguments, call.options, max_payload
        )
        for call in calls
    ]


def connection_of(calls: Sequence[Call]) -> Any:
    """The caller's own connection, where the calls name one. Refused where they name several."""
    connections = {id(call.options.connection): call.options.connection for call in calls}
    if len(connections) > 1:
        raise Refused("the calls name several connections: one transaction is one connection")
    return next(iter(connections.values()), None)


def row_of(
    task: str, defaults: Defaults, arguments: str, options: Options, max_payload: int
) -> NewJob:
    """The row for one call; ``arguments`` is canonical JSON text."""
    size = len(arguments) if arguments.isascii() else len(arguments.encode())
    if size > max_payload:
        raise PayloadTooLarge(f"the arguments of {task}", size, max_payload)
    comparable = options.key is not None or options.same_call_within is not None
    return NewJob(
        id=new_id(),
        task=task,
        queue=options.queue or defaults.queue,
        owner=options.owner,
        rank=-options.priority,
        delay=_micros(options.delay),
        run_at=_absolute(options.run_at),
        max_attempts=defaults.max_attempts,
        max_losses=defaults.max_losses,
        timeout=_micros(defaults.timeout),
        grace=_micros(defaults.grace) or 0,
        keep=_micros(defaults.keep),
        expires_in=_micros(options.expires_in),
        key=options.key,
        arguments_hash=arguments_hash(arguments) if comparable else None,
        arguments=arguments,
        same_call_within=_micros(options.same_call_within),
    )


def published(
    catalogue: Sequence[CatalogueEntry], name: str, here: Iterable[str]
) -> CatalogueEntry:
    """What workers say of a task. UnknownTask names those that are known, ``here`` included."""
    for entry in catalogue:
        if entry.task == name:
            return entry
    known = ", ".join(sorted({entry.task for entry in catalogue}.union(here)))
    told = f"known are {known}" if known else "none is known yet: start a worker first"
    raise UnknownTask(f"no task {name!r}; {told}")


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)


def _absolute(when: datetime | None) -> int | None:
    return None if when is None else round(when.timestamp() * 1_000_000)
