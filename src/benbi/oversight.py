"""What people ask who look after queues and workers, for callers in a loop and in threads."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from benbi.errors import Refused
from benbi.fleet import Explanation, Queue, Stats, WorkerRecord
from benbi.location import folder_for
from benbi.loops import refuse_in_loop
from benbi.operations import Operations
from benbi.options import checked_queue
from benbi.settings import Setting, artifacts_setting, listen_url_setting, url_setting
from benbi.store import fleet, stats
from benbi.store.explain import explain

if TYPE_CHECKING:
    from benbi.connections import Connections

LONGEST_DAYS = 3660


class Oversight(Operations):
    """Queues, workers, statistics, and why a job is not running."""

    heartbeat_timeout: float
    _connections: Connections

    # Queues.

    async def queues(self) -> list[Queue]:
        """By name: what is paused, or has pending, running, scheduled or retrying jobs, a
        registered worker or a published task."""
        return await self.store.read(fleet.queues, *self._liveness())

    def queues_sync(self) -> list[Queue]:
        refuse_in_loop("queues")
        return self.store.read_sync(fleet.queues, *self._liveness())

    async def pause_queue(self, name: str, *, by: str = "") -> Queue:
        """From its commit on nothing of the queue is claimed; what runs goes on, and jobs are
        taken as before. A queue that is paused already stays as it is. Refused: no such name."""
        await self.store.write(fleet.pause, _queue(name), by or "operator")
        return await self.store.read(fleet.queue, name, *self._liveness())

    def pause_queue_sync(self, name: str, *, by: str = "") -> Queue:
        refuse_in_loop("pause_queue")
        self.store.write_sync(fleet.pause, _queue(name), by or "operator")
        return self.store.read_sync(fleet.queue, name, *self._liveness())

    async def resume_queue(self, name: str) -> Queue:
        """Opens the queue again, which wakes idle workers; one that is open stays so."""
        await self.store.write(fleet.resume, _queue(name))
        return await self.store.read(fleet.queue, name, *self._liveness())

    def resume_queue_sync(self, name: str) -> Queue:
        refuse_in_loop("resume_queue")
        self.store.write_sync(fleet.resume, _queue(name))
        return self.store.read_sync(fleet.queue, name, *self._liveness())

    # Workers.

    async def workers(self) -> list[WorkerRecord]:
        """The registered workers, the oldest first; a dead one until it is buried."""
        return list((await self.store.read(fleet.workers, *self._liveness())).values())

    def workers_sync(self) -> list[WorkerRecord]:
        refuse_in_loop("workers")
        return list(self.store.read_sync(fleet.workers, *self._liveness()).values())

    # What became of jobs.

    async def stats(self, days: float = 7) -> Stats:
        """The last ``days`` by task and queue, of the jobs that retention has kept. Reads their
        events once, in short reads, and the pending rows."""
        span: stats.Span | None = await self.store.read(stats.span_of, _micros(days))
        tally = stats.Tally(span)
        while span is not None:
            span = await self.store.read(stats.count, tally, span)
        return tally.stats(await self.store.read(stats.backlog))

    def stats_sync(self, days: float = 7) -> Stats:
        refuse_in_loop("stats")
        span: stats.Span | None = self.store.read_sync(stats.span_of, _micros(days))
        tally = stats.Tally(span)
        while span is not None:
            span = self.store.read_sync(stats.count, tally, span)
        return tally.stats(self.store.read_sync(stats.backlog))

    # One job.

    async def explain(self, job_id: str, *, owner: str | None = None) -> Explanation:
        """Why the job is not running, or that it is, as the database has it now. An owner is told
        nothing of others' jobs, of workers and of who paused. JobNotFound."""
        return await self.store.read(explain, job_id, owner, *self._liveness())

    def explain_sync(self, job_id: str, *, owner: str | None = None) -> Explanation:
        refuse_in_loop("explain")
        return self.store.read_sync(explain, job_id, owner, *self._liveness())

    # The app itself.

    def settings(self) -> list[Setting]:
        """Each setting of this app, its value, and where that came from. One that the code gives
        its default counts as the default. Connects to nothing."""
        found = [url_setting(self._connections.given_url, self._connections.database.url)]
        parameters = inspect.signature(type(self)).parameters
        for name in ("slots", "heartbeat_timeout", "max_payload"):
            found.append(_setting(name, getattr(self, name), parameters))
        kept = self._connections
        found.append(_setting("durability", kept.durability, parameters))
        folder = folder_for(kept.given_artifacts, kept.database.path)
        found.append(artifacts_setting(kept.given_artifacts, folder))
        found.append(_setting("max_artifact", kept.max_artifact, parameters))
        found.append(_setting("schema", kept.schema, parameters))
        return [*found, listen_url_setting(kept.given_listen_url, kept.database.listen_url)]

    @property
    def hints_lost(self) -> str | None:
        """Why this process is not told of other processes' commits, or does not tell of its own,
        and all look once a second instead; None while all is well."""
        return self._connections.hints_lost

    def _liveness(self) -> tuple[float, bool]:
        """The timeout of workers that said none, and whether workers beat at all."""
        return self.heartbeat_timeout, not self.store.database.one_connection


def _setting(name: str, value: Any, parameters: Mapping[str, inspect.Parameter]) -> Setting:
    usual = name in parameters and parameters[name].default == value
    return Setting(name, value, "default" if usual else "code")


def _queue(name: object) -> str:
    return checked_queue(name, _refuse)


def _micros(days: Any) -> int:
    if not isinstance(days, int | float) or not math.isfinite(days):
        _refuse(f"days={days!r}: a number of days")
    if not 0 < days <= LONGEST_DAYS:
        _refuse(f"days={days!r}: more than 0, and at most {LONGEST_DAYS}")
    return round(days * 86_400_000_000)


def _refuse(problem: str) -> NoReturn:
    raise Refused(problem)
