"""Enqueue in a caller's own transaction, by whichever client he has it with.

A client is a driver's connection as it is, SQLAlchemy's or Django's. What it is asked for is the
driver's connection, on which the statements run, and to hint after the commit where it can tell.
None of them is imported here before the caller has imported it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benbi.callers.clients import caller_of, is_asynchronous
from benbi.callers.turns import in_turns
from benbi.job import NewJob
from benbi.store import lifecycle
from benbi.store.database import Caller, Database
from benbi.store.linked import enqueue_linked
from benbi.store.store import Store

__all__ = ["enqueue_in", "enqueue_in_sync"]


async def enqueue_in(
    store: Store, connection: Any, rows: Sequence[NewJob], hint: Callable[[], None]
) -> list[bytes]:
    """Stores rows in the caller's transaction: accepted when, and if, he commits. ``hint`` is
    called after that, where the client tells of it."""
    await store.prepare()
    if not is_asynchronous(connection):
        # In the caller's thread: a connection of sqlite3 belongs to it.
        return _enqueue(store.database, caller_of(connection), rows, hint)
    return await in_turns(
        lambda wait: _enqueue(store.database, caller_of(connection, wait), rows, hint)
    )


def enqueue_in_sync(
    store: Store, connection: Any, rows: Sequence[NewJob], hint: Callable[[], None]
) -> list[bytes]:
    """The same from a thread. Refused for an asynchronous connection."""
    caller = caller_of(connection)
    store.prepare_sync()
    return _enqueue(store.database, caller, rows, hint)


def _enqueue(
    database: Database, caller: Caller, rows: Sequence[NewJob], hint: Callable[[], None]
) -> list[bytes]:
    move = enqueue_linked if any(row.linked for row in rows) else lifecycle.enqueue
    (outcome,) = move(database.borrow(caller), [rows])
    if isinstance(outcome, Exception):
        raise outcome
    caller.after_commit(hint)
    return outcome
