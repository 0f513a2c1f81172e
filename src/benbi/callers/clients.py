"""Which client a connection belongs to, and a driver's own connection as the plainest of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from benbi.errors import Refused
from benbi.store.database import Caller, Row, Wait


class Driver:
    """A driver's own connection."""

    remedy = (
        "execute BEGIN first (BEGIN IMMEDIATE on SQLite), or use the driver's own block for "
        "transactions"
    )

    def __init__(self, connection: Any, wait: Wait) -> None:
        self.driver = connection
        self.wait = wait

    def begin(self, sql: str) -> Sequence[Row] | None:
        return None

    def after_commit(self, hint: Callable[[], None]) -> None:
        """Nobody tells when a driver commits: ``app.wake`` does, or the worker looks by itself."""


def is_asynchronous(connection: Any) -> bool:
    """Whether a connection or session, of whichever library, is one for a loop."""
    close: Any = getattr(cast("Any", type(connection)), "close", None)
    return close is not None and inspect.iscoroutinefunction(inspect.unwrap(close))


def caller_of(connection: Any, wait: Wait | None = None) -> Caller:
    """The client of a connection. ``wait``: awaits in the caller's task; None: he has no loop.

    Refused for an asynchronous connection without a loop.
    """
    if wait is None and is_asynchronous(connection):
        raise Refused(
            f"connection= is asynchronous ({type(connection).__name__}): use "
            "await task.options(connection=…).enqueue(…)"
        )
    found: Caller | None = None
    wait = wait or _itself
    # What was never imported made no connection.
    if "sqlalchemy" in sys.modules:
        from benbi.callers.sqlalchemy import OfSqlalchemy

        found = OfSqlalchemy.of(connection, wait)
    if found is None and "django.db" in sys.modules:
        from benbi.callers.django import OfDjango

        found = OfDjango.of(connection, wait)
    return found or Driver(connection, wait)


def _itself(answer: Any) -> Any:
    """A synchronous connection answers with the thing itself."""
    return answer
