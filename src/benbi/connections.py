"""An app's connections: opened by the first use, closed at the end, never carried over a fork."""

from __future__ import annotations

import os
import secrets
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from benbi.engine.hints import Hints
from benbi.location import database_for, folder_for
from benbi.settings import DEFAULT_MAX_ARTIFACT, DEFAULT_SCHEMA
from benbi.store.database import Database
from benbi.store.files import Files
from benbi.store.sqlite import SqliteDatabase
from benbi.store.store import Store
from benbi.wake.poll import Wake
from benbi.wake.postgresql import Hearing, Notifier, PostgresWake
from benbi.wake.sqlite import SqliteWake

if TYPE_CHECKING:
    from benbi.store.postgresql import PostgresDatabase


class Connections:
    """Database, store and hints of one URL, each made when it is first asked for.

    ``given_url`` and the like: as the app's code says it, None where it does not.
    """

    def __init__(
        self,
        url: str | None,
        durability: str,
        artifacts: str | os.PathLike[str] | None = None,
        max_artifact: int = DEFAULT_MAX_ARTIFACT,
        schema: str = DEFAULT_SCHEMA,
        listen_url: str | None = None,
    ) -> None:
        self._given_url = url
        # For an app whose URL is known by its first use only.
        self.find_url: Callable[[], str] | None = None
        self.durability = durability
        self.given_artifacts = artifacts
        self.max_artifact = max_artifact
        self.schema = schema
        self.given_listen_url = listen_url
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._store: Store | None = None
        self._hints: Hints | None = None
        self._hearing = Hearing()
        self._notifier: Notifier | None = None
        # Tells hints of this process from those of others.
        self._mark = secrets.token_hex(8)
        _all.add(self)

    @property
    def given_url(self) -> str | None:
        return self._given_url if self.find_url is None else self.find_url()

    @property
    def database(self) -> Database:
        """The database behind the seam; no connection is made by asking for it."""
        if self._database is None:
            self._database = database_for(
                self.given_url,
                durability=self.durability,
                schema=self.schema,
                listen_url=self.given_listen_url,
            )
        return self._database

    @property
    def store(self) -> Store:
        return self._store or self._open()[0]

    @property
    def hints(self) -> Hints:
        return self._hints or self._open()[1]

    def _open(self) -> tuple[Store, Hints]:
        with self._lock:
            if self._store is None or self._hints is None:
                self._store = Store(self.database, self._files())
                self._hints = Hints(self._make_wake)
                self._store.on_commit.append(self._hints.hint)
                self._notifier = self._make_notifier()
                if self._notifier is not None:
                    self._store.on_commit.append(self._notifier.hint)
            return self._store, self._hints

    def _files(self) -> Files:
        path = self.database.path
        return Files(folder_for(self.given_artifacts, path), limit=self.max_artifact, like=path)

    def _make_wake(self) -> Wake | None:
        database = self.database
        if not isinstance(database, SqliteDatabase):
            listener = cast("PostgresDatabase", database).listener
            return PostgresWake(listener, self._mark, self._hearing)
        if database.path is None:
            return None

        def connect() -> Callable[[], int]:
            return database.connect().data_version

        return SqliteWake(database.path, connect)

    @property
    def hints_lost(self) -> str | None:
        """Why other processes are not heard, or not told; None while all is well."""
        untold = self._notifier.lost if self._notifier else None
        return self._hearing.lost or untold

    def _make_notifier(self) -> Notifier | None:
        """What tells other processes: a file tells of its changes itself."""
        database = self.database
        if isinstance(database, SqliteDatabase):
            return None
        return Notifier(cast("PostgresDatabase", database).channel, self._mark)

    def close(self) -> None:
        """Commits what is queued and disconnects; the next use opens again."""
        with self._lock:
            store, hints, notifier = self._store, self._hints, self._notifier
            self._store = self._hints = self._database = self._notifier = None
            self._hearing = Hearing()
        if hints is not None:
            hints.close()
        if store is not None:
            store.close()
        if notifier is not None:
            notifier.close()

    def close_if_idle(self) -> None:
        """Closes where nobody is subscribed to hints; the next use opens again."""
        hints = self._hints
        if hints is not None and not hints.in_use:
            self.close()

    def forget(self) -> None:
        """In a forked child: what was inherited is kept for ever and never touched."""
        _inherited.append((self._store, self._hints, self._database, self._notifier))
        self._lock = threading.Lock()
        self._store = self._hints = self._database = self._notifier = None
        self._hearing = Hearing()


_all: weakref.WeakSet[Connections] = weakref.WeakSet()
# Never closed and never collected: closing an inherited handle would harm the parent's.
_inherited: list[Any] = []


def _before_fork() -> None:
    """An open SQLite file must not be carried over a fork; what is idle is closed before it.

    Where a worker runs, or another thread may be in the middle of a call, it stays open: the
    child will be refused with the reason.
    """
    alone = all(
        thread is threading.current_thread() or thread.name.startswith("benbi-")
        for thread in threading.enumerate()
    )
    for connections in list(_all) if alone else []:
        connections.close_if_idle()


def _after_fork() -> None:
    for connections in list(_all):
        connections.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
