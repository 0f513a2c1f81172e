"""Chapter 16. A job in your own transaction: stored with your data, or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benbi import Benbi, JobNotFound, Task

PLACE = "INSERT INTO orders (number) VALUES (?)"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Benbi]:
    with Benbi(str(tmp_path / "shop.db")) as app:
        yield app


@pytest.fixture
def ship(app: Benbi) -> Task[[int], None]:
    @app.task
    async def ship(order: int) -> None: ...

    return ship


@pytest.fixture
def shop(app: Benbi, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Your own connection to the file: benbi's tables begin with ``benbi_``, the rest is yours."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
        yield connection


def test_the_job_is_there_when_the_order_is(
    shop: sqlite3.Connection, ship: Task[[int], None]
) -> None:
    """Nobody sees it before you commit: no worker ships an order that was never placed."""
    with shop:
        shop.execute(PLACE, (17,))
        job = ship.options(connection=shop).enqueue_sync(17)
        with pytest.raises(JobNotFound):
            job.get_sync()
    assert job.get_sync().state == "pending"


def test_a_rollback_takes_the_job_with_it(
    app: Benbi, shop: sqlite3.Connection, ship: Task[[int], None]
) -> None:
    """And an order that was placed is never left without its job."""
    with pytest.raises(ZeroDivisionError), shop:
        shop.execute(PLACE, (17,))
        ship.options(connection=shop).enqueue_sync(17)
        _ = 1 / 0
    assert app.jobs_sync() == []
    assert shop.execute("SELECT count(*) FROM orders").fetchone() == (0,)
