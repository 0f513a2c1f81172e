"""What a task can do: tell, record, ask, sleep. ``Context`` awaits, ``SyncContext`` blocks.

A job that asks, sleeps, is retried or is rescued starts its function from the top: steps, asks
and sleeps return what was recorded, everything outside them runs again.
"""

from __future__ import annotations

import asyncio
import inspect
import random as random_numbers
import uuid as uuids
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload
from uuid import UUID

from benbi.engine import replay
from benbi.engine.facts import Facts
from benbi.engine.patience import FOR_A_WHILE, pauses
from benbi.engine.replay import AskOptions, Done, OnChange, Step
from benbi.engine.resources import Resource
from benbi.engine.saving import Saving, SyncSaving
from benbi.engine.threads import QUITS
from benbi.engine.uses import current_step
from benbi.options import Duration
from benbi.retry import Retry
from benbi.store.lifecycle import Accepted, Told
from benbi.waiting import AwaitsJobs, WaitsForJobs

P = ParamSpec("P")
T = TypeVar("T")


class Context(Facts, Saving, AwaitsJobs):
    """An async task's view of its job. First parameter of the task, annotated ``Context``."""

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Reports how far the job is. Returns once queued; what comes often is merged."""
        self._note_branch()
        self._attempt.check()
        self._attempt.progress(done, total, message)

    async def partial(self, value: Any) -> None:
        """Publishes a partial result; returns once it is durable. PayloadTooLarge, NotEncodable."""
        self._note_branch()
        self._attempt.check()
        text = replay.partial_text(value)
        if self._attempt.partial_is_new(text):
            await self._written(events=[Told("partial", None, text)], size=len(text))

    @overload
    def step(
        self,
        function: Callable[P, Coroutine[Any, Any, T]],
        *,
        name: str | None = None,
        key: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        on_change: OnChange = "fail",
    ) -> Callable[P, Awaitable[T]]: ...
    @overload
    def step(
        self,
        function: Callable[P, T],
        *,
        name: str | None = None,
        key: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        on_change: OnChange = "fail",
    ) -> Callable[P, Awaitable[T]]: ...
    def step(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        key: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        on_change: OnChange = "fail",
    ) -> Callable[..., Awaitable[Any]]:
        """``await ctx.step(fn)(*args)``: runs once, ever; recorded before it returns.

        Its identity is (name, nth use) or (name, key). ``retry``: tries of the step within its
        attempt (default one). ``timeout``: of one try. ``on_change``: what to do where the recorded
        call had other arguments ("fail" raises StepChanged, "keep", "rerun"). A plain function
        runs in a thread. The value is always decoded from what was recorded, the first time too.
        """

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._note_branch()
            found = replay.open_step(
                self._attempt,
                function,
                args,
                kwargs,
                name=name,
                key=key,
                retry=retry,
                timeout=timeout,
                on_change=on_change,
            )
            if isinstance(found, Done):
                return replay.result_codec(function).decode(found.text)
            # A task of its own: a canceled sibling must not cut a step between effect and record.
            task = asyncio.ensure_future(self._run(found, function, args, kwargs))
            self._attempt.steps_under_way.add(task)
            task.add_done_callback(self._step_ended)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                if self._attempt.suspended is None and not task.done():
                    if not found.done:
                        task.cancel()
                    # It has unwound, or is recorded, before whoever called it goes on.
                    await asyncio.wait([task])
                raise

        return call

    def _step_ended(self, task: asyncio.Task[Any]) -> None:
        self._attempt.steps_under_way.discard(task)
        if not task.cancelled():
            # Recorded, if it failed; its caller may have been canceled meanwhile.
            task.exception()

    async def _run(
        self,
        step: Step,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        current_step.set(step.identity)
        try:
            while True:
                try:
                    value = await self._call(function, args, kwargs, step.timeout)
                except Exception as error:
                    record, told, pause = replay.failed(self._attempt, step, error)
                    await self._written(events=[told], steps=[record])
                    if pause is None:
                        raise
                    replay.back_off(self._attempt, step, pause)
                    await self._pause(pause)
                    self._attempt.check()
                else:
                    text, record, told = replay.completed(self._attempt, step, value)
                    await self._written(events=[told], steps=[record], size=len(text))
                    return step.codec.decode(text)
        finally:
            self._attempt.uses.leave(step.identity)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> Any:
        try:
            async with asyncio.timeout(timeout):
                if inspect.iscoroutinefunction(function):
                    return await function(*args, **kwargs)
                value = await self._threads.run(function, *args, **kwargs)
                return await value if inspect.isawaitable(value) else value
        except QUITS as error:
            # Out of a task of the loop it would end the loop, or whoever awaits it.
            raise RuntimeError(f"the step raised {error!r}") from error

    @overload
    async def ask(
        self, question: str, type_: type[T] = str, **options: Unpack[AskOptions]
    ) -> T: ...
    @overload
    async def ask(self, question: str, type_: Any, **options: Unpack[AskOptions]) -> Any: ...
    async def ask(self, question: str, type_: Any = str, **options: Unpack[AskOptions]) -> Any:
        """Asks a person and frees the worker until the answer is there.

        ``type_`` is what the answer must be; ``Literal["a", "b"]`` is a choice. ``timeout``: then
        ``default`` is the answer; without a default the job fails as expired. The first answer
        wins. ``key`` names the question, else they are numbered.
        """
        self._note_branch()
        return replay.ask(self._attempt, question, type_, **options)

    async def sleep(self, duration: Duration) -> None:
        """Frees the worker for so long (seconds, or "10m"); the wake time is recorded once."""
        self._note_branch()
        replay.sleep(self._attempt, duration, self._clock())

    async def resource(self, resource: Resource[T]) -> T:
        """The value of an ``@app.resource``; this worker's first use of it opens it.

        Raises what opening it raises, which fails this attempt; the next use tries again.
        """
        self._note_branch()
        self._attempt.check()
        return await self._resources.get(resource)

    async def now(self) -> datetime:
        """The time, recorded: the same on every replay."""
        return await self.step(self._now, name="now")()

    async def uuid(self) -> UUID:
        """A random UUID, recorded."""
        return await self.step(_uuid, name="uuid")()

    async def random(self) -> float:
        """A random number in [0, 1), recorded."""
        return await self.step(random_numbers.random, name="random")()

    async def _written(self, **what: Any) -> Accepted:
        pause = pauses()
        while True:
            try:
                ticket = self._attempt.write(loop=asyncio.get_running_loop(), **what)
                accepted = await ticket.outcome()
                return self._attempt.recorded_now(accepted, what.get("steps", ()))
            except FOR_A_WHILE:
                if "steps" not in what or self._attempt.stop is not None:
                    raise
            await asyncio.sleep(next(pause))

    def _note_branch(self) -> None:
        task, branches = asyncio.current_task(), self._attempt.branches
        if task is not None and task not in branches:
            branches.add(task)
            task.add_done_callback(branches.discard)


class SyncContext(Facts, SyncSaving, WaitsForJobs):
    """A sync task's view of its job: the same names, blocking. The task runs in a thread."""

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Reports how far the job is. Returns once queued; what comes often is merged."""
        self._attempt.check()
        self._attempt.progress(done, total, message)

    def partial(self, value: Any) -> None:
        """Publishes a partial result; returns once it is durable. PayloadTooLarge, NotEncodable."""
        self._attempt.check()
        text = replay.partial_text(value)
        if self._attempt.partial_is_new(text):
            self._written(events=[Told("partial", None, text)], size=len(text))

    def step(
        self,
        function: Callable[P, T],
        *,
        name: str | None = None,
        key: str | None = None,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        on_change: OnChange = "fail",
    ) -> Callable[P, T]:
        """``ctx.step(fn)(*args)``: runs once, ever; recorded before it returns. As Context.step."""
        return _SyncStep(self, function, name, key, retry, timeout, on_change)

    @overload
    def ask(self, question: str, type_: type[T] = str, **options: Unpack[AskOptions]) -> T: ...
    @overload
    def ask(self, question: str, type_: Any, **options: Unpack[AskOptions]) -> Any: ...
    def ask(self, question: str, type_: Any = str, **options: Unpack[AskOptions]) -> Any:
        """Asks a person and frees the worker until the answer is there. See Context.ask."""
        return replay.ask(self._attempt, question, type_, **options)

    def sleep(self, duration: Duration) -> None:
        """Frees the worker for so long (seconds, or "10m"); the wake time is recorded once."""
        replay.sleep(self._attempt, duration, self._clock())

    def resource(self, resource: Resource[T]) -> T:
        """The value of an ``@app.resource``; see Context.resource.

        An async one is opened in the worker's loop and handed over as it is: use here only what
        may be used in a thread.
        """
        self._attempt.check()
        return self._resources.get_in_thread(resource)

    def now(self) -> datetime:
        """The time, recorded: the same on every replay."""
        return self.step(self._now, name="now")()

    def uuid(self) -> UUID:
        """A random UUID, recorded."""
        return self.step(_uuid, name="uuid")()

    def random(self) -> float:
        """A random number in [0, 1), recorded."""
        return self.step(random_numbers.random, name="random")()

    def _written(self, **what: Any) -> Accepted:
        pause = pauses()
        while True:
            try:
                done = self._attempt.write(**what).result()
                return self._attempt.recorded_now(done, what.get("steps", ()))
            except FOR_A_WHILE:
                if "steps" not in what or self._attempt.stop is not None:
                    raise
            self._attempt.pause(next(pause))


class _SyncStep(Generic[P, T]):
    """One sync step, ready to be called."""

    def __init__(
        self,
        context: SyncContext,
        function: Callable[P, T],
        name: str | None,
        key: str | None,
        retry: Retry | int | None,
        timeout: Duration | None,
        on_change: OnChange,
    ) -> None:
        self._context = context
        self._function = function
        self._options: dict[str, Any] = {
            "name": name,
            "key": key,
            "retry": retry,
            "timeout": timeout,
            "on_change": on_change,
        }

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        attempt = self._context._attempt  # pyright: ignore[reportPrivateUsage]
        if inspect.iscoroutinefunction(self._function):
            raise TypeError(
                "a sync task can only run plain functions as steps; make the task async"
            )
        found = replay.open_step(attempt, self._function, args, kwargs, **self._options)
        if isinstance(found, Done):
            return replay.result_codec(self._function).decode(found.text)
        before = current_step.set(found.identity)
        try:
            return self._run(found, args, kwargs)
        finally:
            current_step.reset(before)
            attempt.uses.leave(found.identity)

    def _run(self, step: Step, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        context = self._context
        attempt, written = context._attempt, context._written  # pyright: ignore[reportPrivateUsage]
        while True:
            try:
                value = context._threads.call(step.timeout, self._function, *args, **kwargs)  # pyright: ignore[reportPrivateUsage]
            except Exception as error:
                record, told, pause = replay.failed(attempt, step, error)
                written(events=[told], steps=[record])
                if pause is None:
                    raise
                replay.back_off(attempt, step, pause)
                attempt.pause(pause)
                attempt.check()
            else:
                text, record, told = replay.completed(attempt, step, value)
                written(events=[told], steps=[record], size=len(text))
                return step.codec.decode(text)


def _uuid() -> UUID:
    return uuids.uuid4()
