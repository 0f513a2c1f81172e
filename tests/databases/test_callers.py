"""Enqueue in the caller's own transaction, by each client that people have one with."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import transaction
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from benbi import Benbi, IdempotencyConflict, JobHandle, JobNotFound, Refused, Task
from tests.support import postgresql
from tests.support.clients import (
    ON_POSTGRESQL,
    ON_SQLITE,
    Client,
    django_connection,
    engine_for,
)
from tests.support.working import working

SOON = 30.0
NUMBERS = count(1)
# Those that tell of their commits.
TELLING = ("session", "django")

pytestmark = pytest.mark.xdist_group("postgresql")


class Place(NamedTuple):
    """A database that the application's tables and ours share."""

    url: str
    app: Benbi
    ship: Task[[int], int]


def made_on(url: str) -> Place:
    app = Benbi(url)

    @app.task
    async def ship(order: int) -> int:
        return order

    app.publish_sync()
    return Place(url, app, ship)


@pytest.fixture(scope="module")
def on_server() -> Iterator[Place]:
    with postgresql.own_database() as url:
        place = made_on(url)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE orders (number bigint PRIMARY KEY)")
        yield place
        place.app.close_sync()


@pytest.fixture(scope="module")
def on_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = made_on(f"sqlite:///{tmp_path_factory.mktemp('shop')}/shop.db")
    with engine_for(place.url).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (number bigint PRIMARY KEY)")
    yield place
    place.app.close_sync()


CLIENTS = [
    *(pytest.param(("on_server", name), id=f"postgresql, {name}") for name in ON_POSTGRESQL),
    *(pytest.param(("on_file", name), id=f"sqlite, {name}") for name in ON_SQLITE),
]


@pytest.fixture(params=CLIENTS)
def told(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture
def name(told: tuple[str, str]) -> str:
    return told[1]


@pytest.fixture
def place(told: tuple[str, str], request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(told[0])


@pytest.fixture
def client(told: tuple[str, str], place: Place) -> Iterator[Client]:
    clients: dict[str, Any] = ON_POSTGRESQL if told[0] == "on_server" else ON_SQLITE
    with clients[told[1]](place.url) as client:
        yield client


@pytest.fixture
def number() -> int:
    return next(NUMBERS)


def is_there(job: JobHandle[Any]) -> bool:
    try:
        job.get_sync()
    except JobNotFound:
        return False
    return True


def placed(place: Place, number: int) -> bool:
    """Whether somebody else sees the order."""
    driver = "+psycopg" if place.url.startswith("postgresql") else ""
    with engine_for(place.url, driver).connect() as connection:
        found = connection.exec_driver_sql(f"SELECT 1 FROM orders WHERE number = {number}")
        return found.first() is not None


def insert(client: Client, number: int) -> None:
    client.execute(f"INSERT INTO orders VALUES ({number})")


def test_committed_together(place: Place, client: Client, number: int) -> None:
    insert(client, number)
    job = client.enqueue(place.ship, number)
    assert not is_there(job)
    client.commit()
    assert placed(place, number)
    assert job.get_sync().state == "pending"
    assert [event.type for event in place.app.events_sync(job.id)] == ["created"]


def test_rolled_back_together(place: Place, client: Client, number: int) -> None:
    insert(client, number)
    job = client.enqueue(place.ship, number)
    client.rollback()
    assert not placed(place, number)
    assert not is_there(job)


def test_the_job_may_be_what_the_transaction_begins_with(place: Place, client: Client) -> None:
    """The client ends what it knows to have begun."""
    first = client.enqueue(place.ship, 1)
    second = client.enqueue(place.ship, 2)
    client.commit()
    assert is_there(first)
    assert is_there(second)


def test_a_savepoint_that_is_rolled_back_takes_its_jobs_with_it(
    place: Place, client: Client, number: int
) -> None:
    before = client.enqueue(place.ship, number)
    client.execute("SAVEPOINT here")
    within = client.enqueue(place.ship, number)
    client.execute("ROLLBACK TO SAVEPOINT here")
    after = client.enqueue(place.ship, number)
    client.commit()
    assert [is_there(job) for job in (before, within, after)] == [True, False, True]


def test_a_key_that_is_taken_does_not_end_the_transaction(
    place: Place, client: Client, number: int
) -> None:
    key = f"order {number}"
    first = place.ship.options(key=key).enqueue_sync(number)
    insert(client, number)
    assert client.enqueue(place.ship, number, key=key).id == first.id
    with pytest.raises(IdempotencyConflict):
        client.enqueue(place.ship, number + 1, key=key)
    other = client.enqueue(place.ship, number, key=f"{key} again")
    assert client.enqueue(place.ship, number, key=f"{key} again").id == other.id
    client.commit()
    assert placed(place, number)
    assert is_there(other)


def test_the_same_call_is_the_same_job(place: Place, client: Client, number: int) -> None:
    owner = f"owner {number}"
    first = client.enqueue(place.ship, 1, same_call_within="1h", owner=owner)
    assert client.enqueue(place.ship, 1, same_call_within="1h", owner=owner).id == first.id
    client.commit()


def test_jobs_that_wait_for_others(place: Place, client: Client) -> None:
    """Every statement of an enqueue goes by every driver, those that settle a child included."""
    failed = place.ship.options(delay=60).enqueue_sync(1)
    failed.cancel_sync()
    first = client.enqueue(place.ship, 1)
    second = client.enqueue(place.ship, 2, after=[first])
    hopeless = client.enqueue(place.ship, 3, after=[first, failed])
    skipped = client.enqueue(place.ship, 4, after=[failed], when="all_success")
    started = client.enqueue(place.ship, 5, after=[failed], when="all_done")
    client.commit()
    assert second.get_sync().state == "waiting"
    assert hopeless.get_sync().state == skipped.get_sync().state == "failed"
    error = skipped.get_sync().error
    assert error is not None
    assert failed.id in error.message
    assert started.get_sync().state == "pending"


def test_a_worker_runs_it_after_the_commit(place: Place, client: Client) -> None:
    job = client.enqueue(place.ship, 17)
    client.commit()

    async def result() -> int:
        async with working(place.app):
            return await job.result(SOON)

    assert asyncio.run(result()) == 17


# The hint.


@pytest.fixture
def hints(place: Place) -> Iterator[list[bool]]:
    """One entry for each hint: whether the job that ``expect`` named was there by then."""
    told: list[bool] = []
    place.app.store.on_commit.append(lambda: told.append(True))
    yield told
    place.app.store.on_commit.pop()


def test_a_hint_follows_the_commit(
    place: Place, client: Client, name: str, hints: list[bool]
) -> None:
    seen: list[bool] = []
    job = client.enqueue(place.ship, 1)
    # An asynchronous session commits in its loop.
    elsewhere = ThreadPoolExecutor(1)
    place.app.store.on_commit.append(
        lambda: seen.append(elsewhere.submit(is_there, job).result(SOON))
    )
    try:
        client.execute("SAVEPOINT here")
        client.execute("RELEASE SAVEPOINT here")
        assert hints == []
        client.commit()
    finally:
        place.app.store.on_commit.pop()
        elsewhere.shutdown()
    if any(word in name for word in TELLING):
        assert hints == [True]
        assert seen == [True]
    else:
        assert hints == []
        place.app.wake()
        assert hints == [True]


def test_no_hint_follows_a_rollback(place: Place, client: Client, hints: list[bool]) -> None:
    client.enqueue(place.ship, 1)
    client.rollback()
    assert hints == []


def test_a_session_hints_once_for_each_commit(on_server: Place) -> None:
    told: list[int] = []
    on_server.app.store.on_commit.append(lambda: told.append(1))
    try:
        with Session(engine_for(on_server.url, "+psycopg")) as session:
            bound = on_server.ship.options(connection=session)
            with session.begin():
                bound.enqueue_sync(1)
                with session.begin_nested():
                    bound.enqueue_sync(2)
                assert told == [], "the end of a savepoint is no commit"
            assert told == [1]
            with session.begin():
                session.execute(sqlalchemy.text("SELECT 1"))
            assert told == [1], "nothing was enqueued"
            with session.begin():
                bound.enqueue_sync(3)
            assert told == [1, 1]
    finally:
        on_server.app.store.on_commit.pop()


def test_django_does_not_hint_for_a_savepoint_that_is_rolled_back(on_server: Place) -> None:
    told: list[int] = []
    connection = django_connection(on_server.url)
    on_server.app.store.on_commit.append(lambda: told.append(1))
    try:
        with transaction.atomic(using=connection.alias):
            with transaction.atomic(using=connection.alias):
                on_server.ship.options(connection=connection).enqueue_sync(1)
                transaction.set_rollback(True, using=connection.alias)
            assert told == []
        assert told == []
    finally:
        on_server.app.store.on_commit.pop()
        connection.close()


# What can not be meant is refused.


@pytest.mark.parametrize("name", [name for name in ON_POSTGRESQL if "pool" not in name])
def test_another_database_is_refused(on_server: Place, name: str) -> None:
    with (
        postgresql.own_database() as other,
        ON_POSTGRESQL[name](other) as client,
        pytest.raises(Refused, match="another database"),
    ):
        client.enqueue(on_server.ship, 1)


def test_a_schema_without_our_tables_is_another_database(on_server: Place) -> None:
    app = Benbi(on_server.url, schema="elsewhere")

    @app.task
    async def ship(order: int) -> None: ...

    app.publish_sync()
    with psycopg.connect(on_server.url) as connection:
        connection.execute("DROP SCHEMA elsewhere CASCADE")
        with pytest.raises(Refused, match="another database"):
            ship.options(connection=connection).enqueue_sync(1)
        # And the transaction goes on.
        connection.execute("SELECT 1")
    app.close_sync()


def test_autocommit_without_a_transaction_is_refused(on_server: Place, on_file: Place) -> None:
    def refused(place: Place, connection: Any, remedy: str) -> None:
        with pytest.raises(Refused, match=f"autocommit.*{remedy}"):
            place.ship.options(connection=connection).enqueue_sync(1)

    with psycopg.connect(on_server.url, autocommit=True) as connection:
        refused(on_server, connection, "BEGIN")
    for place, driver in ((on_server, "+psycopg"), (on_file, "")):
        engine = engine_for(place.url, driver).execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as one, Session(engine) as session:
            refused(place, one, "AUTOCOMMIT")
            refused(place, session, "AUTOCOMMIT")
        with closing(django_connection(place.url)) as django:
            refused(place, django, "atomic")
    assert on_server.app.jobs_sync(task="elsewhere") == []


async def test_autocommit_without_a_transaction_is_refused_in_a_loop(on_server: Place) -> None:
    async def refused(connection: Any, remedy: str) -> None:
        with pytest.raises(Refused, match=f"autocommit.*{remedy}"):
            await on_server.ship.options(connection=connection).enqueue(1)

    connect = psycopg.AsyncConnection.connect
    async with await connect(on_server.url, autocommit=True) as connection:
        await refused(connection, "BEGIN")
        async with connection.transaction():
            await on_server.ship.options(connection=connection).enqueue(1)
    plain: Any = await asyncpg.connect(on_server.url)
    await refused(plain, "BEGIN")
    async with plain.transaction():
        await on_server.ship.options(connection=plain).enqueue(1)
    await plain.close()
    for driver in ("psycopg", "asyncpg"):
        url = on_server.url.replace("postgresql", f"postgresql+{driver}")
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
        async with engine.connect() as sqlalchemys:
            await refused(sqlalchemys, "AUTOCOMMIT")
        await engine.dispose()


@pytest.mark.parametrize("name", [name for name in ON_POSTGRESQL if "async" in name])
def test_an_asynchronous_connection_is_refused_where_nothing_awaits(
    on_server: Place, name: str
) -> None:
    with (
        ON_POSTGRESQL[name](on_server.url) as client,
        pytest.raises(Refused, match=r"asynchronous.*await"),
    ):
        on_server.ship.options(connection=client.connection).enqueue_sync(1)


# What is not open again by being used.
CLOSED_FOR_GOOD = [name for name in ON_POSTGRESQL if not re.search("session|pool|django", name)]


@pytest.mark.parametrize("name", CLOSED_FOR_GOOD)
def test_a_closed_connection_is_refused(on_server: Place, name: str) -> None:
    with ON_POSTGRESQL[name](on_server.url) as client:
        client.close()
        with pytest.raises(Refused, match="closed"):
            client.enqueue(on_server.ship, 1)


def test_what_is_no_connection_is_refused(on_server: Place, on_file: Place) -> None:
    for place in (on_server, on_file):
        with pytest.raises(Refused, match="connection= takes"):
            place.ship.options(connection=object()).enqueue_sync(1)
    with engine_for(on_file.url).connect() as there, pytest.raises(Refused, match="asyncpg"):
        on_server.ship.options(connection=there).enqueue_sync(1)


# A caller who is canceled.


async def test_nothing_goes_on_when_the_caller_was_canceled(on_server: Place) -> None:
    """It waits for another transaction that has the same key; nothing is stored afterwards."""
    holder = await psycopg.AsyncConnection.connect(on_server.url)
    mine = await psycopg.AsyncConnection.connect(on_server.url)
    look = await psycopg.AsyncConnection.connect(on_server.url, autocommit=True)
    key = f"held {next(NUMBERS)}"
    await on_server.ship.options(connection=holder, key=key).enqueue(1)
    waiting = asyncio.create_task(on_server.ship.options(connection=mine, key=key).enqueue(1))
    pid = mine.info.backend_pid
    async with asyncio.timeout(SOON):
        while not await (
            await look.execute(
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", [pid]
            )
        ).fetchone():
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await mine.rollback()
    await holder.rollback()
    # The connection is as good as any.
    job = await on_server.ship.options(connection=mine, key=key).enqueue(1)
    await mine.commit()
    assert (await job.get()).state == "pending"
    for connection in (holder, mine, look):
        await connection.close()


# What else the caller's process has, and has not.

WITHOUT_GREENLET = """
import sqlite3, sys
sys.modules["greenlet"] = None
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from benbi import Benbi

app = Benbi(sys.argv[1])

@app.task
def ship(order: int) -> None: ...

app.publish_sync()
with sqlite3.connect(sys.argv[1]) as plain:
    ship.options(connection=plain).enqueue_sync(1)
with Session(create_engine(f"sqlite:///{sys.argv[1]}")) as session, session.begin():
    ship.options(connection=session).enqueue_sync(2)
print(len(app.jobs_sync()))
"""


def test_sqlalchemy_may_be_there_without_greenlet(tmp_path: Path) -> None:
    """From 2.1 on it does not bring it, and whoever has no AsyncSession does without."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GREENLET, str(tmp_path / "shop.db")],
        capture_output=True,
        text=True,
        timeout=SOON,
    )
    assert done.stdout == "2\n", done.stderr


# What it costs the caller's process.


def test_who_only_enqueues_in_transactions_of_his_own_holds_no_connection(on_server: Place) -> None:
    app = Benbi(on_server.url)

    @app.task(name="ship")
    async def ship(order: int) -> int:
        return order

    with psycopg.connect(on_server.url) as connection:
        held = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        before = connection.execute(held).fetchone()
        ship.options(connection=connection).enqueue_sync(1)
        connection.commit()
        # What others held may have ended meanwhile.
        assert connection.execute(held).fetchone() <= before
    app.close_sync()
