"""What a pause and the views of an operator cost, in steps of SQLite's machine, not in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benbi.outcome import Completed
from benbi.store import fleet, stats
from benbi.store.sqlite import SqliteDatabase
from tests.support.rig import Clock, Rig

MANY = 400


@pytest.fixture
def rig() -> Iterator[Rig]:
    clock = Clock()
    rig = Rig(SqliteDatabase(":memory:", clock=clock), clock)
    yield rig
    rig.store.close()


def steps(rig: Rig, statement: str, **values: Any) -> int:
    """How many instructions a statement takes."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection = rig.database.connect()._connection  # type: ignore[attr-defined]
    connection.set_progress_handler(count, 1)
    rig.rows(statement, **values)
    connection.set_progress_handler(None, 1)
    return counted


def claiming(rig: Rig) -> tuple[int, int]:
    asked = {"tasks": '["work"]', "fragile": 1}
    looks = steps(rig, "look", queues='["default"]', worker=1, **asked)
    return looks, steps(rig, "candidates", queue="default", most=10, **asked)


def test_the_jobs_of_a_paused_queue_are_not_walked(rig: Rig) -> None:
    rig.store.write_sync(fleet.pause, "default", "ann")
    before = claiming(rig)
    rig.put_rows(*(rig.new() for _ in range(MANY)))
    assert claiming(rig) == before


def test_finished_jobs_are_not_walked_to_see_what_lives(rig: Rig) -> None:
    worker = rig.worker()
    rig.put(delay=60)
    rig.running(worker)
    rig.put()

    def seen() -> list[int]:
        return [steps(rig, name) for name in ("loads", "backlog", "running_jobs", "workers")]

    before = seen()
    rig.put_rows(*(rig.new(rank=-1) for _ in range(MANY)))
    rig.finish_together((claim, Completed("1"), ()) for claim in rig.claim(worker, MANY))
    assert seen() == before


def test_the_log_before_the_days_asked_for_is_not_read(rig: Rig) -> None:
    def day() -> int:
        span = rig.store.read_sync(stats.span_of, 3_600_000_000)
        asked = {"after": span.after, "newest": span.newest, "since": span.since}
        return steps(rig, "attempts_since", **asked, most=MANY)

    worker = rig.worker()
    rig.complete(rig.running(worker))
    before = day()
    rig.put_rows(*(rig.new() for _ in range(MANY)))
    rig.finish_together((claim, Completed("1"), ()) for claim in rig.claim(worker, MANY))
    rig.clock.tick(7200)
    rig.complete(rig.running(worker))
    assert day() == before
