"""Hints between processes by LISTEN and NOTIFY: one channel for each schema, empty of content.

They are sent after a commit, by a connection of their own: within a transaction NOTIFY takes a lock
that all committers of the cluster share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from benbi.store.postgresql.refusals import translated
from benbi.store.statements import Statement


class Channel:
    """One connection to speak or to listen on. Raises StoreError where the server is away."""

    def __init__(
        self, url: str, statements: Mapping[str, Statement], connection: psycopg.Connection[Any]
    ) -> None:
        self._url = url
        self._statements = statements
        self._connection = connection
        self._deaf_to = ""

    def listen(self, deaf_to: str) -> None:
        """Hears what others say from now on, not what is marked as our own."""
        self._deaf_to = deaf_to
        with translated(self._url):
            self._connection.execute(self._statements["listen"].encoded)

    def fileno(self) -> int:
        """What becomes readable when there is something to hear."""
        return self._connection.fileno()

    def heard(self) -> bool:
        """Takes what has come without waiting; whether any of it was another's."""
        with translated(self._url):
            notes = list(self._connection.notifies(timeout=0))
        return any(note.payload != self._deaf_to for note in notes)

    def say(self, mark: str) -> None:
        """A hint to everybody who listens."""
        with translated(self._url):
            psycopg.RawCursor(self._connection).execute(self._statements["notify"].encoded, [mark])

    def close(self) -> None:
        self._connection.close()
