"""A PostgreSQL to test on, which ``make services`` starts where none listens.

Each process of tests has a database of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from benbi.store.statements import parse
from scripts import services
from scripts.services import postgresql_url
from tests.support import shadow

SCRIPT = Path(__file__).with_name("shadow_postgresql.sql").read_text("utf-8")
_numbers = count(1)


@cache
def database_url() -> str:
    """A database for all tests of this process, and gone with it. Skips without a server."""
    name = f"benbi_test_{os.getpid()}"
    _make(name)
    atexit.register(_drop, name)
    return url_of(name)


@contextmanager
def own_database(server: str | None = None, options: str = "") -> Iterator[str]:
    """A database for one test. ``server``: the URL of another server than the usual one."""
    name = f"benbi_test_{os.getpid()}_{next(_numbers)}"
    _make(name, server, options)
    try:
        yield url_of(name, server)
    finally:
        _drop(name, server)


@contextmanager
def own_server(**settings: str) -> Iterator[str]:
    """A server for one test, with its settings, from the programs of this machine."""
    place = Path(tempfile.mkdtemp(prefix="benbi-postgresql-"))
    place.chmod(0o755)
    try:
        yield services.run_server(place / "data", settings)
    finally:
        services.end_server(place / "data")
        shutil.rmtree(place)


@contextmanager
def own_standby() -> Iterator[str]:
    """A server in recovery, which waits for more of its log for ever: it can be read."""
    place = Path(tempfile.mkdtemp(prefix="benbi-postgresql-"))
    place.chmod(0o755)
    data = place / "data"
    try:
        services.run_server(data, {})
        services.end_server(data)
        (data / "standby.signal").touch()
        yield services.run_server(data, {})
    finally:
        services.end_server(data)
        shutil.rmtree(place)


def url_of(name: str, server: str | None = None) -> str:
    """The URL of a database of this server."""
    return urlsplit(server or postgresql_url())._replace(path=f"/{name}").geturl()


def listeners(look: Any, schema: str = "benbi") -> list[tuple[Any, ...]]:
    """Who listens in the database of a connection whose ``execute`` is ``look``, by pid."""
    return look(
        "SELECT pid FROM pg_stat_activity WHERE query = %s AND datname = current_database()",
        [f"LISTEN {schema}"],
    ).fetchall()


def looked(tx: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement that has no name, in a transaction of the store's."""
    statement = parse(f"-- name: look\n{sql}", "$")["look"]
    return tx._pipeline.rows(tx._pipeline.send(statement))


def _make(name: str, server: str | None = None, options: str = "") -> None:
    url = server or postgresql_url()
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=3) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name} {options}")
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL to test on (make services): {error}")


def _drop(name: str, server: str | None = None) -> None:
    with psycopg.connect(server or postgresql_url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class Witnessed:
    """One migrated schema, its witness, and a connection to look with."""

    def __init__(self, url: str, schema: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.schema = schema

    def clear(self) -> None:
        """Takes away what an earlier test left."""
        found = self.connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            " AND tablename NOT IN ('migrations', 'artifact_prefix', 'shadow_moves')",
            [self.schema],
        ).fetchall()
        if found:
            self.connection.execute(
                ";".join(f"DELETE FROM {self.schema}.{table}" for (table,) in found)
            )

    def watch(self) -> None:
        """Puts the triggers in."""
        self.connection.execute(SCRIPT.format(schema=self.schema))
        self.connection.execute(f"DELETE FROM {self.schema}.shadow_moves")
        with self.connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self.schema}.shadow_moves VALUES (%s, %s)", shadow.allowed()
            )

    def disagreements(self) -> list[str]:
        """As ``shadow.disagreements``."""
        look = self.connection.execute
        changes = look(shadow.WITNESSED.replace("FROM ", f"FROM {self.schema}.")).fetchall()
        events = look(f"SELECT job_n, seq, type FROM {self.schema}.events ORDER BY job_n, seq")
        last = look(f"SELECT n, last_seq FROM {self.schema}.jobs")
        return shadow.judge(changes, events.fetchall(), dict(last.fetchall()))
