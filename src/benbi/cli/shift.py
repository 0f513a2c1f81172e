"""What a process of ``benbi work`` does between its start and its end, supervised or alone."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from benbi.cli import documents, exits
from benbi.cli.options import Common

if TYPE_CHECKING:
    from benbi import Benbi

Level = Literal["debug", "info", "warning", "error"]

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LOOK_SECONDS: Final = 0.02
# For connections that do not answer.
_CLOSE_SECONDS: Final = 3.0
# Who retires lets its jobs end, however long they take.
_UNLIMITED: Final = 10 * 365 * 86_400.0


class Supervised(Protocol):
    """The line to a supervisor."""

    def say(self, document: dict[str, Any]) -> None: ...
    def listen(
        self,
        on_retire: Callable[[], None],
        on_go_on: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None: ...


@dataclass(frozen=True)
class Shift:
    """What a worker is told: ``queues`` None are those of its tasks, ``grace`` is in seconds,
    ``once`` ends it when there is nothing left that it could claim."""

    app: Benbi
    queues: list[str] | None
    slots: int | None
    grace: float
    once: bool
    common: Common


def log_to_stderr(level: Level) -> None:
    """Shows what workers and tasks log."""
    logging.basicConfig(level=level.upper(), format=_LOG_FORMAT)


def work_shift(shift: Shift, line: Supervised | None = None, max_jobs: int | None = None) -> int:
    """Works until told to stop, or until nothing is left to do; the exit code."""
    _point_out_strange(shift.app, shift.queues or [])
    return asyncio.run(_work(shift, line, max_jobs))


def _point_out_strange(app: Benbi, queues: list[str]) -> None:
    # Not refused: a job may have been given another queue than its task's.
    own = sorted({task.queue for task in app.tasks.values()})
    for queue in queues:
        if queue not in own:
            exits.tell(f"no task has the queue {queue}; the queues of the tasks: {', '.join(own)}")


async def _work(shift: Shift, line: Supervised | None, max_jobs: int | None) -> int:
    app, loop, stop = shift.app, asyncio.get_running_loop(), asyncio.Event()

    def hurry(grace: float) -> None:
        for worker in app.workers_here:
            worker.hurry(grace)
        stop.set()

    def go_on() -> None:
        for worker in app.workers_here:
            worker.wear.max_jobs = None

    _drain_on_signals(loop, hurry, shift.grace)
    if line is not None:
        line.listen(
            lambda: _call(loop, stop.set),
            lambda: _call(loop, go_on),
            lambda: _call(loop, hurry, 0.0),
        )
    async with app:
        working = asyncio.create_task(
            app.work(queues=shift.queues, slots=shift.slots, stop=stop, grace=_UNLIMITED)
        )
        # It is there after one turn of the loop, and has claimed nothing yet.
        await asyncio.sleep(0)
        for worker in app.workers_here:
            worker.wear.max_jobs = max_jobs
        await _tell_start(app, working, shift.common)
        worn = await _watch(shift, working, stop, line)
        left = await working
        if line is not None:
            line.say({"ends": exits.DONE})
        code = exits.WORN if worn and line is None else exits.DONE
        if left:
            # Threads that run on would keep the process alive, and so would a database that does
            # not answer; their writes are refused already.
            exits.tell(f"{left} jobs did not stop; they go back to the queue")
            os._exit(code)
        closing = asyncio.ensure_future(app.close())
        await asyncio.wait([closing], timeout=_CLOSE_SECONDS)
        if worn or not closing.done():
            # What was abandoned runs on in threads; a statement may wait for a cut network.
            os._exit(code)
        await closing
    return code


async def _watch(
    shift: Shift,
    working: asyncio.Task[int],
    stop: asyncio.Event,
    line: Supervised | None,
) -> bool:
    """Waits until the worker drains. True where it should not go on as it is."""
    if working.done():
        return False
    (worker,) = shift.app.workers_here
    idle = asyncio.ensure_future(worker.out_of_work.wait())
    worn = asyncio.ensure_future(worker.wear.worn.wait())
    stopped = asyncio.ensure_future(stop.wait())
    waited: set[asyncio.Future[Any]] = {working, worn, stopped, *([idle] if shift.once else [])}
    while not stop.is_set() and not working.done():
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if worn in waited and worn.done():
            waited.discard(worn)
            if line is None:
                worker.hurry(shift.grace)
            else:
                line.say({"worn": worker.wear.by})
        if idle in waited and idle.done():
            stop.set()
    for waiting in (idle, worn, stopped):
        waiting.cancel()
    return worker.wear.worn.is_set() and worker.abandoned > 0


def _call(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        # The loop is closed: this process ends already.
        return


def _drain_on_signals(
    loop: asyncio.AbstractEventLoop, hurry: Callable[[float], None], grace: float
) -> None:
    asked: list[int] = []

    # Plain signal handlers: those of the loop would not run while a task blocks the loop.
    def on_signal(number: int, _: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(hurry, grace)
        exits.tell(f"draining: running jobs get {grace:g} s; a second signal stops at once")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)


async def _tell_start(app: Benbi, working: asyncio.Task[int], common: Common) -> None:
    """Says what this worker does, as soon as it has looked for jobs once."""
    while not any(worker.claimed_at for worker in app.workers_here):
        done, _ = await asyncio.wait([working], timeout=_LOOK_SECONDS)
        if done:
            return
    (worker,) = app.workers_here
    tasks = sorted(app.tasks)
    if common.as_json:
        documents.write(
            {
                "worker": worker.id,
                "queues": worker.queues,
                "slots": worker.slots,
                "tasks": tasks,
                "database": app.url,
            }
        )
        return
    exits.tell(
        f"worker {worker.id} · queues {', '.join(worker.queues)} · {worker.slots} slots · "
        f"tasks {', '.join(tasks)} · database {app.url}"
    )
