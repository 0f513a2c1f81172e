"""SQLAlchemy: connections and sessions, synchronous and asynchronous."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from sqlalchemy import event

# Where it has always been: who has an older SQLAlchemy enqueues by other clients all the same.
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, scoped_session

from benbi.errors import Refused
from benbi.store.database import Row, Wait

# What is to be told after a session's commit, in its own dictionary for such things.
_DUE: Final = "benbi.due"


class OfSqlalchemy:
    """A connection of SQLAlchemy, or that of a session's transaction."""

    remedy = 'do not use isolation_level="AUTOCOMMIT" here'

    def __init__(self, connection: Any, session: Session | None, wait: Wait) -> None:
        if connection.closed:
            raise Refused("connection= is closed")
        self.wait = wait
        self._connection = connection
        self._session = session
        if isinstance(connection, Connection):
            self.driver: Any = connection.connection.driver_connection
        else:
            self.driver = wait(connection.get_raw_connection()).driver_connection

    @classmethod
    def of(cls, given: Any, wait: Wait) -> OfSqlalchemy | None:
        """The client, where it is one of SQLAlchemy's."""
        # It needs greenlet, which not everybody has.
        if "sqlalchemy.ext.asyncio" in sys.modules:
            from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

            if isinstance(given, async_scoped_session):
                given = wait(_in_scope(cast("Any", given)))
            if isinstance(given, AsyncSession):
                return cls(wait(given.connection()), given.sync_session, wait)
            if isinstance(given, AsyncConnection):
                return cls(given, None, wait)
        if isinstance(given, scoped_session):
            given = cast("Any", given)()
        if isinstance(given, Session):
            return cls(given.connection(), given, wait)
        return cls(given, None, wait) if isinstance(given, Connection) else None

    def begin(self, sql: str) -> Sequence[Row] | None:
        """SQLAlchemy commits and closes what it has begun itself, by a statement like any other."""
        done = self.wait(self._connection.exec_driver_sql(sql))
        return [tuple(row) for row in done] if done.returns_rows else []

    def after_commit(self, hint: Callable[[], None]) -> None:
        """By the session. A connection tells nobody after its commit, only before."""
        if self._session is None:
            return
        if _DUE not in self._session.info:
            self._session.info[_DUE] = set()
            event.listen(self._session, "after_commit", _tell)
        self._session.info[_DUE].add(hint)


async def _in_scope(session: Any) -> Any:
    """The session of a scope, which is often the task, or what is said in its context: awaited
    there. Another thread would get another session, which nobody commits."""
    return session()


def _tell(session: Session) -> None:
    # A savepoint's end is no commit.
    if session.in_nested_transaction():
        return
    due: set[Callable[[], None]] = session.info[_DUE]
    while due:
        due.pop()()
