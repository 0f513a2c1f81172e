"""The app of a Django project: its database is Django's, and so are its transactions."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from asgiref.sync import sync_to_async
from django.db import connections

from benbi.app import Benbi
from benbi.context import Context
from benbi.django.threads import DjangoThreads, close_broken_connections
from benbi.errors import ConfigurationError

# Of DATABASES[alias]["OPTIONS"]: what Django or psycopg mean and libpq does not know.
_NOT_OF_LIBPQ: Final = {
    "assume_role",
    "autocommit",
    "context",
    "cursor_factory",
    "isolation_level",
    "pool",
    "prepare_threshold",
    "row_factory",
    "server_side_binding",
}
_OF_LIBPQ: Final = {
    "dbname": "NAME",
    "user": "USER",
    "password": "PASSWORD",
    "host": "HOST",
    "port": "PORT",
}


class DjangoBenbi(Benbi):
    """A Benbi whose jobs are kept in the database of an alias of Django's.

    ``alias``: the one whose transactions jobs are stored with; None: none. ``url``: where the jobs
    are kept; None: where ``alias`` is, as Django has it at the first use (its tests put another
    database there).
    """

    # For processes that Django did not start: a worker's under a supervisor, an isolated task's.
    first_import = "benbi.django.standalone"

    def __init__(self, alias: str | None, url: str | None = None, **settings: Any) -> None:
        super().__init__(url, **settings)
        self.alias = alias
        if url is None and alias is not None:
            self._connections.find_url = lambda: url_of(alias)
        self.around(self._without_broken_connections)

    def transaction_for(self, connection: Any) -> Any:
        """As in Benbi; without ``connection`` the transaction of Django's, where there is one."""
        if connection is not None or self.alias is None or self.database.one_connection:
            return connection
        theirs = connections[self.alias]
        return theirs if theirs.in_atomic_block else None

    def make_threads(self) -> DjangoThreads:
        return DjangoThreads()

    async def _without_broken_connections(self, context: Context) -> AsyncIterator[None]:
        # What Django does for coroutines, it does in this one thread; others are ours.
        if self._names()[context.task].signature.is_async:
            await sync_to_async(close_broken_connections)()
        yield


def arguments_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of DjangoBenbi, by the setting BENBI. Raises ConfigurationError."""
    known = [name for name in inspect.signature(Benbi).parameters if name != "url"]
    arguments: dict[str, Any] = {
        "alias": given.get("DATABASE", None if "URL" in given else "default"),
        "url": given.get("URL"),
    }
    for name, value in given.items():
        if name in ("DATABASE", "URL"):
            continue
        if name.lower() not in known or name != name.upper():
            wanted = ", ".join(["DATABASE", "URL", *(name.upper() for name in known)])
            raise ConfigurationError(f"BENBI[{name!r}] in Django's settings: one of {wanted}")
        arguments[name.lower()] = value
    return arguments


def url_of(alias: str) -> str:
    """The URL of the database of an alias. Raises ConfigurationError."""
    if alias not in connections:
        raise ConfigurationError(
            f"BENBI['DATABASE'] in Django's settings: there is no {alias!r} in DATABASES"
        )
    connection = connections[alias]
    given: Mapping[str, Any] = connection.settings_dict
    if connection.vendor == "sqlite":
        name = str(given["NAME"])
        if "memory" in name and (name.startswith("file:") or name == ":memory:"):
            raise ConfigurationError(
                f"Django's database {alias!r} is in memory, where no other connection gets at it: "
                "use the fixture benbi_app, or name a file (in tests: DATABASES[…]['TEST']['NAME'])"
            )
        return f"sqlite:///{Path(name).absolute()}"
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"Django's database {alias!r} is {connection.vendor}: benbi needs PostgreSQL or "
            "SQLite; name one in BENBI['DATABASE'] or BENBI['URL'] in Django's settings"
        )
    options: Mapping[str, Any] = given.get("OPTIONS") or {}
    named = {key: value for key, value in options.items() if key not in _NOT_OF_LIBPQ}
    named |= {key: given[name] for key, name in _OF_LIBPQ.items() if given.get(name)}
    return "postgresql:///?" + urlencode(named, quote_via=quote)
