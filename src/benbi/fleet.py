"""What is known of queues, workers and the work they did: records for those who look after it.

Times are aware datetimes in UTC, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from benbi.job import State


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and what lives in it now.

    ``paused_at`` is None where it is open. ``oldest_pending``: since when the pending job that is
    due for the longest could have run. ``workers``: how many live workers listen to it.
    """

    name: str
    paused_at: datetime | None = None
    paused_by: str | None = None
    pending: int = 0
    oldest_pending: datetime | None = None
    running: int = 0
    scheduled: int = 0
    retrying: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A registered worker. ``running`` of its ``slots`` are taken.

    ``silent``: it has not beaten for half of its ``heartbeat_timeout``; most likely it is dead,
    and once it has been silent for all of that, any live process buries it.
    """

    id: str
    host: str
    pid: int
    slots: int
    running: int
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    version: str
    started_at: datetime
    beat_at: datetime
    heartbeat_timeout: float
    silent: bool


@dataclass(frozen=True, slots=True)
class Timings:
    """``count`` durations: each percentile is the smallest that so many per cent do not exceed,
    to three significant digits. None where there is nothing."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class TaskStats:
    """One task in one queue.

    ``completed`` … ``skipped`` count how jobs ended, ``retries`` how often one was to run again
    after an attempt that failed or was lost. ``success_rate`` is completed / (completed + failed),
    None where neither happened. ``waited``: from due to started, of each attempt that started;
    ``ran``: from started to the end of the attempt, of each that ended. ``pending`` and
    ``oldest_pending`` are of now.
    """

    task: str
    queue: str
    completed: int
    failed: int
    canceled: int
    skipped: int
    success_rate: float | None
    retries: int
    waited: Timings
    ran: Timings
    pending: int
    oldest_pending: datetime | None


@dataclass(frozen=True, slots=True)
class Stats:
    """What happened from ``since`` to ``until``, by task and queue, by name."""

    since: datetime
    until: datetime
    tasks: tuple[TaskStats, ...]


# What may keep a job from running, or says that nothing does.
CAUSES: Final[dict[str, str]] = {
    "completed": "it has ended",
    "failed": "it has ended",
    "canceled": "it has ended",
    "skipped": "it has ended",
    "running": "nothing: it runs",
    "cancel_requested": "it runs, and was asked to stop",
    "worker_lost": "the worker that runs it is silent",
    "input_required": "it waits for an answer",
    "scheduled": "its time has not come",
    "retrying": "an attempt failed, and the time of the next has not come",
    "due": "its time has come, and nobody has made it pending yet",
    "upstream": "it waits for other jobs",
    "settling": "the jobs it waited for have ended, and nobody has let it go on yet",
    "limit": "it waits for slots of a limit",
    "queue_paused": "somebody paused its queue",
    "no_worker": "no live worker is registered",
    "no_worker_for_queue": "no live worker listens to its queue",
    "no_worker_for_task": "no live worker that listens to its queue knows its task",
    "slots_taken": "every slot of the workers that could run it is taken",
    "after_a_loss": "it lost a worker, and the workers that could run it run such a job already",
    "next": "nothing: a worker is about to claim it",
    "unknown_state": "newer code brought it to a state that this version does not know",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job is not running, or that it is.

    ``cause`` is one of ``CAUSES`` and stays the same over releases; ``sentence`` says it in
    words, ``notes`` what else will matter. ``details`` has the same as values: names, times, ids.
    """

    job_id: str
    state: State | str
    cause: str
    sentence: str
    notes: tuple[str, ...]
    details: Mapping[str, Any]
