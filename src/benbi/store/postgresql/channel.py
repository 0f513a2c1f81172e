"""Hints between processes by LISTEN and NOTIFY: one channel for each schema, empty of content.

They are sent after a commit, by a connection of their own: within a transaction NOTIFY takes a lock
that all committers of the cluster share.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import psycopg

from benbi.store.postgresql.refusals import translated
from benbi.store.statements import Statement

# Two clients of a pooler that turn up at one connection of its own do so in the first or second
# round, unless many others come between.
ROUNDS: Final = 10
PROOF_SECONDS: Final = 5.0


class Channel:
    """One connection to speak or to listen on. Raises StoreError where the server is away."""

    def __init__(
        self, url: str, statements: Mapping[str, Statement], connection: psycopg.Connection[Any]
    ) -> None:
        self._url = url
        self._statements = statements
        self._connection = connection
        self._deaf_to = ""

    @property
    def direct(self) -> bool:
        """Whether it leads to the server itself, and not to a pooler."""
        return self._connection.prepare_threshold is not None

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

    def shares_with(self, other: Channel) -> bool:
        """Whether both are given connections for a transaction at a time: each of two sessions
        would have one to itself, and keep it."""
        first = self._pid()
        rounds = ((self._pid(), other._pid()) for _ in range(ROUNDS))
        return any(mine != first or others == first for mine, others in rounds)

    def hears(self, speaker: Channel) -> bool:
        """Whether this one, which listens, hears what ``speaker`` says."""
        word, deadline = secrets.token_hex(8), time.monotonic() + PROOF_SECONDS
        speaker.say(word)
        with translated(self._url):
            while (left := deadline - time.monotonic()) > 0:
                notes = self._connection.notifies(timeout=left, stop_after=1)
                if any(note.payload == word for note in notes):
                    return True
        return False

    def _pid(self) -> int:
        with translated(self._url):
            answer = self._connection.execute(self._statements["reached"].encoded)
            ((pid, *_),) = answer.fetchall()
        return pid

    def close(self) -> None:
        self._connection.close()
