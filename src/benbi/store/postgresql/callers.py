"""A caller's own transaction, on the connection of whichever driver."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from benbi.errors import Refused
from benbi.store.database import Caller, Row, Wait
from benbi.store.postgresql.session import adapted, in_schema
from benbi.store.statements import Statement, load


@cache
def statements_for_callers(schema: str) -> dict[str, Statement]:
    """The named statements for a caller's transaction: it locks no job that others have to move."""
    found = load("postgresql", placed=partial(in_schema, schema=schema))
    return found | {"upstream_job": found["upstream_job_unlocked"]}


class Own(Protocol):
    """A caller's connection, as its driver has it."""

    @property
    def closed(self) -> bool: ...
    @property
    def in_transaction(self) -> bool: ...
    def fetch(self, statement: Statement, values: Sequence[Any]) -> list[Row]: ...


def own_connection(caller: Caller) -> Own:
    """Refused for a driver that is not known."""
    found = caller.driver
    if isinstance(found, psycopg.Connection | psycopg.AsyncConnection):
        return _Psycopg(found, caller.wait)
    asyncpg = sys.modules.get("asyncpg")
    if asyncpg is not None and isinstance(
        found, (asyncpg.Connection, asyncpg.pool.PoolConnectionProxy)
    ):
        return _Asyncpg(found, caller.wait)
    raise Refused(
        "connection= takes a connection of psycopg or asyncpg here, or one of SQLAlchemy's or "
        f"Django's that has one of these as its driver, not {found!r}"
    )


class _Psycopg:
    """psycopg, synchronous and asynchronous."""

    def __init__(self, connection: Any, wait: Wait) -> None:
        self._connection = connection
        self._wait = wait
        waits = isinstance(connection, psycopg.AsyncConnection)
        self._cursor = psycopg.AsyncRawCursor if waits else psycopg.RawCursor

    @property
    def closed(self) -> bool:
        return self._connection.closed

    @property
    def in_transaction(self) -> bool:
        return self._connection.info.transaction_status != TransactionStatus.IDLE

    def fetch(self, statement: Statement, values: Sequence[Any]) -> list[Row]:
        # A caller's connection may make something else of its rows and values.
        cursor: Any = self._cursor(self._connection, row_factory=tuple_row)
        adapted(cursor.adapters)
        # The next transaction of a pooled connection may meet another one of the server's.
        self._wait(cursor.execute(statement.encoded, values, prepare=False))
        return self._wait(cursor.fetchall()) if statement.returns else []


class _Asyncpg:
    """asyncpg, which takes the statements as they are."""

    def __init__(self, connection: Any, wait: Wait) -> None:
        self._connection = connection
        self._wait = wait

    @property
    def closed(self) -> bool:
        return self._connection.is_closed()

    @property
    def in_transaction(self) -> bool:
        return self._connection.is_in_transaction()

    def fetch(self, statement: Statement, values: Sequence[Any]) -> list[Row]:
        rows = self._wait(self._connection.fetch(statement.sql, *values))
        return [
            tuple(value.bytes if isinstance(value, UUID) else value for value in row)
            for row in rows
        ]


class CallersTransaction:
    """Named statements in a caller's transaction, one after the other."""

    def __init__(self, connection: Own, schema: str, now: int) -> None:
        self._connection = connection
        self._statements = statements_for_callers(schema)
        self.now = now

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        found = self._statements[statement]
        if found.timed:
            values["now"] = self.now
        return self._connection.fetch(found, found.values(values))

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        return [self._connection.fetch(self._statements[statement], row) for row in values]

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        columns = [list(column) for column in zip(*values, strict=True)]
        if columns:
            self._connection.fetch(self._statements[statement], columns)

    def insert(
        self, statement: str, jobs: Sequence[tuple[bytes, str]], /, **values: Any
    ) -> Sequence[int | None]:
        ids = [id for id, _ in jobs]
        values |= {"ids": ids, "arguments": [body for _, body in jobs]}
        made = {id: n for n, id in self.rows(statement, **values)}
        return [made.get(id) for id in ids]

    def script(self, sql: str) -> None:
        raise AssertionError("nothing is migrated in a caller's transaction")
