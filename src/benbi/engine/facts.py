"""What every context knows of its attempt."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benbi.engine.attempt import Attempt
from benbi.engine.resources import Resources
from benbi.engine.threads import Threads
from benbi.engine.uses import current_step
from benbi.job import as_datetime


class Facts:
    """The part that ``Context`` and ``SyncContext`` share."""

    def __init__(
        self,
        attempt: Attempt,
        threads: Threads,
        clock: Callable[[], int],
        resources: Resources,
        home: Any,
    ) -> None:
        self._attempt = attempt
        self._threads = threads
        self._clock = clock
        self._resources = resources
        # What the context asks of the app, where it adds jobs and waits for them.
        self._home = home

    @property
    def job_id(self) -> str:
        """The job's public id."""
        return self._attempt.claim.job_id

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._attempt.claim.task

    @property
    def queue(self) -> str:
        """The queue that the job came from."""
        return self._attempt.claim.queue

    @property
    def owner(self) -> str:
        """Whose job it is; empty where nobody said."""
        return self._attempt.claim.owner

    @property
    def scheduled_for(self) -> datetime | None:
        """The tick of its schedule that the job was made for; None for any other job."""
        return as_datetime(self._attempt.claim.scheduled_for)

    @property
    def attempt(self) -> int:
        """The number of this claim; never falls."""
        return self._attempt.claim.attempt

    @property
    def canceled(self) -> bool:
        """True once nobody waits for the result: canceled, timed out, or the claim lost.

        Not while draining: a body that returns early then would be taken for complete.
        """
        return self._attempt.stop not in (None, "drain")

    @property
    def key(self) -> str:
        """A stable idempotency key to hand outside: the step's inside a step, else the job's."""
        return self._attempt.key_of(current_step.get())

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry job, task and attempt."""
        claim = self._attempt.claim
        extra = {"job": claim.job_id, "task": claim.task, "attempt": claim.attempt}
        return logging.LoggerAdapter(logging.getLogger("benbi.job"), extra)

    def _now(self) -> datetime:
        # The clock by which jobs are due: a test may have set it.
        return datetime.fromtimestamp(self._clock() / 1e6, UTC)
