"""Benbi: the one place that wires tasks, store, worker and doors together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from os import PathLike
from typing import Any, Unpack, cast

from benbi.bulk import Bulk
from benbi.callers import enqueue_in, enqueue_in_sync
from benbi.codec import check_against_schema
from benbi.connections import Connections
from benbi.engine.children import check_isolated
from benbi.engine.enqueue import MOST_ATOMIC, connection_of, published, row_of, rows_of
from benbi.engine.hints import Hints
from benbi.engine.opening import readable
from benbi.engine.publish import publish_tasks
from benbi.engine.resources import Resources
from benbi.engine.threads import Threads
from benbi.engine.upkeep import Upkeep
from benbi.engine.worker import Worker
from benbi.errors import ConfigurationError, TaskDefinitionError
from benbi.handle import JobHandle
from benbi.hooks import Hooks
from benbi.job import CatalogueEntry, Job, NewJob
from benbi.loops import refuse_in_loop, refuse_to_block
from benbi.options import CallOptions, Defaults
from benbi.oversight import Oversight
from benbi.runs import Runs
from benbi.schedules import Schedules
from benbi.secret import secrets_in
from benbi.serving import Serving
from benbi.settings import (
    DEFAULT_GRACE,
    DEFAULT_MAX_ARTIFACT,
    DEFAULT_SCHEMA,
    DEFAULT_SLOTS,
    check_artifacts,
    check_listen_url,
    check_settings,
)
from benbi.store import views
from benbi.store.bulk import Ended
from benbi.store.database import Database, Transaction
from benbi.store.store import Store
from benbi.task import Call, Options, Task, TaskRegistrar
from benbi.version import __version__


class Benbi(Bulk, Hooks, Oversight, Runs, Schedules, Serving):
    """An app: its tasks and where their jobs are kept. Makes no connection before first use.

    ``url``: ``postgresql://user@host/database``, ``sqlite:////absolute.db``, a path, ``:memory:``;
    None: BENBI_URL, else a file in the user's state directory. ``slots``: jobs that a worker runs
    at once. ``heartbeat_timeout``: seconds without a beat after which a worker is taken for dead
    (all intervals derive from it).
    ``max_payload``: bytes of JSON that arguments, results, steps and partials may have.
    ``durability``: "full" (a commit is on disk before it returns) or "normal" (the last commits
    may be lost when the machine dies, never when the process does). ``artifacts``: the folder of
    what jobs save, at most ``max_artifact`` bytes each; None: BENBI_ARTIFACTS, else by the file.
    ``schema``: the schema of a PostgreSQL database in which everything lies, made if need be.
    ``listen_url``: the same PostgreSQL without the pooler that ``url`` leads to, for LISTEN; None:
    BENBI_LISTEN_URL, else ``url``.
    """

    # A module that a process imports before those of the tasks.
    first_import: str | None = None

    def __init__(
        self,
        url: str | None = None,
        *,
        slots: int = DEFAULT_SLOTS,
        heartbeat_timeout: float = 10.0,
        max_payload: int = 1_048_576,
        durability: str = "full",
        artifacts: str | PathLike[str] | None = None,
        max_artifact: int = DEFAULT_MAX_ARTIFACT,
        schema: str = DEFAULT_SCHEMA,
        listen_url: str | None = None,
    ) -> None:
        super().__init__()
        check_settings(url, slots, heartbeat_timeout, max_payload)
        check_artifacts(artifacts, max_artifact)
        check_listen_url(listen_url)
        self.slots = slots
        self.schema = schema
        self.heartbeat_timeout = heartbeat_timeout
        self.max_payload = max_payload
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.task = TaskRegistrar(self, self._add)
        self._connections = Connections(
            url, durability, artifacts, max_artifact, schema, listen_url
        )
        self._workers: list[Worker] = []

    @property
    def url(self) -> str:
        """Where the jobs are kept; without credentials."""
        return self.database.url

    # Opening and closing.

    @property
    def database(self) -> Database:
        """The database behind the seam; no connection is made by asking for it."""
        return self._connections.database

    @property
    def store(self) -> Store:
        return self._connections.store

    @property
    def hints(self) -> Hints:
        return self._connections.hints

    async def __aenter__(self) -> Benbi:
        await self.store.read(_nothing)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> Benbi:
        refuse_to_block("with app:", "async with app:")
        self.store.read_sync(_nothing)
        return self

    def __exit__(self, *_: object) -> None:
        self.close_sync()

    async def close(self) -> None:
        """Drains the workers of this process, commits what is queued and disconnects.

        Whoever follows events then is told by StoreError. The app can be used again afterwards.
        """
        await asyncio.gather(*(asyncio.wrap_future(ending) for ending in self._end_workers()))
        await Threads("benbi-close").run(self._disconnect)

    def close_sync(self) -> None:
        refuse_in_loop("close")
        for ending in self._end_workers():
            ending.result()
        self._disconnect()

    def _end_workers(self) -> list[Future[None]]:
        return [
            asyncio.run_coroutine_threadsafe(worker.end(), worker.loop)
            for worker in self._workers
            if worker.loop.is_running()
        ]

    def _disconnect(self) -> None:
        tails = list(self._tails.values())
        self._tails.clear()
        self._connections.close()
        for tail in tails:
            tail.hint()

    # Tasks.

    def _add(self, task: Task[Any, Any]) -> None:
        for name in (task.name, *task.aliases):
            if name in self._names():
                raise TaskDefinitionError(
                    f"two tasks answer to the name {name!r}; give one of them @app.task(name=…)"
                )
        self.tasks[task.name] = task

    def _names(self) -> dict[str, Task[Any, Any]]:
        """Every name a task answers to, its aliases included."""
        return {name: task for task in self.tasks.values() for name in (task.name, *task.aliases)}

    # Enqueue.

    async def submit(self, calls: Sequence[Call]) -> list[JobHandle[Any]]:
        """Stores checked calls atomically."""
        rows = rows_of(self, calls, self.max_payload)
        return self.handles(calls, await self.keep(rows, connection_of(calls)))

    def submit_sync(self, calls: Sequence[Call]) -> list[JobHandle[Any]]:
        refuse_in_loop("enqueue")
        rows = rows_of(self, calls, self.max_payload)
        return self.handles(calls, self.keep_sync(rows, connection_of(calls)))

    async def keep(self, rows: Sequence[NewJob], connection: Any) -> list[bytes]:
        connection = self.transaction_for(connection)
        if connection is None:
            return await self.store.enqueue(rows)
        return await enqueue_in(self.store, connection, rows, self.wake)

    def keep_sync(self, rows: Sequence[NewJob], connection: Any) -> list[bytes]:
        connection = self.transaction_for(connection)
        if connection is None:
            return self.store.enqueue_sync(rows)
        return enqueue_in_sync(self.store, connection, rows, self.wake)

    def transaction_for(self, connection: Any) -> Any:
        """The connection in whose transaction jobs are stored for which the caller said
        ``connection``; None: in one of our own."""
        return connection

    def wake(self) -> None:
        """Tells workers, in this process and others, that jobs may have come: after the commit of
        a connection of your own, which tells nobody. Does not wait, and may be left out: workers
        look by themselves once a second."""
        self.store.hint()

    async def enqueue_many(
        self, calls: Sequence[Call], *, atomic: bool = True
    ) -> list[JobHandle[Any]]:
        """Stores calls (``task.call(…)``) in one transaction, at most 10,000 of them;
        ``atomic=False`` stores any number in several transactions, in order."""
        if atomic or not calls:
            return await self.submit(calls) if calls else []
        handles: list[JobHandle[Any]] = []
        for first in range(0, len(calls), MOST_ATOMIC):
            handles += await self.submit(calls[first : first + MOST_ATOMIC])
        return handles

    def enqueue_many_sync(
        self, calls: Sequence[Call], *, atomic: bool = True
    ) -> list[JobHandle[Any]]:
        if atomic or not calls:
            return self.submit_sync(calls) if calls else []
        handles: list[JobHandle[Any]] = []
        for first in range(0, len(calls), MOST_ATOMIC):
            handles += self.submit_sync(calls[first : first + MOST_ATOMIC])
        return handles

    async def enqueue(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[CallOptions],
    ) -> JobHandle[Any]:
        """Stores one job by the name of its task, registered here or published by a worker.

        ``options``: key, owner, priority, delay, run_at, queue, expires_in, same_call_within,
        after, when, as in ``task.options``. Raises UnknownTask, InvalidArguments and the rest of
        Refused.
        """
        here = self._names()
        entry = None if name in here else published(await self.catalogue(), name, here)
        wanted, row = self._row(name, entry, arguments or {}, options)
        (job_id,) = await self.keep([row], wanted.connection)
        return self._handle(name, job_id)

    def enqueue_sync(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[CallOptions],
    ) -> JobHandle[Any]:
        refuse_in_loop("enqueue")
        here = self._names()
        entry = None if name in here else published(self.catalogue_sync(), name, here)
        wanted, row = self._row(name, entry, arguments or {}, options)
        (job_id,) = self.keep_sync([row], wanted.connection)
        return self._handle(name, job_id)

    def _row(
        self,
        name: str,
        entry: CatalogueEntry | None,
        arguments: Mapping[str, Any],
        options: CallOptions,
    ) -> tuple[Options, NewJob]:
        wanted = Options(**cast("dict[str, Any]", options))
        if entry is None:
            task = self._names()[name]
            name, defaults = task.name, task.defaults
            text, secrets = task.signature.encode_mapping(arguments), task.signature.secrets
        else:
            defaults, secrets = Defaults(**entry.defaults), secrets_in(entry.arguments_schema)
            text = check_against_schema(name, entry.arguments_schema, arguments)
        return wanted, row_of(name, defaults, text, wanted, self.max_payload, secrets)

    def handle(self, job_id: str) -> JobHandle[Any]:
        """A handle on a job by its id; results are plain JSON values."""
        return JobHandle(self, job_id, None)

    def _handle(self, name: str, job_id: bytes) -> JobHandle[Any]:
        task = self._names().get(name)
        codec = None if task is None else task.signature.result
        return JobHandle(self, views.as_text(job_id), codec)

    # Work.

    async def work(
        self,
        queues: Sequence[str] | None = None,
        slots: int | None = None,
        stop: asyncio.Event | None = None,
        grace: float = DEFAULT_GRACE,
        started: asyncio.Event | None = None,
    ) -> int:
        """Runs a worker in this loop until ``stop`` is set, then drains for at most ``grace``.

        ``queues`` None: those of the app's tasks. ``started`` is set once the worker has
        registered: what can not start raises before. Returns the number of jobs whose code did not
        stop: with any of them left, end the process (``os._exit``) rather than wait for threads.
        """
        names = readable(self._names())
        if not names:
            raise ConfigurationError("this app has no tasks that this process can run")
        if slots is not None and slots < 1:
            raise ConfigurationError(f"slots={slots}: 1 or more")
        check_isolated(self.tasks.values())
        resources = Resources(self.effective)
        worker = Worker(
            self.store,
            names,
            self.hints,
            queues=queues or sorted({task.queue for task in names.values()}),
            slots=slots or self.slots,
            heartbeat_timeout=self.heartbeat_timeout,
            max_payload=self.max_payload,
            version=__version__,
            publish=lambda tx: publish_tasks(tx, self.tasks.values()),
            context_for=partial(self.context_for, resources, self.database.now),
            threads=self.make_threads(),
            scheduler=self.scheduler(),
        )
        self._workers.append(worker)
        try:
            async with resources:
                return await worker.run(stop or asyncio.Event(), grace, started)
        finally:
            self._workers.remove(worker)
            worker.ended.set()

    def make_threads(self) -> Threads:
        """The threads of one worker, for sync tasks and sync steps."""
        return Threads()

    async def upkeep(self, stop: asyncio.Event) -> None:
        """Promotes, rescues, prunes and fires schedules until ``stop`` is set. Every worker does
        it as well."""
        upkeep = Upkeep(
            self.store, heartbeat_timeout=self.heartbeat_timeout, scheduler=self.scheduler()
        )
        task = asyncio.create_task(upkeep.run())
        try:
            await stop.wait()
        finally:
            task.cancel()
            await asyncio.wait([task])

    @property
    def workers_here(self) -> Sequence[Worker]:
        """The workers that run in this process."""
        return tuple(self._workers)

    async def publish(self) -> None:
        """Writes the catalogue rows of the app's tasks, so that doors without the code see them."""
        await self.store.write(_publish, list(self.tasks.values()))

    def publish_sync(self) -> None:
        refuse_in_loop("publish")
        self.store.write_sync(_publish, list(self.tasks.values()))

    def budgets(self, job: Job | Ended) -> tuple[int, int]:
        task = self._names().get(job.task)
        if task is not None:
            return task.retry.attempts, task.max_losses
        return max(1, job.max_attempts), max(1, job.max_losses)


def _nothing(view: Transaction) -> None:
    return None


def _publish(tx: Transaction, tasks: Sequence[Task[Any, Any]]) -> None:
    publish_tasks(tx, tasks)
