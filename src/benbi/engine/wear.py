"""When a worker process has done enough and another should take its place."""

from __future__ import annotations

import asyncio
import logging

log = logging.getLogger("benbi.worker")

# Of the slots: with more bodies left behind that run on, a new process is the only cure.
ABANDONED_SHARE = 4


class Wear:
    """``worn`` is set, with the reason in ``by``, at ``max_jobs`` jobs or too many bodies left."""

    def __init__(self) -> None:
        self.worn = asyncio.Event()
        self.by = ""
        self.max_jobs: int | None = None
        self._started = 0

    @property
    def left(self) -> float:
        """How many jobs it may still start."""
        return float("inf") if self.max_jobs is None else max(0, self.max_jobs - self._started)

    def note_started(self, jobs: int) -> None:
        self._started += jobs
        if self.max_jobs is not None and self._started >= self.max_jobs:
            self._wear_out(f"it has run {self._started} jobs")

    def note_abandoned(self, bodies: int, slots: int) -> None:
        if bodies * ABANDONED_SHARE > slots:
            self._wear_out(f"{bodies} jobs were abandoned whose code runs on")

    def _wear_out(self, why: str) -> None:
        if not self.worn.is_set():
            log.warning("this worker process should make room for another: %s", why)
            self.by = why
            self.worn.set()
