"""Runs one attempt's body and says what it came to. Every path out ends in an outcome."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn, Protocol, cast

from benbi.engine.attempt import Attempt, current
from benbi.engine.failure import failure_of, message_of
from benbi.engine.opening import arguments_of
from benbi.engine.telling import log
from benbi.engine.threads import Threads
from benbi.errors import Refused, Skip, Snooze, Suspend
from benbi.job import ErrorRecord
from benbi.options import seconds_of
from benbi.outcome import (
    Canceled,
    Completed,
    Failed,
    Outcome,
    Released,
    Skipped,
    Snoozed,
)
from benbi.secret import hide


class Runnable(Protocol):
    """What running needs of a task."""

    @property
    def name(self) -> str: ...
    @property
    def fn(self) -> Any: ...
    @property
    def signature(self) -> Any: ...


async def execute(attempt: Attempt, task: Runnable, context: Any, threads: Threads) -> Outcome:
    """The body from its arguments to its outcome.

    A suspension is one whatever the body made of it (a bare except, ``finally: return``).
    """
    current.set(attempt)
    stopped = as_stopped(attempt)
    if stopped is not None:
        # Before it began: while what is to be replayed was read.
        return stopped
    try:
        if attempt.around is None:
            value = await _body(attempt, task, context, threads)
        else:
            value = await attempt.around(lambda: _body(attempt, task, context, threads))
        outcome = _completed(attempt, task, value)
    except BaseException as error:
        outcome = _judge(attempt, error)
    suspended = attempt.suspended
    if suspended is None:
        return outcome
    if isinstance(outcome, Completed | Failed):
        log.warning(
            "job %s: the task caught its suspension and went on; let BaseException pass "
            "(no bare except, no return in finally around ask and sleep)",
            attempt.claim.job_id,
        )
    await _settle_branches(attempt)
    # A drain that comes now takes nothing from it: what it waits for is recorded.
    stopped = None if attempt.stop == "drain" else as_stopped(attempt)
    return stopped or attempt.suspended or suspended


async def _body(attempt: Attempt, task: Runnable, context: Any, threads: Threads) -> Any:
    signature = task.signature
    arguments: dict[str, Any] = arguments_of(attempt, signature)
    given = (context,) if signature.takes_context else ()
    if signature.is_async:
        attempt.body = attempt.task
        try:
            return await task.fn(*given, **arguments)
        finally:
            attempt.body = None
    return await threads.run(task.fn, *given, **arguments)


def _completed(attempt: Attempt, task: Runnable, value: Any) -> Outcome:
    what = f"the result of {task.name}"
    text = task.signature.result.encode(value, what)
    attempt.fits(what, text)
    return Completed(text)


def _judge(attempt: Attempt, error: BaseException) -> Outcome:
    """An exception's outcome, by what was asked of the attempt and by the error's class."""
    match error:
        case asyncio.CancelledError():
            task = asyncio.current_task()
            stopped = as_stopped(attempt)
            if stopped is not None or attempt.suspended is not None:
                if task is not None:
                    task.uncancel()
                return stopped or Released("drain")
            if task is not None and task.cancelling():
                # The loop itself is ending: the job goes back.
                return Released("drain")
            return failure_of(error)
        case _ if attempt.suspended is not None and _unwinding(error):
            return Released("suspended")
        case Suspend():
            return failure_of(RuntimeError("Suspend was raised outside ask and sleep"))
        case Snooze():
            return _snoozed(error)
        case Skip():
            return Skipped(message_of(error) or "skipped by the task")
        case _:
            # Where the claim is lost, the store refuses whatever is said here.
            return as_stopped(attempt) or failure_of(error)


def _unwinding(error: BaseException) -> bool:
    """Nothing but a suspension, and what it set off in a group."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return group.split((Suspend, asyncio.CancelledError))[1] is None
    return isinstance(error, Suspend)


def _snoozed(error: Snooze) -> Outcome:
    try:
        return Snoozed(seconds_of(error.delay, "Snooze(delay)", _refuse), hide(error.reason))
    except Refused as refused:
        return failure_of(refused)


def _refuse(message: str) -> NoReturn:
    raise Refused(message)


def as_stopped(attempt: Attempt) -> Outcome | None:
    """What the attempt came to where it was asked to stop and did."""
    match attempt.stop:
        case None:
            return None
        case "canceled":
            return Canceled()
        case "timeout":
            return timed_out()
        case reason:
            return Released(reason)


def timed_out() -> Failed:
    """The attempt ran longer than its timeout."""
    rule = "a timeout of the job is retried like a transient error"
    return Failed(ErrorRecord("TimeoutError", "the attempt ran over its timeout", "timeout", rule))


async def _settle_branches(attempt: Attempt) -> None:
    """Siblings of a suspended branch: steps under way are recorded, the rest is canceled."""
    steps = list(attempt.steps_under_way)
    grace = attempt.claim.grace / 1_000_000
    if steps:
        await asyncio.wait(steps, timeout=grace)
    me = asyncio.current_task()
    branches = [task for task in attempt.branches if task is not me and not task.done()]
    for task in branches:
        task.cancel()
    if branches:
        await asyncio.wait(branches, timeout=grace)
