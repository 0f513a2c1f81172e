"""Workers as the database sees them: registered, beating, reconciled, buried."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from benbi.outcome import LOSS_DELAY, error_json, lost
from benbi.store.database import Transaction
from benbi.store.moves import tell_own


class Worker(NamedTuple):
    """What a worker says of itself."""

    id: str
    host: str
    pid: int
    slots: int
    queues: list[str]
    tasks: list[str]
    version: str
    heartbeat_timeout: int = 0  # microseconds; 0: that of whoever watches


class Held(NamedTuple):
    """One running row of a worker, as the database has it."""

    token: int
    cancel_requested: bool


def register(tx: Transaction, worker: Worker) -> int:
    """The worker's number, never used before."""
    ((n,),) = tx.rows(
        "register_worker",
        **worker._asdict()
        | {"queues": json.dumps(worker.queues), "tasks": json.dumps(worker.tasks)},
    )
    return n


def beat(tx: Transaction, worker: int) -> dict[int, Held] | None:
    """One more beat, and the rows that the worker holds, by job. None: it was buried."""
    if not tx.rows("beat", worker=worker):
        return None
    return held(tx, worker)


def held(view: Transaction, worker: int) -> dict[int, Held]:
    """The rows that the worker holds, by job."""
    return {
        n: Held(token, cancel_requested_at is not None)
        for n, token, cancel_requested_at in view.rows("held", worker=worker)
    }


def look(
    view: Transaction, queues: str, tasks: str, fragile: bool, worker: int
) -> tuple[Any, Any, Any, int]:
    """What there is for a worker: (pending, canceled, due at, now), the first two as truth
    values. ``queues`` and ``tasks`` are JSON arrays."""
    ((pending, canceled, due_at),) = view.rows(
        "look", queues=queues, tasks=tasks, fragile=int(fragile), worker=worker
    )
    return pending, canceled, due_at, view.now


def idle(view: Transaction, queues: str, tasks: str, worker: int) -> bool:
    """True where the worker holds no job and there is none for it."""
    # In one view: what is claimed but not started yet is neither pending nor in a slot.
    pending, _, due_at, now = look(view, queues, tasks, True, worker)
    return not pending and not held(view, worker) and (due_at is None or due_at > now)


def release(
    tx: Transaction, worker: int, claims: Sequence[tuple[int, int]], reason: str
) -> list[int]:
    """Gives claims (n, token) back, uncharged."""
    rows = tx.each(
        "release_unheld", [_release_values(n, token, worker, reason, tx.now) for n, token in claims]
    )
    return tell_own(tx, [row for (row,) in filter(None, rows)])


def _release_values(n: int, token: int, worker: int, reason: str, now: int) -> tuple[Any, ...]:
    return (reason, now, n, token, worker)


def beats(view: Transaction) -> dict[int, int]:
    """The beat counter of each registered worker."""
    return dict(view.rows("beats"))


def watched(view: Transaction) -> tuple[dict[int, int], dict[int, float]]:
    """The beat counter of each registered worker, and the seconds it may be silent."""
    patience = {n: timeout / 1e6 for n, timeout in view.rows("patience")}
    return beats(view), patience


def try_writing(tx: Transaction) -> None:
    """Writes, and leaves nothing behind: StoreError where no worker could beat either."""
    tx.rows("try_writing")
    tx.rows("tried_writing")


def bury(
    tx: Transaction,
    worker: int,
    beat_no: int,
    why: str = "the worker stopped beating while it ran this job",
) -> list[int] | None:
    """Takes a dead worker's jobs from it and removes it; returns the jobs.

    None where it beat since it was seen. ``why`` stands in the error of each job. Who comes too
    late to claim finds no worker row.
    """
    if not tx.rows("bury", worker=worker, beat_no=beat_no):
        return None
    error = error_json(lost(why))
    rows = tx.rows("lose", worker=worker, delay=LOSS_DELAY)
    tx.many("result", [(row[0], None, error) for row in rows if row[3] == "failed"])
    moved = tell_own(tx, rows, error)
    tx.rows("remove_worker", worker=worker)
    return moved


def bury_process(tx: Transaction, mark: str, why: str) -> list[int]:
    """Buries the workers of a process that is known to have ended: see ``process_mark``."""
    buried = [bury(tx, n, beat_no, why) for n, beat_no in tx.rows("workers_of", mark=mark)]
    return [job for jobs in buried for job in jobs or ()]


def release_process(tx: Transaction, mark: str, reason: str) -> list[int]:
    """Signs off the workers of a process that was ended on purpose: nothing is charged."""
    workers = [n for n, _ in tx.rows("workers_of", mark=mark)]
    return [job for n in workers for job in sign_off(tx, n, reason)]


def sign_off(tx: Transaction, worker: int, reason: str) -> list[int]:
    """A worker's last transaction: what it still holds goes back uncharged, its row goes."""
    tx.rows("hold_worker", worker=worker)
    claims = [(n, row.token) for n, row in held(tx, worker).items()]
    released = release(tx, worker, claims, reason)
    tx.rows("remove_worker", worker=worker)
    return released


def publish(tx: Transaction, entries: Sequence[dict[str, Any]]) -> None:
    """Writes catalogue rows: what live workers can run."""
    # In one order everywhere: two processes that begin to work at once do not block each other.
    for entry in sorted(entries, key=itemgetter("task")):
        tx.rows("publish", **entry)
