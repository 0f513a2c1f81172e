"""Enqueue in the caller's own transaction: rolled back means never enqueued."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from benbi import Benbi, IdempotencyConflict, JobNotFound, Refused
from tests.support.working import working


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Benbi]:
    app = Benbi(str(tmp_path / "shop.db"))

    @app.task
    async def ship(order: int) -> int:
        return order

    yield app
    app.close_sync()


@pytest.fixture
def shop(app: Benbi, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    app.publish_sync()
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        yield connection


def test_committed_together(app: Benbi, shop: sqlite3.Connection) -> None:
    ship = app.tasks["ship"]
    with shop:
        shop.execute("INSERT INTO orders VALUES (17)")
        job = ship.options(connection=shop).enqueue_sync(17)
        with pytest.raises(JobNotFound):
            job.get_sync()
    assert job.get_sync().state == "pending"
    assert [event.type for event in app.events_sync(job.id)] == ["created"]


def test_rolled_back_together(app: Benbi, shop: sqlite3.Connection) -> None:
    ship = app.tasks["ship"]
    shop.execute("INSERT INTO orders VALUES (17)")
    job = ship.options(connection=shop).enqueue_sync(17)
    shop.rollback()
    with pytest.raises(JobNotFound):
        job.get_sync()
    assert shop.execute("SELECT count(*) FROM benbi_events").fetchone() == (0,)


def test_keys_hold_in_the_callers_transaction(app: Benbi, shop: sqlite3.Connection) -> None:
    ship = app.tasks["ship"]
    first = ship.options(key="k").enqueue_sync(1)
    with shop:
        bound = ship.options(key="k", connection=shop)
        assert bound.enqueue_sync(1).id == first.id
        with pytest.raises(IdempotencyConflict):
            bound.enqueue_sync(2)


async def test_a_worker_sees_it_after_the_commit(tmp_path: Path) -> None:
    app = Benbi(str(tmp_path / "shop.db"))

    @app.task
    async def ship(order: int) -> int:
        return order

    async with app, working(app):
        with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            job = await ship.options(connection=connection).enqueue(17)
            connection.commit()
        assert await job.result(5) == 17


def test_what_can_not_be_meant_is_refused(
    app: Benbi, shop: sqlite3.Connection, tmp_path: Path
) -> None:
    ship = app.tasks["ship"]
    with (
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        pytest.raises(Refused, match="another database"),
    ):
        ship.options(connection=other).enqueue_sync(1)
    with (
        closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as autocommit,
        pytest.raises(Refused, match="BEGIN IMMEDIATE"),
    ):
        ship.options(connection=autocommit).enqueue_sync(1)
    with pytest.raises(Refused, match=r"sqlite3\.Connection"):
        ship.options(connection=object()).enqueue_sync(1)
    with pytest.raises(Refused, match="several connections"):
        app.enqueue_many_sync([ship.options(connection=shop).call(1), ship.call(2)])
    assert app.jobs_sync() == []


class Late(sqlite3.Cursor):
    """Somebody else enqueues between this cursor's first statement and its second."""

    meanwhile: ClassVar[list[Callable[[], object]]] = []

    def execute(self, *call: Any) -> sqlite3.Cursor:
        done = super().execute(*call)
        while not call[0].startswith("PRAGMA") and Late.meanwhile:
            Late.meanwhile.pop()()
        return done


class Slow(sqlite3.Connection):
    def cursor(self, factory: Any = Late) -> Any:
        return super().cursor(factory)


def test_what_others_enqueue_meanwhile_is_not_taken_for_the_callers(
    app: Benbi, shop: sqlite3.Connection, tmp_path: Path
) -> None:
    """The caller's transaction begins with the first statement, not with the first INSERT."""
    ship = app.tasks["ship"]
    other = Benbi(str(tmp_path / "shop.db"))
    threads: list[threading.Thread] = []

    @other.task(name="ship")
    async def shipped(order: int) -> int:
        return order

    def enqueue() -> None:
        threads.append(threading.Thread(target=shipped.enqueue_sync, args=(1,)))
        threads[0].start()
        threads[0].join(0.3)

    with closing(sqlite3.connect(tmp_path / "shop.db", factory=Slow)) as connection:
        Late.meanwhile.append(enqueue)
        with connection:
            job = ship.options(connection=connection).enqueue_sync(17)
        threads[0].join(10)
    assert [event.type for event in app.events_sync(job.id)] == ["created"]
    assert len(app.jobs_sync()) == 2
    other.close_sync()
