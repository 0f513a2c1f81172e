"""The seam between the store and a database: everything a dialect must bring.

A ``Session`` is one connection, used by one thread at a time. The store asks a
``Database`` for sessions and runs named statements in transactions; it knows no driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

Row = tuple[Any, ...]
# What was asked for, once it is there: see benbi.callers.turns.
Wait = Callable[[Any], Any]
# Seconds for each statement of a session that nobody waits for in a hurry.
PATIENCE = 15.0


class Transaction(Protocol):
    """Named statements in one transaction."""

    @property
    def now(self) -> int:
        """Microseconds UTC, the same throughout."""
        ...

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        """Runs a statement once and returns all its rows."""
        ...

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        """Runs a statement once for each tuple of values; the rows of each, in that order."""
        ...

    def insert(
        self, statement: str, jobs: Sequence[tuple[bytes, str]], /, **values: Any
    ) -> Sequence[int | None]:
        """Stores jobs (id, arguments) that are alike in all else, each with its first event, in
        one statement: the number of each, None where there is one with its id or key already.

        A server is not waited for until somebody looks at the numbers."""
        ...

    def script(self, sql: str) -> None:
        """Runs the statements of a migration."""
        ...

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Runs a statement that returns nothing once for each tuple of values."""
        ...


class Session(Protocol):
    """One connection."""

    def write(self) -> AbstractContextManager[Transaction]:
        """A write transaction: committed at the end, rolled back by an exception."""
        ...

    def read(self) -> AbstractContextManager[Transaction]:
        """A consistent view for reading."""
        ...

    def close(self) -> None: ...


class Caller(Protocol):
    """Somebody's own connection, by the client that he has it with."""

    @property
    def driver(self) -> Any:
        """The driver's own connection."""
        ...

    @property
    def wait(self) -> Wait:
        """Takes what the connection answers: an asynchronous one, something to await."""
        ...

    @property
    def remedy(self) -> str:
        """What to do where there is no transaction."""
        ...

    def begin(self, sql: str) -> Sequence[Row] | None:
        """Runs a first statement by way of the client, where he has to know that a transaction
        begins; None where he need not, and it was not run."""
        ...

    def after_commit(self, hint: Callable[[], None]) -> None:
        """Calls ``hint`` after the commit, where the client can tell of it."""
        ...


class Database(Protocol):
    """Where jobs are kept."""

    dialect: str
    # For people and logs: without a password.
    url: str
    # Where LISTEN connects to, where that is elsewhere; as ``url``.
    listen_url: str | None
    # For another process that is to open the same database.
    address: str
    # True where all sessions are one connection: a reader must not wait for the writer's thread.
    one_connection: bool
    # How many sessions of one store may read at the same time.
    readers: int
    # The file, where it is one of this machine.
    path: Path | None
    # The time as this process has it, in microseconds.
    now: Callable[[], int]

    def connect(self, patience: float = PATIENCE) -> Session:
        """A new session. Raises StoreError where the database can not be opened.

        ``patience``: seconds that a server gets for each statement."""
        ...

    def borrow(self, caller: Caller) -> Transaction:
        """The caller's own transaction, in the caller's thread: nothing is committed or set on it.
        Refused where the job would not be stored with the rest, or not at all."""
        ...

    def check(self) -> Sequence[Mapping[str, str]]:
        """What was found: ``level`` (ok, warning, error) and ``text``. Changes nothing."""
        ...

    def close(self) -> None:
        """Gives up what outlives sessions."""
        ...
