"""What doors and handles can ask of jobs, for callers in a loop and (``_sync``) in threads.

``owner``: None is an operator and sees every job; anybody else sees only their own, and a
foreign job looks like a missing one (JobNotFound).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakKeyDictionary

from benbi.answers import answer_text
from benbi.artifacts import ArtifactOperations
from benbi.engine.hints import Hints
from benbi.engine.tail import EVERY_JOB, Tail
from benbi.errors import AnswerRefused
from benbi.job import FINAL, CatalogueEntry, Event, Job
from benbi.logs import LogOperations
from benbi.loops import refuse_in_loop
from benbi.store import moves, views, workers
from benbi.store.bulk import Ended
from benbi.store.check import Finding, check
from benbi.store.database import Transaction
from benbi.store.moves import Found
from benbi.store.store import Store

# A thread that waits for a change looks this often.
SYNC_POLL_SECONDS = 0.05


class Operations(ArtifactOperations, LogOperations):
    """The operations on jobs that exist already. ``Benbi`` adds making and running them."""

    @property
    def store(self) -> Store:
        raise NotImplementedError

    @property
    def hints(self) -> Hints:
        raise NotImplementedError

    def budgets(self, job: Job | Ended) -> tuple[int, int]:
        """(attempts, losses) that a retry by hand adds."""
        raise NotImplementedError

    def __init__(self) -> None:
        self._tails: WeakKeyDictionary[asyncio.AbstractEventLoop, Tail] = WeakKeyDictionary()

    # The database itself.

    async def check(self) -> list[Finding]:
        """What is found in the database: ``level`` (ok, warning, error) and ``text``.

        Migrates nothing. StoreError where it can not even be read.
        """
        return await asyncio.to_thread(check, self.store.database)

    async def migrate(self) -> list[str]:
        """Brings the database up to this code, as the first use does; what was applied."""
        await asyncio.to_thread(self.store.open)
        return self.store.applied

    # Processes that have ended.

    async def bury_process(self, mark: str, why: str) -> list[int]:
        """Takes their jobs from the workers of a process that is known to have ended.

        ``mark``: what their ids begin with (``process_mark``). Returns the numbers of the jobs:
        each is charged a loss, with ``why`` in its error.
        """
        return await self.store.write(workers.bury_process, mark, why)

    def bury_process_sync(self, mark: str, why: str) -> list[int]:
        refuse_in_loop("bury_process")
        return self.store.write_sync(workers.bury_process, mark, why)

    async def release_process(self, mark: str, reason: str = "drain") -> list[int]:
        """The same where the process was ended on purpose: nothing is charged."""
        return await self.store.write(workers.release_process, mark, reason)

    def release_process_sync(self, mark: str, reason: str = "drain") -> list[int]:
        refuse_in_loop("release_process")
        return self.store.write_sync(workers.release_process, mark, reason)

    # One job.

    async def get(self, job_id: str, *, owner: str | None = None) -> Job:
        """The job's record. JobNotFound."""
        return await self.store.read(views.job, job_id, owner)

    def get_sync(self, job_id: str, *, owner: str | None = None) -> Job:
        refuse_in_loop("get")
        return self.store.read_sync(views.job, job_id, owner)

    async def result_json(self, job_id: str, *, owner: str | None = None) -> str | None:
        """A completed job's result as JSON text; None where there is none (yet)."""
        return await self.store.read(_result, job_id, owner)

    def result_json_sync(self, job_id: str, *, owner: str | None = None) -> str | None:
        refuse_in_loop("result_json")
        return self.store.read_sync(_result, job_id, owner)

    async def arguments_json(self, job_id: str, *, owner: str | None = None) -> str:
        """The job's arguments as JSON text."""
        return await self.store.read(_arguments, job_id, owner)

    def arguments_json_sync(self, job_id: str, *, owner: str | None = None) -> str:
        refuse_in_loop("arguments_json")
        return self.store.read_sync(_arguments, job_id, owner)

    # Many jobs.

    async def jobs(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Job]:
        """Newest first, at most ``limit``; ``before``: the last id of the page before."""
        return await self.store.read(views.jobs, owner, state, task, queue, before, limit)

    def jobs_sync(
        self,
        *,
        owner: str | None = None,
        state: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Job]:
        refuse_in_loop("jobs")
        return self.store.read_sync(views.jobs, owner, state, task, queue, before, limit)

    async def catalogue(self) -> list[CatalogueEntry]:
        """What workers have published, by task name."""
        return await self.store.read(views.catalogue)

    def catalogue_sync(self) -> list[CatalogueEntry]:
        refuse_in_loop("catalogue")
        return self.store.read_sync(views.catalogue)

    # Events.

    async def events(
        self, job_id: str, *, after: int = 0, limit: int = 1000, owner: str | None = None
    ) -> list[Event]:
        """The events that are there now with ``seq > after``, in order."""
        return (await self.store.read(_events, job_id, owner, after, limit))[0]

    def events_sync(
        self, job_id: str, *, after: int = 0, limit: int = 1000, owner: str | None = None
    ) -> list[Event]:
        refuse_in_loop("events")
        return self.store.read_sync(_events, job_id, owner, after, limit)[0]

    async def follow(
        self, job_id: str, *, after: int = 0, owner: str | None = None
    ) -> AsyncIterator[Event]:
        """Events with ``seq > after`` as they come, each once and in order.

        Ends after the last event of a final job.
        """
        tail = self._tail()
        found = await tail.store.read(views.find, job_id, owner)
        with tail.listen(found.n) as news:
            while True:
                news.clear()
                events, ended = await tail.store.read(_events, job_id, owner, after, 1000)
                for event in events:
                    after = event.seq
                    yield event
                if ended:
                    return
                if len(events) < 1000:
                    await news.wait()

    async def follow_all(
        self, *, owner: str | None = None, cursor: int | None = None
    ) -> AsyncIterator[Event]:
        """Events of all of an owner's jobs after ``cursor`` (None: from now on), in commit order;
        ``Event.cursor`` resumes. Never ends."""
        tail = self._tail()
        if cursor is None:
            cursor = await tail.store.read(_newest)
        with tail.listen(EVERY_JOB) as news:
            while True:
                news.clear()
                # Past what belongs to others as well: it is not read again.
                events, cursor = await tail.store.read(_since, owner, cursor, 1000)
                for event in events:
                    yield event
                if len(events) < 1000:
                    await news.wait()

    async def wait_for_change(
        self, job_id: str, *, after: int, timeout: float, owner: str | None = None
    ) -> Job:
        """The record as soon as its ``seq`` is over ``after`` or its progress is new, else when
        ``timeout`` seconds are over."""
        tail = self._tail()
        first = await tail.store.read(views.job, job_id, owner)
        if first.seq > after:
            return first
        found = await tail.store.read(views.find, job_id, owner)
        with tail.listen(found.n) as news:
            try:
                async with asyncio.timeout(timeout):
                    while True:
                        news.clear()
                        job = await tail.store.read(views.job, job_id, owner)
                        if job.seq > after or job.progress != first.progress:
                            return job
                        await news.wait()
            except TimeoutError:
                return await tail.store.read(views.job, job_id, owner)

    def wait_for_change_sync(
        self, job_id: str, *, after: int, timeout: float, owner: str | None = None
    ) -> Job:
        first = job = self.get_sync(job_id, owner=owner)
        deadline = time.monotonic() + timeout
        while job.seq <= after and job.progress == first.progress and time.monotonic() < deadline:
            time.sleep(SYNC_POLL_SECONDS)
            job = self.get_sync(job_id, owner=owner)
        return job

    # Moves.

    async def cancel(
        self, job_id: str, *, owner: str | None = None, reason: str | None = None
    ) -> Job:
        """Not running: canceled at once. Running: asked to stop. Final: as it is."""
        await self.store.write(_cancel, job_id, owner, reason)
        return await self.get(job_id, owner=owner)

    def cancel_sync(
        self, job_id: str, *, owner: str | None = None, reason: str | None = None
    ) -> Job:
        refuse_in_loop("cancel")
        self.store.write_sync(_cancel, job_id, owner, reason)
        return self.get_sync(job_id, owner=owner)

    async def retry(self, job_id: str, *, fresh: bool = False, owner: str | None = None) -> Job:
        """Runs a failed, canceled or skipped job again, with its recorded steps unless ``fresh``.

        NotPermitted from any other state.
        """
        budgets = self.budgets(await self.get(job_id, owner=owner))
        await self.store.write(_again, job_id, owner, *budgets, fresh)
        return await self.get(job_id, owner=owner)

    def retry_sync(self, job_id: str, *, fresh: bool = False, owner: str | None = None) -> Job:
        refuse_in_loop("retry")
        budgets = self.budgets(self.get_sync(job_id, owner=owner))
        self.store.write_sync(_again, job_id, owner, *budgets, fresh)
        return self.get_sync(job_id, owner=owner)

    async def answer(
        self,
        job_id: str,
        value: Any,
        *,
        question: str | None = None,
        owner: str | None = None,
        by: str = "",
    ) -> Job:
        """Answers an open question (``question`` None: the only one). The first answer wins.

        AnswerRefused: no such open question, or a value that does not fit its schema.
        """
        job = await self.get(job_id, owner=owner)
        key, text = _fitting(job, value, question)
        await self.store.write(_answer, job_id, owner, key, text, by or owner or "operator")
        return await self.get(job_id, owner=owner)

    def answer_sync(
        self,
        job_id: str,
        value: Any,
        *,
        question: str | None = None,
        owner: str | None = None,
        by: str = "",
    ) -> Job:
        refuse_in_loop("answer")
        key, text = _fitting(self.get_sync(job_id, owner=owner), value, question)
        self.store.write_sync(_answer, job_id, owner, key, text, by or owner or "operator")
        return self.get_sync(job_id, owner=owner)

    def _tail(self) -> Tail:
        loop = asyncio.get_running_loop()
        tail = self._tails.get(loop)
        if tail is None:
            tail = self._tails[loop] = Tail(self.store, self.hints)
        return tail


def _fitting(job: Job, value: Any, question: str | None) -> tuple[str, str]:
    """The key of the question meant, and the answer as JSON text."""
    open_keys = [asked.key for asked in job.questions]
    if question is None and len(open_keys) > 1:
        raise AnswerRefused(f"the job asks {len(open_keys)} questions: name one of {open_keys}")
    for asked in job.questions:
        if question in (None, asked.key):
            return asked.key, answer_text(asked, value)
    if question is not None and open_keys:
        raise AnswerRefused(f"question {question!r} is not open; open: {', '.join(open_keys)}")
    raise AnswerRefused(f"the job has no open question (it is {job.state})")


def _result(view: Transaction, job_id: str, owner: str | None) -> str | None:
    return views.result(view, views.find(view, job_id, owner))


def _arguments(view: Transaction, job_id: str, owner: str | None) -> str:
    return views.arguments(view, views.find(view, job_id, owner).n)


def _events(
    view: Transaction, job_id: str, owner: str | None, after: int, limit: int
) -> tuple[list[Event], bool]:
    found = views.find(view, job_id, owner)
    events = views.events(view, job_id, found.n, after, limit)
    return events, found.state in FINAL and len(events) < limit


def _since(
    view: Transaction, owner: str | None, cursor: int, limit: int
) -> tuple[list[Event], int]:
    events = views.events_since(view, owner, cursor, limit)
    if len(events) == limit:
        return events, events[-1].cursor
    return events, max(cursor, _newest(view))


def _newest(view: Transaction) -> int:
    ((position,),) = view.rows("newest_position")
    return position


def _cancel(tx: Transaction, job_id: str, owner: str | None, reason: str | None) -> None:
    moves.cancel(tx, [views.find(tx, job_id, owner).n], reason or "requested")


def _again(
    tx: Transaction, job_id: str, owner: str | None, attempts: int, losses: int, fresh: bool
) -> None:
    moves.again(tx, views.find(tx, job_id, owner).n, attempts, losses, fresh)


def _answer(tx: Transaction, job_id: str, owner: str | None, key: str, text: str, by: str) -> None:
    found: Found = views.find(tx, job_id, owner)
    moves.answer(tx, found, key, text, by)
