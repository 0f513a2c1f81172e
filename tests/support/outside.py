"""The world outside of jobs: a table of effects that steps leave, each by its key.

Whoever sends an effect twice sends the same key: nothing else may ever tell two of them apart.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

TABLE = """
CREATE TABLE effects (
    key text NOT NULL, job text NOT NULL, step text NOT NULL, attempt bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp())
"""


class Outside:
    """One worker's line to it. Raises psycopg.OperationalError where it is lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._turn = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[Any] | None = None

    async def leave(self, key: str, job: str, step: str, attempt: int) -> None:
        """Leaves an effect; it is there for good when this returns."""
        async with self._turn:
            if self._connection is None or self._connection.closed:
                self._connection = await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, connect_timeout=3, application_name="outside"
                )
            await self._connection.execute(
                "INSERT INTO effects (key, job, step, attempt) VALUES (%s, %s, %s, %s)",
                [key, job, step, attempt],
            )

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class Effect(NamedTuple):
    """One that arrived."""

    key: str
    attempt: int
    at: datetime


def effects(url: str) -> dict[tuple[str, str], list[Effect]]:
    """What arrived, by job and step."""
    found: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT job, step, key, attempt, at FROM effects ORDER BY at")
        for job, step, *effect in rows:
            found[job, step].append(Effect(*effect))
    return found
