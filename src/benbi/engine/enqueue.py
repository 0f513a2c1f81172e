"""Enqueue is data first: calls become rows, purely; the store commits them in batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from benbi.codec import arguments_hash
from benbi.errors import PayloadTooLarge, Refused, UnknownTask
from benbi.job import CatalogueEntry, NewJob, new_id
from benbi.options import Defaults, Options, micros_of
from benbi.sealing import keyed_hash, seal
from benbi.store.views import as_bytes
from benbi.task import Call

# enqueue_many is atomic up to this many jobs; more would hold the write lock too long.
MOST_ATOMIC = 10_000


def rows_of(app: object, calls: Sequence[Call], max_payload: int) -> list[NewJob]:
    """The rows for calls of this app's tasks. PayloadTooLarge; Refused over MOST_ATOMIC, and for
    a call of another app."""
    if len(calls) > MOST_ATOMIC:
        raise Refused(
            f"{len(calls):,} jobs in one call: one transaction takes at most {MOST_ATOMIC:,}; "
            "pass atomic=False to store them in several"
        )
    known: dict[int, bytes] = {}
    rows: list[NewJob] = []
    for call in calls:
        task = call.task
        # Not by identity: a test's view of an app is that app, and shares its attributes.
        if vars(task.enqueuer) is not vars(app):
            raise Refused(f"task {task.name} is one of another app; use that app's enqueue or run")
        row = row_of(
            task.name,
            task.defaults,
            call.arguments,
            call.options,
            max_payload,
            task.signature.secrets,
            known,
        )
        rows.append(row)
        known[id(call)] = row.id
    return rows


def connection_of(calls: Sequence[Call]) -> Any:
    """The caller's own connection, where the calls name one. Refused where they name several."""
    connection = calls[0].options.connection if calls else None
    for call in calls:
        if call.options.connection is not connection:
            raise Refused("the calls name several connections: one transaction is one connection")
    return connection


def row_of(
    task: str,
    defaults: Defaults,
    arguments: str,
    options: Options,
    max_payload: int,
    secrets: Collection[str] = (),
    before: Mapping[int, bytes] = MappingProxyType({}),
) -> NewJob:
    """The row for one call; ``arguments`` is canonical JSON text, ``secrets`` those to encrypt.
    ``before``: the ids for the calls that stand before it, by identity."""
    comparable = options.key is not None or options.same_call_within is not None
    digest = arguments_hash(arguments) if comparable else None
    if secrets:
        digest = None if digest is None else keyed_hash(task, digest)
        arguments = seal(task, arguments, secrets)
    size = len(arguments) if arguments.isascii() else len(arguments.encode())
    if size > max_payload:
        raise PayloadTooLarge(f"the arguments of {task}", size, max_payload)
    row = NewJob(
        id=new_id(),
        task=task,
        queue=options.queue or defaults.queue,
        owner=options.owner,
        rank=-options.priority,
        delay=micros_of(options.delay),
        run_at=_absolute(options.run_at),
        max_attempts=defaults.max_attempts,
        max_losses=defaults.max_losses,
        timeout=defaults.timeout,
        grace=defaults.grace,
        keep=defaults.keep,
        expires_in=micros_of(options.expires_in),
        key=options.key,
        arguments_hash=digest,
        arguments=arguments,
        same_call_within=micros_of(options.same_call_within),
    )
    if not options.after:
        return row
    after = dict.fromkeys(_upstream(job, before) for job in options.after)
    return row._replace(after=tuple(after), when=options.when)


def _upstream(job: str | Call, before: Mapping[int, bytes]) -> bytes:
    if isinstance(job, str):
        return as_bytes(job)
    if id(job) not in before:
        raise Refused(
            f"after= names a call of {job.task.name} that does not stand before this one in the "
            "same app.run or enqueue_many: list it first, or enqueue it and pass its handle"
        )
    return before[id(job)]


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


def _absolute(when: datetime | None) -> int | None:
    return None if when is None else round(when.timestamp() * 1_000_000)
