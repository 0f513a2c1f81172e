"""Queues and workers: what is there now, and the pause of a queue."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from benbi.fleet import Queue, WorkerRecord
from benbi.job import as_datetime
from benbi.store.database import Row, Transaction

# A worker beats five times in its timeout.
SILENT_SHARE = 0.5


def moment(micros: int) -> datetime:
    """A stored time that can not be missing."""
    at = as_datetime(micros)
    assert at is not None
    return at


def pause(tx: Transaction, name: str, by: str) -> None:
    """Nothing is claimed from the queue any more; what runs goes on."""
    tx.rows("pause_queue", name=name, by=by)


def resume(tx: Transaction, name: str) -> None:
    """Its jobs may be claimed again. The commit is the hint that wakes idle workers."""
    tx.rows("resume_queue", name=name)


def workers(view: Transaction, default_timeout: float, beats: bool) -> dict[int, WorkerRecord]:
    """The registered workers, by number.

    ``default_timeout``: seconds, for one that did not say its own. ``beats`` is False where
    workers need not beat, because they live and die with the one that looks.
    """
    return {
        row[0]: _as_worker(row, view.now, default_timeout, beats) for row in view.rows("workers")
    }


def _as_worker(row: Row, now: int, default_timeout: float, beats: bool) -> WorkerRecord:
    _, id, host, pid, slots, queues, tasks, version, started_at, beat_at, timeout, running = row
    patience = timeout / 1e6 or default_timeout
    return WorkerRecord(
        id=id,
        host=host,
        pid=pid,
        slots=slots,
        running=running,
        queues=tuple(json.loads(queues)),
        tasks=tuple(json.loads(tasks)),
        version=version,
        started_at=moment(started_at),
        beat_at=moment(beat_at),
        heartbeat_timeout=patience,
        silent=beats and (now - beat_at) / 1e6 > SILENT_SHARE * patience,
    )


def queues(view: Transaction, default_timeout: float, beats: bool) -> list[Queue]:
    """Every queue that is paused, has jobs that may be claimed some time, a worker or a task."""
    found: dict[str, Queue] = {}

    def known(name: str) -> Queue:
        return found.setdefault(name, Queue(name))

    for name, paused_at, paused_by in view.rows("paused_queues"):
        found[name] = Queue(name, as_datetime(paused_at), paused_by)
    for name, state, count, oldest in view.rows("loads"):
        found[name] = replace(known(name), **{state: count})
        if oldest is not None:
            found[name] = replace(found[name], oldest_pending=as_datetime(oldest))
    for worker in workers(view, default_timeout, beats).values():
        for name in worker.queues:
            found[name] = replace(known(name), workers=known(name).workers + (not worker.silent))
    for entry in view.rows("catalogue"):
        known(entry[1])
    return [found[name] for name in sorted(found)]


def queue(view: Transaction, name: str, default_timeout: float, beats: bool) -> Queue:
    """One queue; one that nobody has heard of is empty and open."""
    for found in queues(view, default_timeout, beats):
        if found.name == name:
            return found
    return Queue(name)
