"""Schedules in transactions: registered, fired, paused, resumed, run by hand.

A tick belongs to whoever moves ``last_tick`` from where it was last seen: the same transaction
inserts the jobs, so that each tick has one however many processes try.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from benbi.errors import ScheduleNotFound
from benbi.job import NewJob, as_datetime
from benbi.store import lifecycle
from benbi.store.database import Transaction

# A schedule that no process has had for so long, while others registered theirs, is forgotten.
KEEP_UNSEEN: Final = 30 * 86_400 * 1_000_000


class Definition(NamedTuple):
    """What code says of a schedule. ``job`` is the JSON of the job that each tick makes."""

    name: str
    spec: str
    timezone: str
    catchup: str
    task: str
    job: str


class Stored(NamedTuple):
    """A schedule's row. Times are microseconds."""

    name: str
    spec: str
    timezone: str
    catchup: str
    task: str
    job: str
    version: int
    seen_at: int
    paused_at: int | None
    last_tick: int
    fired_at: int | None
    last_job: bytes | None

    @property
    def definition(self) -> Definition:
        return Definition(*self[:6])


class Due(NamedTuple):
    """Ticks to make jobs of. The row must still stand at ``version`` and ``last_tick``, and goes
    on to ``tick``; ``ticks`` may be fewer than passed, or none. ``missed``: it is late for them."""

    name: str
    version: int
    last_tick: int
    tick: int
    ticks: Sequence[int]
    missed: bool = False


def as_template(job: NewJob) -> str:
    """The JSON of a job to be made again and again."""
    fields = {name: value for name, value in job._asdict().items() if name != "id"}
    return json.dumps(fields, sort_keys=True)


def from_template(text: str, id: bytes) -> NewJob:
    """The job that a schedule makes; what newer code says of it is left out."""
    fields: dict[str, Any] = json.loads(text)
    known = {name: value for name, value in fields.items() if name in NewJob._fields}
    return NewJob(id=id, **known)


def register(tx: Transaction, definitions: Iterable[Definition], by: str) -> None:
    """Writes what this process has in its code: whoever registers last is the newest."""
    # In one order everywhere: two processes that begin to work at once do not block each other.
    for definition in sorted(definitions):
        tx.rows("register_schedule", **definition._asdict(), registered_by=by)
    tx.rows("forget_schedules", keep=KEEP_UNSEEN)


def seen(tx: Transaction, rows: Iterable[Stored]) -> None:
    """Notes that these definitions are held by a live process."""
    tx.many("schedule_seen", [(tx.now, row.name, row.version) for row in sorted(rows)])


def every(view: Transaction) -> tuple[list[Stored], int]:
    """All schedules by name, and the time of the reading."""
    return [Stored(*row) for row in view.rows("schedules")], view.now


def one(view: Transaction, name: str) -> Stored:
    """ScheduleNotFound."""
    for row in view.rows("schedule", name=name):
        return Stored(*row)
    raise ScheduleNotFound(name)


def fire(tx: Transaction, due: Due, jobs: Sequence[NewJob]) -> bool:
    """Makes one of ``jobs`` for each of the ticks; False where another process came first."""
    taken = tx.rows(
        "take_tick",
        name=due.name,
        version=due.version,
        last_tick=due.last_tick,
        tick=due.tick,
    )
    if not taken:
        return False
    for tick, job in zip(due.ticks, jobs, strict=True):
        _make(tx, due.name, tick, job)
    if jobs:
        tx.rows("schedule_fired", name=due.name, scheduled_for=due.ticks[-1], id=jobs[-1].id)
    return True


def run_now(tx: Transaction, name: str, id: bytes) -> None:
    """Makes a job beside the ticks, paused or not. May be repeated with the same ``id``."""
    stored = one(tx, name)
    if not tx.rows("existing", id=id):
        _make(tx, name, tx.now, from_template(stored.job, id), by_hand=True)


def _make(tx: Transaction, name: str, tick: int, job: NewJob, **more: Any) -> None:
    lifecycle.enqueue(tx, [[job]])
    ((n,),) = tx.rows("tick_of_job", id=job.id, scheduled_for=tick)
    told = {"schedule": name, "scheduled_for": _iso(tick), **more}
    tx.rows("tick_in_event", n=n, data=lifecycle.as_json(told))


def _iso(micros: int) -> str:
    moment = as_datetime(micros)
    assert moment is not None
    return moment.isoformat().replace("+00:00", "Z")


def pause(tx: Transaction, name: str) -> Stored:
    """No tick makes a job until it is resumed."""
    tx.rows("pause_schedule", name=name)
    return one(tx, name)


def resume(tx: Transaction, name: str) -> Stored:
    """Ticks make jobs again, from now on."""
    tx.rows("resume_schedule", name=name)
    return one(tx, name)
