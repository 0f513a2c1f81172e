"""The databases that the promises of the store are held against, by name.

A further one joins by its entry in ``KINDS``: how it is made, and where its witness looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benbi.store.postgresql import PostgresDatabase
from benbi.store.sqlite import SqliteDatabase
from tests.support import pgbouncer, postgresql, shadow
from tests.support.rig import Clock, Rig

# The witness of a database: asked at the end for what it saw that the events do not tell.
Witness = Callable[[], list[str]]
Opened = tuple[Rig, Witness]


def _on_file(folder: Path) -> Opened:
    path, clock = folder / "jobs.db", Clock()
    # One path for all: a process keeps the lock file of each database open that it ever wrote.
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    # What a commit survives is no property of a move; without fsync the suite is quick.
    rig = Rig(SqliteDatabase(str(path), durability="normal", clock=clock), clock)
    shadow.watch(path)
    return rig, lambda: shadow.disagreements(path)


def _in_memory(_: Path) -> Opened:
    clock = Clock()
    database = SqliteDatabase(":memory:", clock=clock)
    rig = Rig(database, clock)
    connection = database.connect()._connection
    shadow.watch(connection)
    return rig, lambda: shadow.disagreements(connection)


@cache
def _witness(url: str) -> postgresql.Witnessed:
    return postgresql.Witnessed(url, "benbi")


def _on_postgresql(_: Path) -> Opened:
    return _on_server(postgresql.database_url())


def _on_pgbouncer(_: Path) -> Opened:
    return _on_server(pgbouncer.pooled(postgresql.database_url()))


def _on_server(url: str) -> Opened:
    # However the store gets there, its witness looks at the server itself.
    clock, witness = Clock(), _witness(postgresql.database_url())
    witness.clear()
    rig = Rig(PostgresDatabase(url, durability="normal", clock=clock), clock)
    if rig.store.applied:
        witness.watch()
    return rig, witness.disagreements


KINDS: dict[str, Callable[[Path], Opened]] = {
    "file": _on_file,
    "memory": _in_memory,
    "postgresql": _on_postgresql,
    "pgbouncer": _on_pgbouncer,
}


@contextmanager
def rigged(kind: str, folder: Path) -> Iterator[Rig]:
    """A rig on a new database; at the end the witness must agree with the events."""
    rig, witness = KINDS[kind](folder)
    try:
        yield rig
        disagreements = witness()
        assert disagreements == []
    finally:
        rig.store.close()
