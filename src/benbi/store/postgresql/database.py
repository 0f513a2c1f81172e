"""One schema of one PostgreSQL database: how it is reached and checked."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benbi.errors import ConfigurationError, Refused, StoreBusy, StoreError
from benbi.settings import DEFAULT_SCHEMA
from benbi.store.clock import Clock, HeardClock
from benbi.store.database import PATIENCE, Caller
from benbi.store.postgresql.callers import CallersTransaction, own_connection
from benbi.store.postgresql.channel import Channel
from benbi.store.postgresql.pipeline import Pipeline
from benbi.store.postgresql.refusals import translate, translated
from benbi.store.postgresql.session import PostgresSession, adapted, statements

OLDEST = 14
# The driver's own number of times that it sees a statement before it prepares it.
PREPARE_AFTER = 5
Connection: TypeAlias = psycopg.Connection[Any]
# A dead network is noticed within seconds, and not when the kernel gives up.
_NETWORK = {
    "connect_timeout": 4,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# For the first statement on a connection.
_GREETING_SECONDS = 4.0
# Between attempts to reach a server that was reached before.
_REST_SECONDS = 0.2
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,50}")


class _Way(NamedTuple):
    """How a server is reached; ``url``: the same without secrets."""

    url: str
    conninfo: str


class PostgresDatabase:
    """``url``: ``postgresql://user@host:port/database``, or what else libpq takes.

    ``schema``: where everything lies; made where it is missing. ``durability``: "full" makes each
    commit durable before it returns; "normal" may lose the last ones when the server dies.
    ``listen_url``: where LISTEN connects to, the same database not by way of a pooler.
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
        listen_url: str | None = None,
    ) -> None:
        if durability not in ("full", "normal"):
            raise ConfigurationError(f'durability is "full" or "normal", not {durability!r}')
        if not _SCHEMA.fullmatch(schema):
            raise ConfigurationError(
                f"a schema is named with small letters, digits and _, not {schema!r}"
            )
        named = _parsed("the database's URL", url)
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
        self._there = _Way(self.url, _conninfo(url, named))
        self.listen_url: str | None = None
        self._to_listen = self._there
        if listen_url:
            named = _parsed("listen_url", listen_url)
            self.listen_url = _without_secrets(named)
            self._to_listen = _Way(self.listen_url, _conninfo(listen_url, named))
        self._lock = threading.Lock()
        self._reached = False
        # As the server has it: a pooler may have another name for it.
        self._name = ""

    def connect(self, patience: float = PATIENCE) -> PostgresSession:
        """A new session. StoreError where the server can not be reached or is not fit."""
        return PostgresSession(self, patience)

    def make(self) -> Connection:
        """A new connection, without a transaction."""
        return self._made(self._there)

    def _made(self, way: _Way) -> Connection:
        try:
            # What is prepared on one connection of a pooler is not there on the next.
            connection = psycopg.connect(way.conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            meant = translate(way.url, error)
            if not self._reached:
                raise _unreachable(way.url, error) from None
            time.sleep(_REST_SECONDS)
            raise (meant if isinstance(meant, StoreError) else StoreBusy(str(error))) from error
        try:
            self._look_at(connection, way.url)
        except BaseException:
            connection.close()
            raise
        return connection

    def _look_at(self, connection: Connection, url: str) -> None:
        adapted(connection.adapters)
        if not self._reached:
            self._refuse_old(connection)
        with translated(url):
            # Not by the driver, which would wait for ever.
            pipeline = Pipeline(connection, _GREETING_SECONDS)
            pipeline.begin()
            ((pid, fsync, name, now),) = pipeline.rows(
                pipeline.send(statements(self.schema)["reached"])
            )
            pipeline.end()
        # A pooler greets with a number of its own, so that it knows what a cancel is for.
        if pid == connection.info.backend_pid:
            connection.prepare_threshold = PREPARE_AFTER
        with self._lock:
            if not self._reached:
                self._refuse_undurable(fsync)
                self.hear(now)
                self._name = name
                self._reached = True

    def hear(self, now: int) -> None:
        """The server's clock, as a transaction has just had it."""
        self._heard.hear(now)

    def _refuse_old(self, connection: Connection) -> None:
        version = connection.info.server_version
        if version < OLDEST * 10_000:
            raise StoreError(
                f"{self.url} is PostgreSQL {version // 10_000}: benbi needs {OLDEST} or newer"
            )

    def _refuse_undurable(self, fsync: str) -> None:
        if fsync == "off" and self.durability == "full":
            raise StoreError(
                f"{self.url} has fsync off, so that nothing it accepts is durable: turn it on, or "
                'say durability="normal"'
            )

    def channel(self) -> Channel:
        """A connection to tell other processes on."""
        return self._channel(self._there)

    def listener(self, mark: str) -> Channel:
        """A connection that hears what other processes say, and not what has our own ``mark``.

        StoreError where it would hear nothing: behind a pooler that gives each transaction another
        connection, or in another database. Takes seconds to find the latter out.
        """
        listener = self._channel(self._to_listen)
        try:
            if not listener.direct:
                with closing(self._channel(self._to_listen)) as other:
                    if listener.shares_with(other):
                        raise StoreError(self._pooled())
            listener.listen(mark)
            if not listener.direct or self.listen_url is not None:
                with closing(self.channel()) as speaker:
                    if not listener.hears(speaker):
                        raise StoreError(
                            f"what is said at {self.url} is not heard at {self._to_listen.url}: do "
                            "both lead to one database, and the second to the server itself?"
                        )
        except BaseException:
            listener.close()
            raise
        return listener

    def _pooled(self) -> str:
        remedy = "listen_url= (BENBI_LISTEN_URL) may name the server itself"
        if self.listen_url is not None:
            remedy = "listen_url= has to name the server itself"
        return (
            f"{self._to_listen.url} leads to a pooler that gives each transaction another "
            f"connection, where LISTEN hears nothing: {remedy}"
        )

    def _channel(self, way: _Way) -> Channel:
        return Channel(way.url, statements(self.schema), self._made(way))

    def borrow(self, caller: Caller) -> CallersTransaction:
        """The caller's own transaction, in the caller's thread: nothing is committed or set on it.

        Refused: a database of another name (that it is another server can not be told), and a
        connection in autocommit mode without a transaction.
        """
        own = own_connection(caller)
        if own.closed:
            raise Refused("connection= is closed")
        begun = statements(self.schema)["begun"]
        first = caller.begin(begun.sql)
        ((now, name, there),) = own.fetch(begun, ()) if first is None else first
        if name != self._name or not there:
            raise Refused(f"connection= is on another database than {self.url}")
        if not own.in_transaction:
            raise Refused(
                "connection= is in autocommit mode without a transaction, and the job would not "
                f"be stored with the rest or not at all: {caller.remedy}"
            )
        return CallersTransaction(own, self.schema, self.now() if self.given_clock else now)

    def check(self) -> list[Mapping[str, str]]:
        """Findings: ``level`` (ok, warning, error) and ``text``."""
        with closing(self.make()) as connection:
            version = connection.info.parameter_status("server_version")
            text = statements(self.schema)["standby"].encoded
            ((standby,),) = connection.execute(text).fetchall()
            pooled = connection.prepare_threshold is None
        found = [{"level": "ok", "text": f"PostgreSQL {version}, schema {self.schema}"}]
        if pooled:
            found.append({"level": "ok", "text": "reached by a pooler: nothing is prepared"})
        if standby:
            found.append({"level": "warning", "text": "a standby: it can be read, not written"})
            return [*found]
        try:
            self.listener("").close()
        except StoreError as error:
            found.append({"level": "warning", "text": f"no hints from other processes: {error}"})
        else:
            found.append({"level": "ok", "text": "hints from other processes are heard"})
        return [*found]

    def close(self) -> None:
        """Nothing outlives its sessions."""


def _parsed(what: str, url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.Error as error:
        raise ConfigurationError(f"{what} can not be read: {error}") from None


def _conninfo(url: str, named: Mapping[str, Any]) -> str:
    return make_conninfo(url, **{**_NETWORK, **named, "application_name": "benbi"})


def _without_secrets(named: Mapping[str, Any]) -> str:
    user = f"{named['user']}@" if named.get("user") else ""
    port = f":{named['port']}" if named.get("port") else ""
    return f"postgresql://{user}{named.get('host', 'localhost')}{port}/{named.get('dbname', '')}"


def _unreachable(url: str, error: psycopg.Error) -> StoreError:
    # The driver may name each address that it tried, a line each.
    why = str(error).strip().splitlines()[-1].strip() if str(error).strip() else repr(error)
    return StoreError(f"{url} can not be reached: {why}")
