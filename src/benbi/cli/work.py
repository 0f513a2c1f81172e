"""``benbi work``: one worker process; the first signal drains it, the second stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from benbi.cli import documents, exits
from benbi.cli.options import AT_LEAST_ONE, DEFAULT, Common, ModuleApp, loaded, names, seconds

if TYPE_CHECKING:
    from benbi import Benbi

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LOOK_SECONDS: Final = 0.02

Level = Literal["debug", "info", "warning", "error"]
Queues = Annotated[
    str | None, Parameter(help="Only these queues: gifts,mail. Default: those of its tasks.")
]
Slots = Annotated[
    int | None, Parameter(validator=AT_LEAST_ONE, help="So many jobs at the same time.")
]
Grace = Annotated[str, Parameter(help="How long running jobs may go on after a signal: 30, 2m.")]
LogLevel = Annotated[Level, Parameter(help="What is logged on stderr.")]


def work(
    target: ModuleApp,
    /,
    *,
    queues: Queues = None,
    slots: Slots = None,
    grace: Grace = "30",
    log_level: LogLevel = "info",
    common: Common = DEFAULT,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C drains: no new jobs; running ones get the grace, the rest goes back to
    the queue. A second signal stops at once; what ran then is run again by another worker.
    """
    log_to_stderr(log_level)
    app = loaded(target, common).app
    chosen = names(queues)
    _point_out_strange(app, chosen or [])
    asyncio.run(_work(app, chosen, slots, seconds(grace), common))


def log_to_stderr(level: Level) -> None:
    """Shows what workers and tasks log."""
    logging.basicConfig(level=level.upper(), format=_LOG_FORMAT)


def _point_out_strange(app: Benbi, queues: list[str]) -> None:
    # Not refused: a job may have been given another queue than its task's.
    own = sorted({task.queue for task in app.tasks.values()})
    for queue in queues:
        if queue not in own:
            exits.tell(f"no task has the queue {queue}; the queues of the tasks: {', '.join(own)}")


async def _work(
    app: Benbi, queues: list[str] | None, slots: int | None, grace: float, common: Common
) -> None:
    stop = asyncio.Event()
    _drain_on_signals(asyncio.get_running_loop(), stop, grace)
    async with app:
        working = asyncio.create_task(app.work(queues=queues, slots=slots, stop=stop, grace=grace))
        await _tell_start(app, working, common)
        left = await working
        if left:
            # Threads that run on would keep the process alive, and so would a database that does
            # not answer; their writes are refused already.
            exits.tell(f"{left} jobs did not stop; they go back to the queue")
            os._exit(exits.DONE)


def _drain_on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, grace: float) -> None:
    asked: list[int] = []

    # Plain signal handlers: those of the loop would not run while a task blocks the loop.
    def on_signal(number: int, _: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop.set)
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
