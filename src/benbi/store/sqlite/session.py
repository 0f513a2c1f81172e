"""One connection: named statements in transactions, writes in a turn."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from benbi.store.database import Row
from benbi.store.sqlite.refusals import translate, translated
from benbi.store.statements import load


class Connection(sqlite3.Connection):
    """A connection that can be watched for."""


# Files that were open in the parent when this process was forked (sqlite.org/howtocorrupt.html,
# 2.6): the library's own record of locks in this process is wrong for them, for ever.
carried_over_a_fork: set[str] = set()
opened: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()


def _after_fork() -> None:
    carried_over_a_fork.update(opened.values())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class SqliteTransaction:
    """Named statements on one connection."""

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self._cursor = connection.cursor()
        # A caller's connection may make something else of its rows.
        self._cursor.row_factory = None
        self._statements = load("sqlite")
        self.now = now

    def file(self) -> str:
        """The file that the connection is on."""
        databases = self._cursor.execute("PRAGMA database_list").fetchall()
        (file,) = [row[2] for row in databases if row[1] == "main"]
        return file

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        found = self._statements[statement]
        if found.timed:
            values["now"] = self.now
        return self._cursor.execute(found.sql, found.values(values)).fetchall()

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        sql, execute = self._statements[statement].sql, self._cursor.execute
        return [execute(sql, row).fetchall() for row in values]

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        self._cursor.executemany(self._statements[statement].sql, values)

    def insert(
        self, statement: str, jobs: Sequence[tuple[bytes, str]], /, **values: Any
    ) -> Sequence[int | None]:
        found = self._statements[statement]
        ids = [id for id, _ in jobs]
        values |= {"ids": b"".join(ids), "places": _places(len(ids)), "now": self.now}
        done = self._cursor.execute(found.sql, found.values(values))
        if not done.rowcount:
            return [None] * len(ids)
        # Writers are serial, and n only grows: rows that one statement inserts follow each other.
        first = (done.lastrowid or 0) - done.rowcount + 1
        numbers: Sequence[int | None] = range(first, first + len(ids))
        if done.rowcount < len(ids):
            made: dict[bytes, int] = dict(self.rows("newcomers", first=first))
            numbers = [made.get(id) for id in ids]
        self.rows("created", first=first)
        given = zip(numbers, jobs, strict=True)
        self.many(
            "arguments", [(n, body) for n, (_, body) in given if n is not None and body != "{}"]
        )
        return numbers

    def script(self, sql: str) -> None:
        # Not executescript: that would commit first.
        part = ""
        for line in sql.splitlines(keepends=True):
            part += line
            if sqlite3.complete_statement(part):
                self._cursor.execute(part)
                part = ""


@lru_cache(maxsize=64)
def _places(count: int) -> str:
    return f"[{','.join(map(str, range(count)))}]"


class Turns(Protocol):
    """What sessions ask of their database."""

    url: str
    one_connection: bool

    def now(self) -> int: ...
    def turn(self) -> AbstractContextManager[Any]: ...
    def reading(self) -> AbstractContextManager[Any]: ...


class _Write:
    """A write transaction in a turn. A class, not a generator: it is entered for every commit."""

    __slots__ = ("_connection", "_database", "_turn")

    def __init__(self, database: Turns, connection: sqlite3.Connection) -> None:
        self._database = database
        self._connection = connection
        self._turn = database.turn()

    def __enter__(self) -> SqliteTransaction:
        self._turn.__enter__()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            return SqliteTransaction(self._connection, self._database.now())
        except sqlite3.Error as error:
            self._turn.__exit__(None, None, None)
            raise translate(self._database.url, error) from error
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._turn.__exit__(None, None, None)
            raise

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        connection = self._connection
        try:
            if error is None:
                connection.execute("COMMIT")
            elif isinstance(error, sqlite3.Error):
                raise error
        except sqlite3.Error as failure:
            meant = translate(self._database.url, failure)
            raise meant from None if meant is failure else failure
        finally:
            try:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            finally:
                self._turn.__exit__(None, None, None)


class SqliteSession:
    """One connection, used by one thread at a time."""

    def __init__(self, database: Turns, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    def write(self) -> _Write:
        return _Write(self._database, self._connection)

    @contextmanager
    def read(self) -> Generator[SqliteTransaction]:
        connection, database = self._connection, self._database
        with database.reading(), translated(database.url):
            connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection, database.now())
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")

    def data_version(self) -> int:
        """Changes whenever another connection commits."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return version

    def pragma(self, text: str) -> list[Row]:
        """The rows of one PRAGMA."""
        return self._connection.execute(f"PRAGMA {text}").fetchall()

    def close(self) -> None:
        if not self._database.one_connection:
            opened.pop(self._connection, None)
            # The last connection checkpoints while it closes: that is a turn as well.
            with self._database.turn():
                self._connection.close()

    def disconnect(self) -> None:
        """Closes the connection whoever shares it."""
        opened.pop(self._connection, None)
        self._connection.close()
