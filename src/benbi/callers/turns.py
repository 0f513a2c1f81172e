"""Synchronous work for an asynchronous caller, in whose task it awaits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from benbi.loops import call_in_loop
from benbi.store.database import Wait

T = TypeVar("T")


class _Turn(NamedTuple):
    """What to await, and where its outcome goes."""

    asked: Coroutine[Any, Any, Any]
    outcome: Future[Any]


async def in_turns(work: Callable[[Wait], T]) -> T:
    """Runs ``work`` in a thread, with a function that awaits here, in the caller's own task.

    The moves of the store are synchronous, and a connection may be bound to the loop and to the
    task that uses it. A cancel ends what is awaited and with it the work: when this returns,
    nothing of it goes on.
    """
    loop = asyncio.get_running_loop()
    turns: asyncio.Queue[_Turn | None] = asyncio.Queue()
    done: Future[T] = Future()

    def wait(asked: Coroutine[Any, Any, Any]) -> Any:
        turn = _Turn(asked, Future())
        call_in_loop(loop, turns.put_nowait, turn)
        return turn.outcome.result()

    def run() -> None:
        try:
            done.set_result(work(wait))
        except BaseException as error:
            done.set_exception(error)
        call_in_loop(loop, turns.put_nowait, None)

    threading.Thread(target=run, name="benbi-caller", daemon=True).start()
    canceled: asyncio.CancelledError | None = None
    while True:
        try:
            turn = await turns.get()
        except asyncio.CancelledError as error:
            # The thread is between two statements: the next one is not begun.
            canceled = error
            continue
        if turn is None:
            break
        canceled = await _take(turn, canceled)
    if canceled is not None:
        raise canceled
    return done.result()


async def _take(
    turn: _Turn, canceled: asyncio.CancelledError | None
) -> asyncio.CancelledError | None:
    """Awaits what a turn asks for; the cancel that came, before or meanwhile."""
    if canceled is not None:
        # It was never begun.
        turn.asked.close()
        turn.outcome.set_exception(RuntimeError("the caller was canceled"))
        return canceled
    try:
        turn.outcome.set_result(await turn.asked)
    except asyncio.CancelledError as error:
        turn.outcome.set_exception(RuntimeError("the caller was canceled"))
        return error
    except BaseException as error:
        turn.outcome.set_exception(error)
    return None
