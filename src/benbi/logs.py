"""What doors and handles can ask of what jobs logged.

``owner``: None is an operator and sees every job; to anybody else a foreign job looks like a
missing one (JobNotFound).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from benbi.job import FINAL, LogLine
from benbi.loops import refuse_in_loop
from benbi.store import logs, views
from benbi.store.database import Transaction
from benbi.store.store import Store

# Logs are written once a second, and they are no events that would tell of themselves.
LOOK_SECONDS = 0.5


class LogOperations:
    """The operations on logs."""

    @property
    def store(self) -> Store:
        raise NotImplementedError

    async def logs(
        self, job_id: str, *, attempt: int | None = None, owner: str | None = None
    ) -> list[LogLine]:
        """What an attempt logged, its last 64 KiB, oldest first; empty where it logged nothing.

        ``attempt`` None: the newest that logged anything. A running job's lines are written
        once a second. JobNotFound.
        """
        return await self.store.read(logs.logs, job_id, attempt, owner)

    def logs_sync(
        self, job_id: str, *, attempt: int | None = None, owner: str | None = None
    ) -> list[LogLine]:
        refuse_in_loop("logs")
        return self.store.read_sync(logs.logs, job_id, attempt, owner)

    async def follow_logs(
        self, job_id: str, *, attempt: int | None = None, owner: str | None = None
    ) -> AsyncIterator[LogLine]:
        """Lines as they are written, each once and in order, what is there already first.

        Goes on with later attempts, unless ``attempt`` names one; ends with the job, or with
        that attempt. JobNotFound.
        """
        first = await self.logs(job_id, attempt=attempt, owner=owner)
        reached, number = (first[-1].attempt, first[-1].number) if first else (attempt or 0, 0)
        for line in first:
            yield line
        while True:
            ended, lines = await self.store.read(_since, job_id, owner, reached, number, attempt)
            for line in lines:
                reached, number = line.attempt, line.number
                yield line
            if ended:
                return
            await asyncio.sleep(LOOK_SECONDS)


def _since(
    view: Transaction,
    job_id: str,
    owner: str | None,
    reached: int,
    number: int,
    attempt: int | None,
) -> tuple[bool, list[LogLine]]:
    job = views.job(view, job_id, owner)
    lines = logs.logged_since(view, job_id, owner, reached, number)
    if attempt is None:
        return job.state in FINAL, lines
    runs = job.state == "running" and job.attempt == attempt
    over = job.state in FINAL or (job.attempt >= attempt and not runs)
    return over, [line for line in lines if line.attempt == attempt]
