"""Django: the connection of an alias."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionProxy

from benbi.store.database import Row, Wait


class OfDjango:
    """``django.db.connection``, or one of ``django.db.connections``."""

    remedy = "use it within transaction.atomic()"

    def __init__(self, connection: BaseDatabaseWrapper, wait: Wait) -> None:
        connection.ensure_connection()
        connection.validate_no_broken_transaction()
        self._connection = connection
        self.driver: Any = connection.connection
        self.wait = wait

    @classmethod
    def of(cls, given: Any, wait: Wait) -> OfDjango | None:
        """The client, where it is one of Django's."""
        if isinstance(given, ConnectionProxy):
            given = connections[given.alias]
        return cls(given, wait) if isinstance(given, BaseDatabaseWrapper) else None

    def begin(self, sql: str) -> Sequence[Row] | None:
        """Django has told the driver by now, or executed BEGIN."""
        return None

    def after_commit(self, hint: Callable[[], None]) -> None:
        if self._connection.in_atomic_block:
            # A hint is never worth a failure: what else waits for the commit goes on.
            transaction.on_commit(hint, using=self._connection.alias, robust=True)
