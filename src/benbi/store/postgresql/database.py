"""One schema of one PostgreSQL database: how it is reached and checked."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from benbi.errors import ConfigurationError, Refused, StoreBusy, StoreError
from benbi.settings import DEFAULT_SCHEMA
from benbi.store.clock import Clock, HeardClock
from benbi.store.database import PATIENCE
from benbi.store.postgresql.channel import Channel
from benbi.store.postgresql.refusals import translate, translated
from benbi.store.postgresql.session import (
    CallersTransaction,
    PostgresSession,
    adapted,
    statements,
)

OLDEST = 14
Connection: TypeAlias = psycopg.Connection[Any]
# A dead network is noticed within seconds, and not when the kernel gives up.
_NETWORK = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# Between attempts to reach a server that was reached before.
_REST_SECONDS = 0.2
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}")


class PostgresDatabase:
    """``url``: ``postgresql://user@host:port/database``, or what else libpq takes.

    ``schema``: where everything lies; made where it is missing. ``durability``: "full" makes each
    commit durable before it returns; "normal" may lose the last ones when the server dies.
    """

    dialect = "postgresql"
    one_connection = False
    # Beside the one that writes, those of the hints, and one for each worker's beat.
    readers = 4
    # No file of this machine.
    path: Path | None = None

    def __init__(
        self,
        url: str,
        *,
        schema: str = DEFAULT_SCHEMA,
        durability: str = "full",
        clock: Callable[[], int] | None = None,
    ) -> None:
        if durability not in ("full", "normal"):
            raise ConfigurationError(f'durability is "full" or "normal", not {durability!r}')
        if not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(
                f"a schema is named with small letters, digits and _, not {schema!r}"
            )
        try:
            named = conninfo_to_dict(url)
        except psycopg.Error as error:
            raise ConfigurationError(f"the database's URL can not be read: {error}") from None
        self.schema = schema
        self.address = url
        self.durability = durability
        self.given_clock = clock is not None
        self._heard = HeardClock()
        # Jobs are due by the server's clock: a task that asks for the time is told that one.
        self.now = self._heard if clock is None else Clock(clock, ticks=lambda: 0)
        self.url = _without_secrets(named)
        if schema != DEFAULT_SCHEMA:
            self.url += f"?schema={schema}"
        self._conninfo = make_conninfo(url, **{**_NETWORK, **named, "application_name": "benbi"})
        self._lock = threading.Lock()
        self._reached = False
        self._name = ""

    def connect(self, patience: float = PATIENCE) -> PostgresSession:
        """A new session. StoreError where the server can not be reached or is not fit."""
        return PostgresSession(self, patience)

    def make(self) -> Connection:
        """A new connection, without a transaction."""
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.Error as error:
            meant = translate(self.url, error)
            if not self._reached:
                raise _unreachable(self.url, error) from None
            time.sleep(_REST_SECONDS)
            raise (meant if isinstance(meant, StoreError) else StoreBusy(str(error))) from error
        adapted(connection.adapters)
        with self._lock:
            if not self._reached:
                self._refuse_unfit(connection)
                ((now,),) = connection.execute(statements(self.schema)["now"].encoded).fetchall()
                self.hear(now)
                self._name = connection.info.dbname
                self._reached = True
        return connection

    def hear(self, now: int) -> None:
        """The server's clock, as a transaction has just had it."""
        self._heard.hear(now)

    def _refuse_unfit(self, connection: Connection) -> None:
        version = connection.info.server_version
        if version < OLDEST * 10_000:
            connection.close()
            raise StoreError(
                f"{self.url} is PostgreSQL {version // 10_000}: benbi needs {OLDEST} or newer"
            )
        ((fsync,),) = connection.execute("SHOW fsync").fetchall()
        if fsync == "off" and self.durability == "full":
            connection.close()
            raise StoreError(
                f"{self.url} has fsync off, so that nothing it accepts is durable: turn it on, or "
                'say durability="normal"'
            )

    def channel(self) -> Channel:
        """A connection for hints between processes."""
        with translated(self.url):
            return Channel(self.url, statements(self.schema), self.make())

    def borrow(self, connection: Any) -> CallersTransaction:
        """The caller's own transaction, in the caller's thread: nothing is committed or set on it.

        Refused: a database of another name (that it is another server can not be told), and a
        connection in autocommit mode without a transaction.
        """
        if not isinstance(connection, psycopg.Connection):
            raise Refused(f"connection= takes a psycopg.Connection here, not {connection!r}")
        if connection.info.dbname != self._name:
            raise Refused(f"connection= is on another database than {self.url}")
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            raise Refused(
                "connection= is in autocommit mode without a transaction: use connection."
                "transaction(), so that the job is stored with the rest or not at all"
            )
        own = cast("Connection", connection)
        return CallersTransaction(own, self.schema, self.now if self.given_clock else None)

    def check(self) -> list[Mapping[str, str]]:
        """Findings: ``level`` (ok, warning, error) and ``text``."""
        connection = self.make()
        try:
            version = connection.info.parameter_status("server_version")
            text = statements(self.schema)["standby"].encoded
            ((standby,),) = connection.execute(text).fetchall()
        finally:
            connection.close()
        found = [{"level": "ok", "text": f"PostgreSQL {version}, schema {self.schema}"}]
        if standby:
            found.append({"level": "warning", "text": "a standby: it can be read, not written"})
        return [*found]

    def close(self) -> None:
        """Nothing outlives its sessions."""


def _without_secrets(named: Mapping[str, Any]) -> str:
    user = f"{named['user']}@" if named.get("user") else ""
    port = f":{named['port']}" if named.get("port") else ""
    return f"postgresql://{user}{named.get('host', 'localhost')}{port}/{named.get('dbname', '')}"


def _unreachable(url: str, error: psycopg.Error) -> StoreError:
    # The driver may name each address that it tried, a line each.
    why = str(error).strip().splitlines()[-1].strip() if str(error).strip() else repr(error)
    return StoreError(f"{url} can not be reached: {why}")
