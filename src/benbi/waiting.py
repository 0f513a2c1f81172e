"""What a task can do with other jobs: wait for them, and add them. Shared by both contexts.

Each is a step of the job: a job that waits frees its slot and starts from the top when what it
waits for has ended; jobs that it adds are added once, however often it starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from benbi.codec import codec_for, fingerprint
from benbi.engine.attempt import Attempt
from benbi.engine.uses import Identity
from benbi.errors import Abandon, Refused
from benbi.job import Job, NewJob, NewRun, new_id
from benbi.store import views
from benbi.store.database import Transaction
from benbi.store.lifecycle import Accepted, StepRecord, as_json
from benbi.store.linked import run_of
from benbi.task import Call

if TYPE_CHECKING:
    from benbi.handle import JobHandle
    from benbi.runs import RunHandle

T = TypeVar("T")


class Home(Protocol):
    """What a context asks of the app."""

    def handle(self, job_id: str) -> JobHandle[Any]: ...

    def rows_to_add(self, calls: Sequence[Call], owner: str) -> list[NewJob]: ...

    def added(self, run: NewRun, calls: Sequence[Call], ids: Sequence[bytes]) -> RunHandle: ...


@dataclass(frozen=True)
class Waited:
    """How a job ended: recorded, so that each replay sees the same end."""

    job: Job
    result: str | None


class _Ties:
    """The parts that need no waiting."""

    _attempt: Attempt
    _home: Home

    def _tie(self, kind: str, name: str) -> Identity:
        self._attempt.check()
        return self._attempt.uses.enter(kind, name, None)

    def _leave(self, identity: Identity) -> None:
        self._attempt.uses.leave(identity)

    # Waiting.

    def _target(self, job: JobHandle[Any] | str) -> JobHandle[Any]:
        handle = self._home.handle(job) if isinstance(job, str) else job
        if handle.id == self._attempt.claim.job_id:
            raise Refused("a job can not wait for itself")
        return handle

    def _known_end(self, identity: Identity) -> Waited | None:
        found = self._attempt.recall(identity, b"", "keep")
        if found is None or found.result is None:
            return None
        return codec_for(Waited).decode(found.result)

    def _end_to_record(self, identity: Identity, waited: Waited) -> StepRecord:
        """The end as it is recorded; suspends the attempt where there is none yet."""
        if not waited.job.final:
            self._attempt.suspend(awaits=views.as_bytes(waited.job.id))
        text = codec_for(Waited).encode(waited, f"how job {waited.job.id} ended")
        return StepRecord(*identity, b"", "completed", 1, text, None)

    # Adding.

    def _known_jobs(self, identity: Identity, calls: Sequence[Call]) -> RunHandle | None:
        found = self._attempt.recall(identity, _print(calls), "fail")
        if found is None or found.result is None:
            return None
        run_id, name, ids = json.loads(found.result)
        run = NewRun(bytes.fromhex(run_id), name)
        return self._home.added(run, calls, list(map(bytes.fromhex, ids)))

    def _jobs_to_add(
        self, identity: Identity, calls: Sequence[Call], name: str, own: NewRun | None
    ) -> tuple[NewRun, list[NewJob], StepRecord]:
        for call in calls:
            if call.options.key is not None or call.options.same_call_within is not None:
                raise Refused(
                    "ctx.run adds each call once as it is: key= and same_call_within= have no place"
                )
            if call.options.connection is not None:
                raise Refused("ctx.run stores calls with the job's own record: no connection=")
        run = own or NewRun(new_id(), name)
        rows = self._home.rows_to_add(calls, self._attempt.claim.owner)
        ids = [row.id.hex() for row in rows]
        text = as_json([run.id.hex(), run.name, ids])
        record = StepRecord(*identity, _print(calls), "completed", 1, text, None)
        return run, [row._replace(run=run) for row in rows], record

    def _have_been_added(self, accepted: Accepted) -> None:
        if accepted.cancel_requested:
            # Nothing was added: the job is to stop.
            raise Abandon("canceled")


class AwaitsJobs(_Ties):
    """For ``Context``."""

    _note_branch: Callable[[], None]

    async def _written(self, **what: Any) -> Accepted:
        raise NotImplementedError

    @overload
    async def wait(self, job: JobHandle[T]) -> T: ...
    @overload
    async def wait(self, job: str) -> Any: ...
    async def wait(self, job: JobHandle[Any] | str) -> Any:
        """Frees the worker until the job has ended, and returns its result.

        How it ended is recorded: each replay sees the same. Raises JobFailed, JobCanceled and
        JobSkipped as ``job.result()`` does outside a job, and JobNotFound. Waits in concurrent
        branches go on together, when all of their jobs have ended.
        """
        self._note_branch()
        handle = self._target(job)
        identity = self._tie("wait", handle.id)
        try:
            waited = self._known_end(identity)
            if waited is None:
                waited = await self._attempt.store.read(_end_of, handle.id)
                record = self._end_to_record(identity, waited)
                await self._written(steps=[record], size=len(record.result or ""))
        finally:
            self._leave(identity)
        return handle.outcome(waited.job, waited.result)

    async def run(self, calls: Sequence[Call], *, name: str = "") -> RunHandle:
        """Adds jobs, once, to the run that this job belongs to; without one they are a new run,
        called ``name``. They belong to this job's owner unless they say otherwise.

        Returns a handle on what was added; a replay with other calls raises StepChanged. Refused:
        ``key=``, ``same_call_within=`` and ``connection=``.
        """
        self._note_branch()
        identity = self._tie("run", name or "run")
        try:
            known = self._known_jobs(identity, calls)
            if known is not None:
                return known
            own = await self._attempt.store.read(run_of, self._attempt.claim.n)
            run, rows, record = self._jobs_to_add(identity, calls, name, own)
            size = sum(len(row.arguments) for row in rows)
            self._have_been_added(await self._written(steps=[record], adds=rows, size=size))
            return self._home.added(run, calls, [row.id for row in rows])
        finally:
            self._leave(identity)


class WaitsForJobs(_Ties):
    """For ``SyncContext``: the same names, blocking."""

    def _written(self, **what: Any) -> Accepted:
        raise NotImplementedError

    @overload
    def wait(self, job: JobHandle[T]) -> T: ...
    @overload
    def wait(self, job: str) -> Any: ...
    def wait(self, job: JobHandle[Any] | str) -> Any:
        """Frees the worker until the job has ended, and returns its result. See Context.wait."""
        handle = self._target(job)
        identity = self._tie("wait", handle.id)
        try:
            waited = self._known_end(identity)
            if waited is None:
                waited = self._attempt.store.read_sync(_end_of, handle.id)
                record = self._end_to_record(identity, waited)
                self._written(steps=[record], size=len(record.result or ""))
        finally:
            self._leave(identity)
        return handle.outcome(waited.job, waited.result)

    def run(self, calls: Sequence[Call], *, name: str = "") -> RunHandle:
        """Adds jobs, once, to the run that this job belongs to. See Context.run."""
        identity = self._tie("run", name or "run")
        try:
            known = self._known_jobs(identity, calls)
            if known is not None:
                return known
            own = self._attempt.store.read_sync(run_of, self._attempt.claim.n)
            run, rows, record = self._jobs_to_add(identity, calls, name, own)
            size = sum(len(row.arguments) for row in rows)
            self._have_been_added(self._written(steps=[record], adds=rows, size=size))
            return self._home.added(run, calls, [row.id for row in rows])
        finally:
            self._leave(identity)


def _end_of(view: Transaction, job_id: str) -> Waited:
    job = views.job(view, job_id, None)
    return Waited(job, views.result(view, views.find(view, job_id, None)))


def _print(calls: Sequence[Call]) -> bytes:
    return fingerprint("run", ([(call.task.name, call.arguments) for call in calls],), {})
