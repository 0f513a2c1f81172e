"""What ``@app.around`` puts around each attempt."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from benbi.engine.attempt import Attempt

Manager = Callable[[Any], AbstractAsyncContextManager[Any]]
Body = Callable[[], Coroutine[Any, Any, Any]]


async def run_around(
    managers: Sequence[Manager], context: Any, attempt: Attempt, body: Body
) -> Any:
    """The body's value. The first manager is the outermost.

    What one of them raises is raised here; what one of them swallows is raised all the same.
    """
    # A body in a thread can not be canceled; what is around it can.
    attempt.body = attempt.task
    try:
        return await _within(managers, context, attempt, body)
    finally:
        attempt.body = None


async def _within(managers: Sequence[Manager], context: Any, attempt: Attempt, body: Body) -> Any:
    if not managers:
        # It may have been told to stop since.
        attempt.check()
        attempt.body = None
        try:
            return await body()
        finally:
            attempt.body = attempt.task
    value: Any = None
    failed: BaseException | None = None
    async with managers[0](context):
        try:
            value = await _within(managers[1:], context, attempt, body)
        except BaseException as error:
            failed = error
            raise
    if failed is not None:
        raise failed
    return value
