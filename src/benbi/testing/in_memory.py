"""An app on a new database in memory and a clock of the test: what ``benbi_app`` hands out."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from weakref import WeakKeyDictionary

from benbi.app import Benbi
from benbi.connections import Connections
from benbi.engine import replay
from benbi.engine.upkeep import Upkeep
from benbi.engine.worker import Worker
from benbi.job import Job
from benbi.loops import refuse_in_loop
from benbi.options import Duration
from benbi.store import views
from benbi.store.database import Database, Transaction
from benbi.store.sqlite import SqliteDatabase
from benbi.task import Task
from benbi.testing.clock import FakeClock

# Seconds of the host's clock.
PATIENCE = 10.0
GRACE = 0.1
POLL_SECONDS = 0.2
MOST = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A job as a test sees it: its record, and its arguments decoded, defaults included."""

    job: Job
    arguments: dict[str, Any]


class InMemory(Connections):
    """Connections to one ``:memory:`` database, by the time of ``clock``."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(":memory:", "full")
        self.clock = clock

    @property
    def database(self) -> Database:
        if self._database is None:
            self._database = SqliteDatabase(":memory:", clock=self.clock)
        return self._database


class TestApp(Benbi):
    """The app under test, with what only tests may do. Made by ``fresh``.

    It is another view of the user's own object: what happens to one happens to the other.
    """

    # No class of tests, whatever pytest thinks of its name.
    __test__ = False

    @property
    def clock(self) -> FakeClock:
        """The time of this app: jobs are due by it, and ``ctx.now()`` tells it."""
        return cast("InMemory", self._connections).clock

    async def run_until_idle(self, timeout: float = PATIENCE) -> None:
        """Runs a worker until nothing is left to run now; what is due later stays.

        Jobs that ask stay as they are until somebody answers. Raises TimeoutError, which names
        the jobs, where they still run after ``timeout`` seconds of the host's clock.
        """
        async with self._at_work(timeout) as settle:
            await settle()

    def run_until_idle_sync(self, timeout: float = PATIENCE) -> None:
        refuse_in_loop("run_until_idle")
        _run(self.run_until_idle(timeout))

    async def advance(self, duration: Duration, timeout: float = PATIENCE) -> None:
        """Moves the clock on, from one due moment to the next, and runs at each what is due then:
        jobs, and the ticks of the app's schedules.

        ``duration``: seconds, a timedelta, or a text such as "1h". ``timeout``: as in
        ``run_until_idle``, for each moment.
        """
        end = FakeClock(self.clock.now)
        end.advance(duration)
        async with self._at_work(timeout) as settle:
            await settle()
            while (due := await self._next_due()) is not None and due <= end():
                self.clock.move_to(_EPOCH + timedelta(microseconds=due))
                await settle()
            self.clock.move_to(end.now)
            await settle()

    async def _next_due(self) -> int | None:
        """The next moment at which something happens by itself."""
        moments = [await self.store.read(_next_change)]
        if (scheduler := self.scheduler()) is not None:
            moments.append(await self.store.read(scheduler.next_tick))
        return min((at for at in moments if at is not None), default=None)

    def advance_sync(self, duration: Duration, timeout: float = PATIENCE) -> None:
        refuse_in_loop("advance")
        _run(self.advance(duration, timeout))

    def enqueued(
        self, task: Task[Any, Any] | str | None = None, /, *args: Any, **arguments: Any
    ) -> list[Enqueued]:
        """The jobs of a task (None: of all), the oldest first; only those that were given these
        arguments, as far as they are named. For sync and async tests.

        TypeError where the task has no such argument.
        """
        name = task.name if isinstance(task, Task) else task
        wanted = self._named(name, args, arguments)
        return [
            found
            for found in self.store.read_sync(_enqueued, name, self._decoded)
            if all(found.arguments.get(key) == value for key, value in wanted.items())
        ]

    def _named(
        self, name: str | None, args: tuple[Any, ...], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        if not args and not arguments:
            return {}
        if name is None or name not in self.tasks:
            raise TypeError(f"enqueued() with arguments needs a task of this app, not {name!r}")
        parameters = self.tasks[name].signature.parameters
        unknown = [key for key in arguments if key not in parameters]
        if unknown or len(args) > len(parameters):
            raise TypeError(f"{name} takes {', '.join(parameters) or 'no arguments'}")
        return dict(zip(parameters, args, strict=False)) | arguments

    def _decoded(self, name: str, text: str) -> dict[str, Any]:
        task = self._names().get(name)
        return cast(
            "dict[str, Any]", json.loads(text) if task is None else task.signature.decode(text)
        )

    @asynccontextmanager
    async def _at_work(
        self, timeout: float
    ) -> AsyncGenerator[Callable[[], Coroutine[Any, Any, None]]]:
        """A worker for as long as the block lasts, and what waits until it has nothing to do."""
        stop, changed = asyncio.Event(), asyncio.Event()
        working = asyncio.create_task(self.work(stop=stop, grace=GRACE))
        unsubscribe = self.hints.subscribe(changed.set)

        upkeep = Upkeep(
            self.store, heartbeat_timeout=self.heartbeat_timeout, scheduler=self.scheduler()
        )

        async def settle() -> None:
            try:
                async with asyncio.timeout(timeout):
                    await upkeep.round()
                    while not working.done() and not await self._idle():
                        with suppress(TimeoutError):
                            await asyncio.wait_for(changed.wait(), POLL_SECONDS)
                        changed.clear()
            except TimeoutError:
                raise TimeoutError(await self._still_running(timeout)) from None

        try:
            yield settle
        finally:
            unsubscribe()
            stop.set()
            await working

    async def _idle(self) -> bool:
        here: list[Worker] = list(self.workers_here)
        if not here or not all([await worker.idle() for worker in here]):
            return False
        # A test is about what happens to a job, whichever fleet would serve its queue.
        pending = {job.queue for job in await self.jobs(state="pending", limit=MOST)}
        strange = pending.difference(*(worker.queues for worker in here))
        here[-1].queues += sorted(strange)
        return not strange

    async def _still_running(self, timeout: float) -> str:
        jobs = [*await self.jobs(state="running"), *await self.jobs(state="pending")]
        named = ", ".join(f"{job.task} ({job.id}, {job.state})" for job in jobs)
        return f"not idle after {timeout:g} s: {named}"


@contextmanager
def fresh(app: Benbi, *, clock: FakeClock | None = None) -> Generator[TestApp]:
    """The app on a new ``:memory:`` database, for as long as the block lasts.

    ``clock`` None: one that starts at the present. What the test registers with the app (tasks,
    overrides) is forgotten at the end, and so is the database. A step's back-off does not wait in
    its place: the job is due again by the clock of the test.
    """
    before = dict(vars(app))
    connections = InMemory(clock or FakeClock())
    vars(app).update(
        {name: copy.copy(value) for name, value in before.items() if type(value) in (dict, list)},
        _connections=connections,
        _tails=WeakKeyDictionary(),
    )
    in_place, replay.WAIT_IN_PLACE_SECONDS = replay.WAIT_IN_PLACE_SECONDS, 0.0
    try:
        yield _view_of(app)
    finally:
        replay.WAIT_IN_PLACE_SECONDS = in_place
        connections.close()
        vars(app).clear()
        vars(app).update(before)


def enqueued(task: Task[Any, Any], /, *args: Any, **arguments: Any) -> list[Enqueued]:
    """As ``TestApp.enqueued``, for the app that the task belongs to."""
    app = task.enqueuer
    if not isinstance(app, Benbi) or not isinstance(vars(app)["_connections"], InMemory):
        raise TypeError(f"the app of {task.name} is not under test: use benbi_app, or fresh(app)")
    return _view_of(app).enqueued(task, *args, **arguments)


def _view_of(app: Benbi) -> TestApp:
    kind = type(app)
    if not issubclass(kind, TestApp):
        kind = TestApp if kind is Benbi else type("TestApp", (TestApp, kind), {})
    view = kind.__new__(kind)
    view.__dict__ = app.__dict__
    return cast("TestApp", view)


def _run(work: Coroutine[Any, Any, None]) -> None:
    # A loop of its own that is never the thread's current one: pytest's plugins keep theirs there.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(work)


def _enqueued(
    view: Transaction, name: str | None, decode: Callable[[str, str], dict[str, Any]]
) -> list[Enqueued]:
    found = reversed(views.jobs(view, None, None, name, None, None, MOST))
    return [
        Enqueued(job, decode(job.task, views.arguments(view, views.find(view, job.id, None).n)))
        for job in found
    ]


def _next_change(view: Transaction) -> int | None:
    ((at,),) = view.rows("next_change")
    return at
