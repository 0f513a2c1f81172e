"""The clients with which people have their own connection, each with the same few verbs.

An asynchronous one runs in a loop of its own, one call after the other: one test does for all.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote, urlsplit

import asyncpg
import django
import psycopg
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from benbi import JobHandle, Task


class Client:
    """``connection`` is what options(connection=…) takes; ``execute`` runs SQL on it."""

    def __init__(self, connection: Any, execute: Callable[[str], Any]) -> None:
        self.connection = connection
        self.execute = execute

    def enqueue(self, task: Task[Any, Any], *args: Any, **options: Any) -> JobHandle[Any]:
        return task.options(connection=self.connection, **options).enqueue_sync(*args)

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class AsyncClient(Client):
    """The same for a connection that lives in a loop."""

    def __init__(
        self, connection: Any, execute: Callable[[str], Any], runner: asyncio.Runner
    ) -> None:
        super().__init__(connection, lambda sql: runner.run(execute(sql)))
        self.run = runner.run

    def enqueue(self, task: Task[Any, Any], *args: Any, **options: Any) -> JobHandle[Any]:
        return self.run(task.options(connection=self.connection, **options).enqueue(*args))

    def commit(self) -> None:
        self.run(self.connection.commit())

    def rollback(self) -> None:
        self.run(self.connection.rollback())

    def close(self) -> None:
        self.run(self.connection.close())


class AsyncpgClient(AsyncClient):
    """asyncpg knows transactions as blocks, or as SQL."""

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


class DjangoClient(Client):
    """Django, whose transactions are blocks."""

    def __init__(self, connection: Any) -> None:
        def execute(sql: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute(sql)

        super().__init__(connection, execute)
        self._block = transaction.atomic(using=connection.alias)
        self._block.__enter__()

    def commit(self) -> None:
        self._block.__exit__(None, None, None)

    def rollback(self) -> None:
        transaction.set_rollback(True, using=self.connection.alias)
        self._block.__exit__(None, None, None)


Open = Generator[Client]


@contextmanager
def _psycopg(url: str) -> Open:
    with closing(psycopg.connect(url)) as connection:
        yield Client(connection, connection.execute)


@contextmanager
def _psycopg_with_dicts(url: str) -> Open:
    with closing(psycopg.connect(url, row_factory=psycopg.rows.dict_row)) as connection:
        yield Client(connection, connection.execute)


@contextmanager
def _psycopg_async(url: str) -> Open:
    with asyncio.Runner() as runner:
        connection = runner.run(psycopg.AsyncConnection.connect(url))
        yield AsyncClient(connection, connection.execute, runner)
        runner.run(connection.close())


@contextmanager
def _asyncpg(url: str) -> Open:
    with asyncio.Runner() as runner:
        connection: Any = runner.run(asyncpg.connect(url))
        # As many applications have it: json is no text for them.
        runner.run(
            connection.set_type_codec(
                "json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
            )
        )
        runner.run(connection.execute("BEGIN"))
        yield AsyncpgClient(connection, connection.execute, runner)
        runner.run(connection.close())


@contextmanager
def _asyncpg_pool(url: str) -> Open:
    with asyncio.Runner() as runner:
        pool: Any = runner.run(_a_pool(url))
        connection: Any = runner.run(_acquired(pool))
        runner.run(connection.execute("BEGIN"))
        yield AsyncpgClient(connection, connection.execute, runner)
        runner.run(pool.release(connection))
        runner.run(pool.close())


async def _a_pool(url: str) -> Any:
    return await asyncpg.create_pool(url, min_size=1, max_size=1)


async def _acquired(pool: Any) -> Any:
    return await pool.acquire()


def engine_for(url: str, driver: str = "") -> sqlalchemy.Engine:
    """An engine of SQLAlchemy's for a URL of ours."""
    scheme, rest = url.split("://", 1)
    return sqlalchemy.create_engine(f"{scheme}{driver}://{rest}", poolclass=NullPool)


@contextmanager
def _sqlalchemy(url: str) -> Open:
    with engine_for(url, driver_of(url)).connect() as connection:
        yield Client(connection, lambda sql: connection.execute(sqlalchemy.text(sql)))


@contextmanager
def _sqlalchemy_session(url: str) -> Open:
    with Session(engine_for(url, driver_of(url))) as session:
        yield Client(session, lambda sql: session.execute(sqlalchemy.text(sql)))


@contextmanager
def _sqlalchemy_scoped(url: str) -> Open:
    session = scoped_session(sessionmaker(engine_for(url, driver_of(url))))
    yield Client(session, lambda sql: session.execute(sqlalchemy.text(sql)))
    session.remove()


def driver_of(url: str) -> str:
    return "+psycopg" if url.startswith("postgresql") else ""


@contextmanager
def _sqlalchemy_async(url: str, driver: str, session: bool) -> Open:
    scheme, rest = url.split("://", 1)
    engine = create_async_engine(f"{scheme}+{driver}://{rest}", poolclass=NullPool)
    with asyncio.Runner() as runner:
        connection: AsyncSession | AsyncConnection = (
            AsyncSession(engine) if session else runner.run(_started(engine.connect()))
        )
        yield AsyncClient(connection, lambda sql: connection.execute(sqlalchemy.text(sql)), runner)
        runner.run(connection.close())


@contextmanager
def _sqlalchemy_async_scoped(url: str) -> Open:
    request = ContextVar[str]("request", default="that of any other thread")
    engine = create_async_engine(
        url.replace("postgresql", "postgresql+psycopg", 1), poolclass=NullPool
    )
    session = async_scoped_session(async_sessionmaker(engine), request.get)

    async def begin() -> None:
        request.set("this one")

    with asyncio.Runner() as runner:
        runner.run(begin())
        yield AsyncClient(session, lambda sql: session.execute(sqlalchemy.text(sql)), runner)
        runner.run(session.remove())


async def _started(connection: AsyncConnection) -> AsyncConnection:
    return await connection.start()


@contextmanager
def _django(url: str) -> Open:
    connection = django_connection(url)
    try:
        yield DjangoClient(connection)
    finally:
        connection.close()


def django_connection(url: str) -> Any:
    """The connection of an alias that is made for the URL."""
    if not settings.configured:
        settings.configure(DATABASES={})
        django.setup()
    alias = url
    if alias not in connections.settings:
        parts = urlsplit(url)
        engine = "postgresql" if parts.scheme == "postgresql" else "sqlite3"
        connections.settings[alias] = connections.configure_settings(
            {
                "default": {},
                alias: {
                    "ENGINE": f"django.db.backends.{engine}",
                    "NAME": parts.path[1:],
                    "USER": unquote(parts.username or ""),
                    "PASSWORD": unquote(parts.password or ""),
                    "HOST": parts.hostname or "",
                    "PORT": parts.port or "",
                },
            }
        )[alias]
    return connections[alias]


ON_POSTGRESQL = {
    "psycopg": _psycopg,
    "psycopg, rows as dicts": _psycopg_with_dicts,
    "psycopg async": _psycopg_async,
    "asyncpg": _asyncpg,
    "asyncpg pool": _asyncpg_pool,
    "sqlalchemy connection": _sqlalchemy,
    "sqlalchemy session": _sqlalchemy_session,
    "sqlalchemy scoped session": _sqlalchemy_scoped,
    "sqlalchemy async connection": lambda url: _sqlalchemy_async(url, "psycopg", False),
    "sqlalchemy async session": lambda url: _sqlalchemy_async(url, "psycopg", True),
    "sqlalchemy async scoped session": _sqlalchemy_async_scoped,
    "sqlalchemy async connection, asyncpg": lambda url: _sqlalchemy_async(url, "asyncpg", False),
    "sqlalchemy async session, asyncpg": lambda url: _sqlalchemy_async(url, "asyncpg", True),
    "django": _django,
}
ON_SQLITE = {
    "sqlalchemy connection": _sqlalchemy,
    "sqlalchemy session": _sqlalchemy_session,
    "django": _django,
}
