"""One connection, made anew where it was lost: named statements in transactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, Protocol, overload

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import TextLoader

from benbi.errors import StoreError
from benbi.store.database import Row
from benbi.store.postgresql.pipeline import Answer, Pipeline
from benbi.store.postgresql.refusals import translated
from benbi.store.statements import Statement, load

# For a lock; and beyond a statement's own limit, until the connection is given up.
LOCK_SECONDS = 5.0
GIVE_UP = 5.0
_NAME = re.compile(r"\bbenbi\b")
_NOW = re.compile(r"(?<!:):now\b")


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
    """The named statements, with their tables in this schema, for transactions of ours: they have
    the time where they run, and nobody waits for it to pass it back."""
    return load("postgresql", placed=partial(_timed, schema=schema))


def in_schema(sql: str, schema: str) -> str:
    """``benbi`` as a name in SQL, replaced by that of the schema."""
    return _NAME.sub(schema, sql)


def _timed(sql: str, schema: str) -> str:
    return in_schema(_NOW.sub("current_setting('benbi.now')::bigint", sql), schema)


class PostgresTransaction:
    """Named statements in a transaction of ours: a pipeline."""

    def __init__(
        self,
        pipeline: Pipeline,
        named: Mapping[str, Statement],
        limited: Answer,
        hear: Callable[[int], None] | None,
        script: Callable[[str], None],
    ) -> None:
        self._pipeline = pipeline
        self._statements = named
        self._limited = limited
        self._hear = hear
        self._now: int | None = None
        self._run_script = script

    @property
    def now(self) -> int:
        if self._now is None:
            ((now, *_),) = self._pipeline.rows(self._limited)
            self._now = int(now)
            if self._hear is not None:
                self._hear(self._now)
        return self._now

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        found = self._statements[statement]
        answer = self._pipeline.send(found, found.values(values))
        return self._pipeline.rows(answer) if found.returns else []

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        found = self._statements[statement]
        answers = [self._pipeline.send(found, row) for row in values]
        return [self._pipeline.rows(answer) for answer in answers]

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        columns = [list(column) for column in zip(*values, strict=True)]
        if columns:
            self._pipeline.send(self._statements[statement], columns)

    def insert(
        self, statement: str, jobs: Sequence[tuple[bytes, str]], /, **values: Any
    ) -> Sequence[int | None]:
        ids = [id for id, _ in jobs]
        values |= {"ids": ids, "arguments": [body for _, body in jobs]}
        found = self._statements[statement]
        answer = self._pipeline.send(found, found.values(values))
        return _Numbers(ids, lambda: self._pipeline.rows(answer))

    def script(self, sql: str) -> None:
        self._run_script(sql)


class _Numbers(Sequence[int | None]):
    """The numbers of new jobs: asked for when somebody looks."""

    def __init__(self, ids: Sequence[bytes], ask: Callable[[], list[Row]]) -> None:
        self._ids = ids
        self._ask = ask
        self._answer: dict[bytes, int] | None = None

    @property
    def _found(self) -> dict[bytes, int]:
        # No cached_property: in Python 3.11 all threads that ask wait for the one that does.
        if self._answer is None:
            self._answer = {id: n for n, id in self._ask()}
        return self._answer

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> int | None: ...
    @overload
    def __getitem__(self, place: slice) -> list[int | None]: ...
    def __getitem__(self, place: int | slice) -> int | list[int | None] | None:
        if isinstance(place, slice):
            return [self._found.get(id) for id in self._ids[place]]
        return self._found.get(self._ids[place])


class Server(Protocol):
    """What sessions ask of their database."""

    url: str
    schema: str
    durability: str
    # Whether a test says what time it is; else the server does.
    given_clock: bool
    now: Callable[[], int]

    def hear(self, now: int) -> None: ...
    def make(self) -> psycopg.Connection[Any]: ...


class PostgresSession:
    """One connection, used by one thread at a time. ``patience``: seconds for each statement."""

    def __init__(self, server: Server, patience: float) -> None:
        self._server = server
        self._statements = statements(server.schema)
        self._patience = patience
        self._limits = [_milliseconds(patience), _milliseconds(min(patience, LOCK_SECONDS))]
        self._commits = "on" if server.durability == "full" else "off"
        self._connect()

    def _connect(self) -> None:
        self._connection = self._server.make()
        self._pipeline = Pipeline(self._connection, self._patience + GIVE_UP)

    @contextmanager
    def write(self) -> Generator[PostgresTransaction]:
        with self._transaction("begin_write", "limits_write", self._commits) as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Generator[PostgresTransaction]:
        with self._transaction("begin_read", "limits_read") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, begin: str, limits: str, *values: str) -> Generator[PostgresTransaction]:
        named, server = self._statements, self._server
        with translated(server.url):
            if self._connection.closed:
                self._connect()
            pipeline = self._pipeline
            try:
                pipeline.begin()
                pipeline.send(named[begin])
                time = str(server.now()) if server.given_clock else None
                limited = pipeline.send(named[limits], [time, *self._limits, *values])
                # A writer may have waited for a lock since.
                hear = server.hear if limits == "limits_read" else None
                yield PostgresTransaction(pipeline, named, limited, hear, self._run_script)
                committed = self._committed()
            except BaseException:
                self._undo()
                raise
            if not committed:
                raise StoreError(f"{server.url}: the transaction was rolled back by the server")

    def _committed(self) -> bool:
        # The server answers a COMMIT of what has failed with ROLLBACK.
        answer = self._pipeline.send(self._statements["commit"])
        self._pipeline.end()
        return answer.result is not None and answer.result.command_status == b"COMMIT"

    def _undo(self) -> None:
        try:
            if self._pipeline.open:
                self._pipeline.give_up()
            self._pipeline.begin()
            self._pipeline.send(self._statements["rollback"])
            self._pipeline.end()
        except BaseException:
            # Whatever it has left: the server forgets a transaction with its connection.
            self.close()

    def _run_script(self, sql: str) -> None:
        # A pipeline takes no text of many statements.
        self._pipeline.end()
        self._connection.execute(in_schema(sql, self._server.schema).encode())
        self._pipeline.begin()

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._connection.close()


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))
