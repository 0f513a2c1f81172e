"""Jobs that are stored with ties: to a run, to jobs that come first, to the job that added them.

What enqueues have in common, and what plain ones never pay for, stands apart from them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from uuid import UUID

from benbi.errors import IdempotencyConflict, JobNotFound
from benbi.job import NewJob, NewRun
from benbi.store import upstream
from benbi.store.database import Transaction


def same_call(tx: Transaction, job: NewJob) -> bytes | None:
    """The live job of an equal call that is young enough."""
    if job.same_call_within is None:
        return None
    tx.rows("same_call_lock", owner=job.owner, task=job.task, arguments_hash=job.arguments_hash)
    same = tx.rows(
        "same_call",
        owner=job.owner,
        task=job.task,
        arguments_hash=job.arguments_hash,
        since=tx.now - job.same_call_within,
    )
    return same[0][0] if same else None


def keyed(tx: Transaction, job: NewJob) -> bytes | None:
    """The job that has this key already. IdempotencyConflict where its arguments are others; None
    where retention has removed it since it was in the way."""
    for found, arguments_hash in tx.rows("keyed", owner=job.owner, task=job.task, key=job.key):
        if arguments_hash != job.arguments_hash:
            assert job.key is not None
            raise IdempotencyConflict(job.task, job.key, str(UUID(bytes=found)))
        return found
    return None


def enqueue_linked(
    tx: Transaction, groups: Sequence[Sequence[NewJob]], added_by: int | None = None
) -> list[list[bytes]]:
    """Stores each group of jobs; returns the ids of each group, in order.

    ``added_by``: the running job that adds them. Raises JobNotFound where a job that should
    come first is missing or another owner's, and IdempotencyConflict.
    """
    batch = _Batch(tx, added_by)
    ids = [batch.store(group) for group in groups]
    batch.begin()
    return ids


class _Batch:
    """One transaction's worth of linked jobs."""

    def __init__(self, tx: Transaction, added_by: int | None) -> None:
        self._tx = tx
        self._added_by = added_by
        self._waiting: list[int] = []
        self._ended: dict[int, None] = {}
        self._runs: dict[bytes, int] = {}
        # A call whose key was known: others of its group name the job that was meant to be.
        self._meant: dict[bytes, bytes] = {}

    def store(self, group: Sequence[NewJob]) -> list[bytes]:
        """Inserts a group and its edges."""
        ids: list[bytes] = []
        for _, found in groupby(group, attrgetter("likeness")):
            alike = list(found)
            if alike[0].arguments_hash is None:
                self._insert(alike)
                ids += [job.id for job in alike]
            else:
                ids += map(self._insert_comparable, alike)
        return ids

    def _insert_comparable(self, job: NewJob) -> bytes:
        found = same_call(self._tx, job)
        while found is None:
            if self._insert([job]) or self._tx.rows("existing", id=job.id):
                return job.id
            found = keyed(self._tx, job)
        self._meant[job.id] = found
        return found

    def _insert(self, jobs: Sequence[NewJob]) -> int:
        """Stores jobs that are alike; how many of them were not there already."""
        job, tx = jobs[0], self._tx
        parents = self._parents_of(job)
        numbers = tx.insert(
            "enqueue_linked",
            [(one.id, one.arguments) for one in jobs],
            **job._asdict()
            | {
                "upstream": len(parents),
                "run_n": self._run_of(job),
                "parent_n": self._added_by,
            },
        )
        stored = [n for n in numbers if n is not None]
        if parents:
            for n in stored:
                upstream.attach(tx, n, parents)
                self._waiting.append(n)
            if stored:
                self._ended |= dict.fromkeys(n for n, final in parents.items() if final)
        return len(stored)

    def _parents_of(self, job: NewJob) -> dict[int, bool]:
        """The jobs that come first, and whether each has ended."""
        parents: dict[int, bool] = {}
        for named in job.after:
            id = self._meant.get(named, named)
            for n, owner, final in self._tx.rows("upstream_job", id=id):
                if owner == job.owner:
                    parents[n] = bool(final)
                    break
            else:
                raise JobNotFound(str(UUID(bytes=id)))
        return parents

    def _run_of(self, job: NewJob) -> int | None:
        run = job.run
        if run is None:
            return None
        if run.id not in self._runs:
            # Until it is held: retention may remove it with the last of its jobs.
            while not (found := self._tx.rows("join_run", id=run.id)):
                self._tx.rows("run", id=run.id, name=run.name, owner=job.owner)
            ((self._runs[run.id],),) = found
        return self._runs[run.id]

    def begin(self) -> None:
        """Moves the new jobs that need not wait."""
        if self._waiting:
            upstream.begin(self._tx, self._waiting, list(self._ended))


def run_of(view: Transaction, n: int) -> NewRun | None:
    """The run that a job belongs to."""
    ((id, name),) = view.rows("run_of_job", n=n)
    return None if id is None else NewRun(id, name)
