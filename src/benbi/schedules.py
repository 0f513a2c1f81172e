"""Recurring tasks: ``app.cron`` registers a schedule; these operations look at it and steer it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, cast, get_args, overload

from benbi.engine.enqueue import row_of
from benbi.engine.schedule import UNSEEN, Catchup, Plan, Scheduler
from benbi.engine.ticks import Cron, Every, Ticks, ticks_of
from benbi.errors import InvalidArguments, Refused, TaskDefinitionError
from benbi.handle import JobHandle
from benbi.job import Schedule, as_datetime, new_id
from benbi.loops import refuse_in_loop
from benbi.operations import Operations
from benbi.options import LONGEST_NAME, Duration, Refuse, checked_text
from benbi.store import schedules
from benbi.store.database import Transaction
from benbi.store.schedules import Stored
from benbi.store.views import as_text
from benbi.task import Call, Task

P = ParamSpec("P")
R = TypeVar("R")

_UPCOMING: Final = 5
# What is said of one call, and would be wrong of each of many.
_NOT_OF_A_SCHEDULE: Final = ("key", "run_at", "delay", "connection", "same_call_within")


class Schedules(Operations):
    """The operations on schedules. ``Benbi`` adds all the rest."""

    max_payload: int

    def __init__(self) -> None:
        super().__init__()
        self._plans: dict[str, Plan] = {}
        # By name when it is needed: a test replaces the dict by a copy, and puts it back.
        self.cron = CronRegistrar(self, lambda: self._plans)

    def handle(self, job_id: str) -> JobHandle[Any]:
        raise NotImplementedError

    def scheduler(self) -> Scheduler | None:
        """What fires this app's schedules; None where it has none."""
        return Scheduler(self.store, self._plans) if self._plans else None

    async def schedules(self) -> list[Schedule]:
        """What workers and servers have registered, by name."""
        return await self.store.read(_all)

    def schedules_sync(self) -> list[Schedule]:
        refuse_in_loop("schedules")
        return self.store.read_sync(_all)

    async def pause_schedule(self, name: str) -> Schedule:
        """Its ticks make no jobs until it is resumed; what is there already goes on.

        ScheduleNotFound.
        """
        await self.store.write(schedules.pause, name)
        return await self.store.read(_one, name)

    def pause_schedule_sync(self, name: str) -> Schedule:
        refuse_in_loop("pause_schedule")
        self.store.write_sync(schedules.pause, name)
        return self.store.read_sync(_one, name)

    async def resume_schedule(self, name: str) -> Schedule:
        """Its ticks make jobs from now on; those that passed meanwhile do not.

        ScheduleNotFound.
        """
        await self.store.write(schedules.resume, name)
        return await self.store.read(_one, name)

    def resume_schedule_sync(self, name: str) -> Schedule:
        refuse_in_loop("resume_schedule")
        self.store.write_sync(schedules.resume, name)
        return self.store.read_sync(_one, name)

    async def run_schedule(self, name: str) -> JobHandle[Any]:
        """Makes a job beside the ticks, paused or not; its ``ctx.scheduled_for`` is this moment.

        ScheduleNotFound.
        """
        id = new_id()
        await self.store.write(schedules.run_now, name, id)
        return self.handle(as_text(id))

    def run_schedule_sync(self, name: str) -> JobHandle[Any]:
        refuse_in_loop("run_schedule")
        id = new_id()
        self.store.write_sync(schedules.run_now, name, id)
        return self.handle(as_text(id))


class CronDecorator:
    """What ``app.cron(…)`` is: it plans a task, or a call of one, and returns it as it is."""

    def __init__(
        self,
        app: Schedules,
        plans: Callable[[], dict[str, Plan]],
        ticks: Callable[[Refuse], Ticks],
        catchup: Catchup,
        name: str | None,
    ) -> None:
        self._app = app
        self._plans = plans
        self._ticks = ticks
        self._catchup: Catchup = catchup
        self._name = name

    @overload
    def __call__(self, planned: Task[P, R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, planned: Call, /) -> Call: ...

    def __call__(self, planned: Any, /) -> Any:
        call = self._call(planned)
        name = call.task.name if self._name is None else self._name

        def refuse(problem: str) -> NoReturn:
            raise TaskDefinitionError(f"schedule {name}: {problem}") from None

        self._check(name, call, refuse)
        job = row_of(
            call.task.name,
            call.task.defaults,
            call.arguments,
            call.options,
            self._app.max_payload,
        )
        self._plans()[name] = Plan(name, self._ticks(refuse), self._catchup, job)
        return planned

    def _call(self, planned: Any) -> Call:
        if isinstance(planned, Call):
            return planned
        task = cast("Task[Any, Any]", planned)
        if not isinstance(planned, Task):
            raise TaskDefinitionError(
                f"@app.cron plans a task, not {planned!r}: write it above @app.task, or call it "
                "with one call, app.cron(…)(task.call(…))"
            )
        try:
            return task.call()
        except InvalidArguments as error:
            raise TaskDefinitionError(
                f"schedule of {error}; give arguments by app.cron(…)({task.name}.call(…))"
            ) from None

    def _check(self, name: str, call: Call, refuse: Refuse) -> None:
        if not name or len(checked_text(name, "name", refuse)) > LONGEST_NAME:
            refuse(f"name={name!r}: a text of 1 to {LONGEST_NAME} characters")
        if name in self._plans():
            refuse("there is one of that name already; give this one app.cron(…, name=…)")
        if cast("object", call.task.enqueuer) is not self._app:
            refuse(f"task {call.task.name} is one of another app; use that app's cron")
        given: dict[str, Any] = json.loads(call.arguments)
        secret = [name for name in call.task.signature.secrets if given.get(name) is not None]
        if secret:
            refuse(
                f"{', '.join(secret)}: secret, and a schedule's arguments are stored as they are; "
                "let the task take it from a resource"
            )
        if self._catchup not in get_args(Catchup):
            refuse(f'catchup={self._catchup!r}: "latest", "all" or "none"')
        said = [option for option in _NOT_OF_A_SCHEDULE if getattr(call.options, option)]
        if said:
            refuse(f"{', '.join(said)}: of one job, not of one for each tick; leave it out")


class CronRegistrar:
    """``app.cron``: at the times of a cron expression, or once in each interval."""

    def __init__(self, app: Schedules, plans: Callable[[], dict[str, Plan]]) -> None:
        self._app = app
        self._plans = plans

    @overload
    def __call__(
        self,
        spec: str,
        /,
        *,
        timezone: str = "UTC",
        catchup: Catchup = "latest",
        name: str | None = None,
    ) -> CronDecorator: ...
    @overload
    def __call__(
        self, /, *, every: Duration, catchup: Catchup = "latest", name: str | None = None
    ) -> CronDecorator: ...

    def __call__(
        self,
        spec: str | None = None,
        /,
        *,
        every: Duration | None = None,
        timezone: str | None = None,
        catchup: Catchup = "latest",
        name: str | None = None,
    ) -> CronDecorator:
        """``@app.cron("0 9 * * mon-fri", timezone="Asia/Ho_Chi_Minh")`` above ``@app.task``, or
        ``@app.cron(every="10m")``; with arguments ``app.cron(…)(task.call(…))``.

        ``catchup``: what becomes of ticks that passed while no process ran: one job for the
        "latest", jobs for "all", or "none". ``name``: the schedule's; None: the task's. Raises
        TaskDefinitionError for what is no schedule, naming the remedy.
        """

        def ticks(refuse: Refuse) -> Ticks:
            if (spec is None) == (every is None):
                refuse('say when: "0 9 * * mon-fri", or every="10m", one of them')
            if spec is not None:
                return Cron(spec, "UTC" if timezone is None else timezone, refuse)
            if timezone is not None:
                refuse(
                    "every= counts seconds, which are the same in all zones; leave out timezone="
                )
            return Every(every or 0, refuse)

        return CronDecorator(self._app, self._plans, ticks, catchup, name)


def _one(view: Transaction, name: str) -> Schedule:
    return _as_schedule(schedules.one(view, name), view.now)


def _all(view: Transaction) -> list[Schedule]:
    rows, now = schedules.every(view)
    return [_as_schedule(row, now) for row in rows]


def _as_schedule(row: Stored, now: int) -> Schedule:
    # In order of what somebody can do about it.
    state = "active"
    if now - row.seen_at >= UNSEEN:
        state = "retired"
    if row.paused_at is not None:
        state = "paused"
    return Schedule(
        name=row.name,
        task=row.task,
        spec=row.spec,
        timezone=row.timezone,
        catchup=row.catchup,
        state=state,
        last=as_datetime(row.fired_at),
        last_job=None if row.last_job is None else as_text(row.last_job),
        seen_at=_time(row.seen_at),
        paused_at=as_datetime(row.paused_at),
        upcoming=tuple(_upcoming(row, now)),
    )


def _upcoming(row: Stored, now: int) -> Iterator[datetime]:
    try:
        ticks = ticks_of(row.spec, row.timezone, _refuse)
    except Refused:
        # Newer code wrote it, or this machine lacks the zone.
        return
    tick = ticks.after(max(now, row.last_tick))
    for _ in range(_UPCOMING):
        if tick is None:
            return
        yield _time(tick)
        tick = ticks.after(tick)


def _time(micros: int) -> Any:
    return as_datetime(micros)


def _refuse(problem: str) -> NoReturn:
    raise Refused(problem)
