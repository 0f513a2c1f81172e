"""One connection, made anew where it was lost: named statements in transactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Protocol

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from benbi.store.database import Row
from benbi.store.postgresql.refusals import translated
from benbi.store.statements import Statement, load

_NAME = re.compile(r"\bbenbi\b")


class _UuidLoader(Loader):
    """An id as the store has it everywhere: sixteen bytes."""

    def load(self, data: Any) -> bytes:
        return bytes.fromhex(bytes(data).decode().replace("-", ""))


def adapted(adapters: AdaptersMap) -> None:
    """Integers travel as bigint whatever their size, so that a statement has one plan; json comes
    back as the text that it is."""
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_loader("json", TextLoader)
    adapters.register_loader("uuid", _UuidLoader)


@cache
def statements(schema: str) -> dict[str, Statement]:
    """The named statements, with their tables in this schema."""
    return load("postgresql", placed=partial(in_schema, schema=schema))


@cache
def statements_for_callers(schema: str) -> dict[str, Statement]:
    """The same for a caller's transaction: it locks no job that others have to move."""
    found = statements(schema)
    return found | {"upstream_job": found["upstream_job_unlocked"]}


def in_schema(sql: str, schema: str) -> str:
    """``benbi`` as a name in SQL, replaced by that of the schema."""
    return _NAME.sub(schema, sql)


class PostgresTransaction:
    """Named statements on one connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: str,
        now: int,
        *,
        borrowed: bool = False,
    ) -> None:
        self._connection = connection
        self._borrowed = borrowed
        self._cursor = self._make_cursor()
        self._schema = schema
        self._statements = statements_for_callers(schema) if borrowed else statements(schema)
        self.now = now

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        found = self._statements[statement]
        done = self._cursor.execute(found.sql.encode(), found.values(values))
        return done.fetchall() if done.description else []

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        sql = self._statements[statement].sql.encode()
        cursors: list[psycopg.RawCursor[Any]] = []
        with self._connection.pipeline():
            for row in values:
                cursor = self._make_cursor()
                cursors.append(cursor.execute(sql, tuple(row)))
        return [cursor.fetchall() for cursor in cursors]

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        columns = [list(column) for column in zip(*values, strict=True)]
        if columns:
            self._cursor.execute(self._statements[statement].sql.encode(), columns)

    def insert(self, statement: str, ids: Sequence[bytes], /, **values: Any) -> list[int | None]:
        found = {id: n for n, id in self.rows(statement, ids=list(ids), **values)}
        return [found.get(id) for id in ids]

    def _make_cursor(self) -> psycopg.RawCursor[Any]:
        cursor = psycopg.RawCursor(self._connection)
        if self._borrowed:
            adapted(cursor.adapters)
        return cursor

    def script(self, sql: str) -> None:
        self._cursor.execute(in_schema(sql, self._schema).encode())


class Server(Protocol):
    """What sessions ask of their database."""

    url: str
    schema: str
    durability: str
    # Whether a test says what time it is; else the server does.
    given_clock: bool
    now: Callable[[], int]

    def make(self) -> psycopg.Connection[Any]: ...


class PostgresSession:
    """One connection, used by one thread at a time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: psycopg.Connection[Any] | None = server.make()

    @contextmanager
    def write(self) -> Generator[PostgresTransaction]:
        with self._transaction(f"begin_write_{self._server.durability}") as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Generator[PostgresTransaction]:
        with self._transaction("begin_read") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, begin: str) -> Generator[PostgresTransaction]:
        server = self._server
        with translated(server.url):
            if self._connection is None or self._connection.closed:
                self._connection = server.make()
            connection = self._connection
            try:
                text = statements(server.schema)[begin].sql.encode()
                now = _last_value(connection.execute(text))
                if server.given_clock:
                    now = server.now()
                yield PostgresTransaction(connection, server.schema, now)
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise

    def _undo(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            # Whatever it has left: the server forgets a transaction with its connection.
            with suppress(psycopg.Error):
                connection.close()

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


def _last_value(cursor: psycopg.Cursor[Any]) -> int:
    while cursor.nextset():
        pass
    ((value,),) = cursor.fetchall()
    return value
