"""One file, or ``:memory:``: how it is opened, locked and checked."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from benbi.errors import ConfigurationError, Refused, StoreError
from benbi.store.clock import Clock
from benbi.store.database import PATIENCE, Caller
from benbi.store.sqlite.refusals import translated
from benbi.store.sqlite.session import (
    Connection,
    SqliteSession,
    SqliteTransaction,
    carried_over_a_fork,
    opened,
)
from benbi.store.statements import load
from benbi.store.turnstile import Turnstile, turnstile_for

log = logging.getLogger("benbi.store")

OLDEST = (3, 37, 0)  # STRICT tables
CHECKPOINT_PAGES = 1000
LONGEST_LOG_BYTES = 64 * 1024 * 1024
LOW_SPACE_BYTES = 256 * 1024 * 1024
# Writers that do not know the turnstile (an inspector, the user's own connection).
FOREIGN_WRITER_SECONDS = 5.0


class SqliteDatabase:
    """One file, or ``:memory:`` (one connection for all, one process).

    ``durability``: "full" makes each commit durable before it returns; "normal" may lose the
    last commits when the machine (not the process) dies.
    """

    dialect = "sqlite"
    readers = 32
    # A file tells of its changes itself.
    listen_url: str | None = None

    def __init__(
        self, path: str, *, durability: str = "full", clock: Callable[[], int] | None = None
    ) -> None:
        if durability not in ("full", "normal"):
            raise ConfigurationError(f'durability is "full" or "normal", not {durability!r}')
        if sqlite3.sqlite_version_info < OLDEST:
            raise ConfigurationError(
                f"SQLite {sqlite3.sqlite_version} is too old: benbi needs "
                f"{'.'.join(map(str, OLDEST))}; use a newer Python build"
            )
        self.path = None if path == ":memory:" else _resolve(path)
        self.one_connection = self.path is None
        self.url = "sqlite://" if self.path is None else f"sqlite:///{self.path}"
        self.address = self.url
        self._durability = durability
        # A clock that is given moves as its owner says.
        self.now = Clock() if clock is None else Clock(clock, ticks=lambda: 0)
        self._turnstile: Turnstile | None = None
        self._memory: SqliteSession | None = None
        self._memory_lock = threading.RLock()

    def turn(self) -> AbstractContextManager[Any]:
        """The right to write, one holder at a time among all processes."""
        if self.path is None:
            return self._memory_lock
        if self._turnstile is None:
            self._turnstile = turnstile_for(self.path)
        return self._turnstile.turn(timeout=None)

    def reading(self) -> AbstractContextManager[Any]:
        return self._memory_lock if self.path is None else _NOTHING

    def connect(self, patience: float = PATIENCE) -> SqliteSession:
        """A new session; for ``:memory:`` always the same one. What it waits for is a turn."""
        with translated(self.url):
            if self.path is not None:
                return SqliteSession(self, self._make(str(self.path)))
            with self._memory_lock:
                if self._memory is None:
                    self._memory = SqliteSession(self, self._make(":memory:"))
                return self._memory

    def _make(self, path: str) -> Connection:
        if path in carried_over_a_fork:
            raise StoreError(
                f"this process was forked while {self.url} was open. SQLite would believe in locks "
                "that only the parent has, and commits could be lost: close the app before the "
                "fork (app.close_sync()), or make the child by spawn"
            )
        if self.path is not None and not self.path.parent.is_dir():
            raise ConfigurationError(
                f"the folder {self.path.parent} does not exist; make it, or choose another "
                "place with Benbi(url) or BENBI_URL"
            )
        connection = sqlite3.connect(
            path,
            factory=Connection,
            isolation_level=None,
            check_same_thread=False,
            timeout=FOREIGN_WRITER_SECONDS,
            cached_statements=256,
        )
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        opened[connection] = path
        return connection

    def _configure(self, connection: sqlite3.Connection) -> None:
        if self.path is not None:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                with self.turn():
                    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    raise StoreError(
                        f"{self.url} can not use write-ahead logging (mode {mode}): network file "
                        "systems do not support it; put the file on a local disk"
                    )
            # Within a commit, and so within a turn: checkpoints of ours never meet. The log's file
            # is used again from its beginning, because a commit that makes a file longer costs
            # twice the time of one that does not; it is cut only where a long reader let it grow.
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {LONGEST_LOG_BYTES}")
        connection.execute(f"PRAGMA synchronous = {self._durability.upper()}")
        if sys.platform == "darwin" and self._durability == "full":
            connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA cache_size = -2000")
        connection.execute("PRAGMA temp_store = MEMORY")

    def borrow(self, caller: Caller) -> SqliteTransaction:
        """The caller's own transaction on this database, in the caller's thread.

        Nothing is committed or set on it; from here on it holds the write lock. Refused: another
        file, and a connection in autocommit mode without a transaction, where each statement
        would be one of its own.
        """
        connection = caller.driver
        if not isinstance(connection, sqlite3.Connection):
            raise Refused(
                f"connection= takes a sqlite3.Connection here, or a client's on one, not "
                f"{connection!r}"
            )
        try:
            transaction = SqliteTransaction(connection, self.now())
            file = transaction.file()
        except sqlite3.ProgrammingError as error:
            raise Refused(f"connection= can not be used: {error}") from None
        if self.path is None or self.path != Path(file).resolve():
            raise Refused(f"connection= is on another database than {self.url}")
        # What is read from now on must still be so when it is written.
        if caller.begin(load("sqlite")["take_write_lock"].sql) is None:
            transaction.rows("take_write_lock")
        if not connection.in_transaction:
            raise Refused(
                "connection= is in autocommit mode without a transaction, and the job would not "
                f"be stored with the rest or not at all: {caller.remedy}"
            )
        return transaction

    def check(self) -> list[Mapping[str, str]]:
        """Findings: ``level`` (ok, warning, error) and ``text``."""
        findings: list[Mapping[str, str]] = []

        def say(level: str, text: str) -> None:
            findings.append({"level": level, "text": text})

        session = self.connect()
        try:
            ((found, *_), *_) = session.pragma("quick_check")
            say("ok" if found == "ok" else "error", f"integrity: {found}")
        except sqlite3.DatabaseError as error:
            say("error", f"integrity: {error}; restore the file from a copy")
        finally:
            session.close()
        version = sqlite3.sqlite_version
        if _has_wal_reset_bug(sqlite3.sqlite_version_info):
            say(
                "warning",
                f"SQLite {version} has the WAL-reset bug (sqlite.org/wal.html#walresetbug). "
                "benbi's own connections take turns and are not affected; another program that "
                "writes or checkpoints this file at the same time may damage it",
            )
        else:
            say("ok", f"SQLite {version}")
        if self.path is not None:
            free = os.statvfs(self.path.parent) if hasattr(os, "statvfs") else None
            if free is not None:
                spare = free.f_bavail * free.f_frsize
                level = "warning" if spare < LOW_SPACE_BYTES else "ok"
                say(level, f"free space: {spare:,} bytes")
        return findings

    def close(self) -> None:
        """Gives up the one connection of ``:memory:``, and with it all that it held."""
        with self._memory_lock:
            if self._memory is not None:
                self._memory.disconnect()
                self._memory = None


class _Nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


_NOTHING = _Nothing()


def _resolve(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.is_absolute():
        folder = Path.cwd()
        if folder == Path(folder.anchor):
            raise ConfigurationError(
                f"the database {path!r} is a relative path and the working directory is "
                f"{folder}: give an absolute one, such as sqlite:////var/lib/benbi/jobs.db "
                "(hosts often start servers in the root folder)"
            )
        found = folder / found
    # Links are followed, so that one file has one turnstile.
    return found.resolve()


def _has_wal_reset_bug(version: tuple[int, int, int]) -> bool:
    # sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2, fixed in 3.51.3, 3.50.7 and 3.44.6.
    if version[:2] in ((3, 44), (3, 50)):
        return version < ((3, 44, 6) if version[1] == 44 else (3, 50, 7))
    return (3, 7, 0) <= version < (3, 51, 3)
