"""Runs: jobs created together, and a handle on the whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from benbi.engine.attempt import refuse_inside_a_job
from benbi.engine.enqueue import connection_of, rows_of
from benbi.errors import Refused
from benbi.handle import JobHandle
from benbi.job import Job, NewJob, NewRun, Run, new_id
from benbi.loops import refuse_in_loop
from benbi.operations import SYNC_POLL_SECONDS, Operations
from benbi.options import checked_run_name
from benbi.store import runs, views
from benbi.store.database import Transaction
from benbi.task import Call


class RunHandle:
    """Jobs created together. ``jobs`` are handles on those of the call that made this one, in
    its order; the run has more of them where its jobs added some.

    Results, and waiting, are refused inside a job (UseWait): there ``ctx.wait`` takes each job.
    """

    def __init__(self, app: Runs, run_id: str, name: str, jobs: Sequence[JobHandle[Any]]) -> None:
        self.id = run_id
        self.name = name
        self.jobs = tuple(jobs)
        self._app = app

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r}, {len(self.jobs)} jobs)"

    async def get(self) -> Run:
        """The run's record as it is now: how many of its jobs are in which state."""
        return await self._app.get_run(self.id)

    def get_sync(self) -> Run:
        return self._app.get_run_sync(self.id)

    async def wait(self, timeout: float | None = None) -> Run:
        """Waits until all jobs of the run have ended, however, those included that were added
        meanwhile. TimeoutError after ``timeout`` seconds."""
        return await self._app.wait_for_run(self.id, timeout=timeout)

    def wait_sync(self, timeout: float | None = None) -> Run:
        return self._app.wait_for_run_sync(self.id, timeout=timeout)

    async def results(self, timeout: float | None = None) -> list[Any]:
        """Waits for the whole run; the results of ``jobs``, in order, decoded.

        Raises JobFailed, JobCanceled or JobSkipped for the first of them that has no result.
        """
        await self.wait(timeout)
        ends = await self._app.store.read(_ends, [job.id for job in self.jobs])
        return [job.outcome(*end) for job, end in zip(self.jobs, ends, strict=True)]

    def results_sync(self, timeout: float | None = None) -> list[Any]:
        self.wait_sync(timeout)
        ends = self._app.store.read_sync(_ends, [job.id for job in self.jobs])
        return [job.outcome(*end) for job, end in zip(self.jobs, ends, strict=True)]

    async def cancel(self, reason: str | None = None) -> Run:
        """Cancels every job of the run that has not ended; running ones are asked to stop."""
        return await self._app.cancel_run(self.id, reason=reason)

    def cancel_sync(self, reason: str | None = None) -> Run:
        return self._app.cancel_run_sync(self.id, reason=reason)


class Runs(Operations):
    """The operations on runs."""

    max_payload: int

    async def keep(self, rows: Sequence[NewJob], connection: Any) -> list[bytes]:
        """Stores rows durably, or in the transaction of the caller's own connection."""
        raise NotImplementedError

    def keep_sync(self, rows: Sequence[NewJob], connection: Any) -> list[bytes]:
        raise NotImplementedError

    async def run(self, calls: Sequence[Call], *, name: str = "") -> RunHandle:
        """Stores calls (``task.call(…)``) in one transaction, at most 10,000 of them, as one run.

        A call may wait for others that stand before it: ``options(after=[first]).call(…)``.
        All belong to one owner. ``name`` is for people and need not be unique.
        """
        run, rows = self._run_of(calls, name)
        return self.added(run, calls, await self.keep(rows, connection_of(calls)))

    def run_sync(self, calls: Sequence[Call], *, name: str = "") -> RunHandle:
        refuse_in_loop("run")
        run, rows = self._run_of(calls, name)
        return self.added(run, calls, self.keep_sync(rows, connection_of(calls)))

    def _run_of(self, calls: Sequence[Call], name: str) -> tuple[NewRun, list[NewJob]]:
        if not calls:
            raise Refused("a run is made of one call at least")
        run = NewRun(new_id(), checked_run_name(name))
        rows = rows_of(self, calls, self.max_payload)
        owners = {row.owner for row in rows}
        if len(owners) > 1:
            raise Refused(f"the calls of a run belong to one owner, not to {len(owners)}")
        return run, [row._replace(run=run) for row in rows]

    def rows_to_add(self, calls: Sequence[Call], owner: str) -> list[NewJob]:
        """The rows of calls that a job of this owner adds."""
        checked = rows_of(self, calls, self.max_payload)
        return [row if row.owner else row._replace(owner=owner) for row in checked]

    def added(self, run: NewRun, calls: Sequence[Call], ids: Sequence[bytes]) -> RunHandle:
        """The handle on jobs that were stored for these calls."""
        return RunHandle(self, views.as_text(run.id), run.name, self.handles(calls, ids))

    def handles(self, calls: Sequence[Call], ids: Sequence[bytes]) -> list[JobHandle[Any]]:
        """Handles on the jobs of calls, in order."""
        return [
            JobHandle(self, views.as_text(job_id), call.task.signature.result)
            for call, job_id in zip(calls, ids, strict=True)
        ]

    # Existing runs.

    async def get_run(self, run_id: str, *, owner: str | None = None) -> Run:
        """The run's record. JobNotFound."""
        return await self.store.read(runs.run, run_id, owner)

    def get_run_sync(self, run_id: str, *, owner: str | None = None) -> Run:
        refuse_in_loop("get_run")
        return self.store.read_sync(runs.run, run_id, owner)

    async def jobs_of_run(
        self, run_id: str, *, after: str | None = None, limit: int = 100, owner: str | None = None
    ) -> list[Job]:
        """The run's jobs in the order in which they were added; ``after``: the last id of the
        page before."""
        return await self.store.read(runs.jobs, run_id, owner, after, limit)

    def jobs_of_run_sync(
        self, run_id: str, *, after: str | None = None, limit: int = 100, owner: str | None = None
    ) -> list[Job]:
        refuse_in_loop("jobs_of_run")
        return self.store.read_sync(runs.jobs, run_id, owner, after, limit)

    async def wait_for_run(
        self, run_id: str, *, timeout: float | None = None, owner: str | None = None
    ) -> Run:
        """Waits until all jobs of the run have ended. TimeoutError after ``timeout`` seconds;
        UseWait inside a job."""
        refuse_inside_a_job("waiting for a run")
        async with asyncio.timeout(timeout):
            after = 0
            while True:
                n = await self.store.read(runs.live, run_id, owner, after)
                if n is not None:
                    await self._end_of_job(run_id, n, owner)
                elif not after:
                    return await self.get_run(run_id, owner=owner)
                # From the start again at the end: jobs may have been added, or retried by hand.
                after = n or 0

    async def _end_of_job(self, run_id: str, n: int, owner: str | None) -> None:
        tail = self._tail()
        with tail.listen(n) as news:
            while await tail.store.read(runs.live, run_id, owner, n - 1) == n:
                await news.wait()
                news.clear()

    def wait_for_run_sync(
        self, run_id: str, *, timeout: float | None = None, owner: str | None = None
    ) -> Run:
        refuse_inside_a_job("waiting for a run")
        refuse_in_loop("wait_for_run")
        deadline = None if timeout is None else time.monotonic() + timeout
        after = 0
        while True:
            n = self.store.read_sync(runs.live, run_id, owner, max(0, after - 1))
            if n is None and not after:
                return self.get_run_sync(run_id, owner=owner)
            if n is not None and n == after:
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(f"run {run_id} has not ended after {timeout} s")
                time.sleep(SYNC_POLL_SECONDS)
            after = n or 0

    async def cancel_run(
        self, run_id: str, *, reason: str | None = None, owner: str | None = None
    ) -> Run:
        """Cancels every job of the run that has not ended; running ones are asked to stop, and
        can add no more. JobNotFound."""
        move, why = runs.cancel, reason or "requested"
        # Once more from the newest: jobs may have been added before their adder was asked.
        while before := await self.store.write(move, run_id, owner, why, runs.NEWEST):
            while before:
                before = await self.store.write(move, run_id, owner, why, before)
        return await self.get_run(run_id, owner=owner)

    def cancel_run_sync(
        self, run_id: str, *, reason: str | None = None, owner: str | None = None
    ) -> Run:
        refuse_in_loop("cancel_run")
        move, why = runs.cancel, reason or "requested"
        while before := self.store.write_sync(move, run_id, owner, why, runs.NEWEST):
            while before:
                before = self.store.write_sync(move, run_id, owner, why, before)
        return self.get_run_sync(run_id, owner=owner)


def _ends(view: Transaction, ids: Sequence[str]) -> list[tuple[Job, str | None]]:
    return [
        (views.job(view, job_id, None), views.result(view, views.find(view, job_id, None)))
        for job_id in ids
    ]
