"""Threads for sync tasks and sync steps: daemons of our own.

Not the loop's default executor: its threads are joined at exit, so one hung job would block the
exit past any grace, and a hundred jobs in it would starve the writes they wait for.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from benbi.loops import call_in_loop

# What ends more than the function that raises it, if it gets into a loop.
QUITS = (SystemExit, KeyboardInterrupt, GeneratorExit)


class Threads:
    """Runs functions in daemon threads; idle ones are used again, new ones made as needed.

    The number of threads is bounded by the callers: a worker's slots, a job's steps.
    """

    def __init__(self, name: str = "benbi-job") -> None:
        self._name = name
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._made = 0

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The function's result or exception. Cancelling does not stop the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def call() -> None:
            try:
                value, error = context.run(function, *args, **kwargs), None
            except BaseException as raised:
                value, error = None, raised
            call_in_loop(loop, _settle, future, value, error)

        self._queue(call)
        return await future

    def call(
        self, timeout: float | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """The same from a thread: here, or within ``timeout`` seconds in another thread, which
        is abandoned when they are over. Raises TimeoutError."""
        if timeout is None:
            return function(*args, **kwargs)
        future: Future[Any] = Future()
        context = contextvars.copy_context()

        def call() -> None:
            try:
                value = context.run(function, *args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        self._queue(call)
        return future.result(timeout)

    def _queue(self, call: Callable[[], None]) -> None:
        with self._changed:
            self._calls.append(call)
            if self._idle >= len(self._calls):
                self._changed.notify()
                return
            self._made += 1
            name = f"{self._name}-{self._made}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not self._calls:
                    self._idle += 1
                    woken = self._changed.wait_for(lambda: bool(self._calls), timeout=60)
                    self._idle -= 1
                    if not woken:
                        return
                call = self._calls.popleft()
            call()
            del call


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, (StopIteration, *QUITS)):
        # As PEP 479 has it for generators: a future refuses it, or it would close whoever awaits.
        told = RuntimeError(f"the function raised {error!r}")
        told.__cause__ = error
        future.set_exception(told)
    else:
        future.set_exception(error)
