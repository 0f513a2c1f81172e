"""The process that runs the bodies of isolated tasks for a worker, one job after the other.

The context, the steps and the codec are those of any job; only what they would write goes to the
worker. When the worker is gone, this process and whatever it has started end at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import queue
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

from benbi import errors
from benbi.codec import Signature, compile_signature
from benbi.context import Context, SyncContext
from benbi.engine import frames
from benbi.engine.attempt import Attempt, current
from benbi.engine.execute import execute
from benbi.engine.failure import failure_of
from benbi.engine.frames import LENGTH_BYTES, Frame, packed
from benbi.engine.joblog import watch
from benbi.engine.resources import Resources
from benbi.engine.threads import Threads
from benbi.loops import call_in_loop
from benbi.outcome import Outcome
from benbi.processes.ends import end_own_group
from benbi.store.batcher import Ticket
from benbi.store.clock import HeardClock
from benbi.store.lifecycle import Accepted, Write
from benbi.store.store import Store
from benbi.task import Task

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class IsolatedContext(Context):
    """The context of an isolated async task: what needs more than a line to the worker refuses."""

    async def save(self, name: str, content: Any) -> NoReturn:
        _refuse("save")

    async def wait(self, job: Any) -> NoReturn:
        _refuse("wait")

    async def run(self, calls: Any, *, name: str = "") -> NoReturn:
        _refuse("run")

    async def resource(self, resource: Any) -> NoReturn:
        _refuse("resource")


class IsolatedSyncContext(SyncContext):
    """The same for a sync task."""

    def save(self, name: str, content: Any) -> NoReturn:
        _refuse("save")

    def wait(self, job: Any) -> NoReturn:
        _refuse("wait")

    def run(self, calls: Any, *, name: str = "") -> NoReturn:
        _refuse("run")

    def resource(self, resource: Any) -> NoReturn:
        _refuse("resource")


def _refuse(what: str) -> NoReturn:
    raise errors.Refused(
        f'ctx.{what} does not work in a task with isolation="process", whose process has no '
        "database and no resources of the worker: call it in a task that is not isolated"
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A task as running needs it."""

    name: str
    fn: Any
    signature: Signature


class Line:
    """The line to the worker. Stands in the store's place: what is recorded goes there."""

    def __init__(self, connection: socket.socket) -> None:
        self.jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._connection = connection
        self._lock = threading.Lock()
        self._waiting: dict[int, Ticket] = {}
        self._number = 0
        # The job that was last asked to stop, and why; what it runs, to be told.
        self._stop: tuple[int, str] = (0, "")
        self._running: tuple[int, Attempt] | None = None
        # The job at hand: whatever is said is of it.
        self._job = 0
        self._forked = False
        self._lives_by: dict[int, tuple[int, int]] = {}

    # What the attempt asks of a store.

    def record(
        self,
        write: Write,
        size: int,
        loop: asyncio.AbstractEventLoop | None,
        then: Callable[[Any], None] | None = None,
    ) -> Ticket:
        """Sends a write to the worker; the ticket gives what the store there said."""
        ticket = Ticket(write, size, loop, then)
        with self._lock:
            self._number += 1
            self._waiting[self._number] = ticket
            told = {"tells": "write", "number": self._number, "size": size}
            self._send(told | {"write": frames.from_write(write)})
        return ticket

    def post(self, write: Write, then: Callable[[Any], None]) -> None:
        """The same where nobody waits."""
        self.record(write, 0, None, then)

    def say(self, frame: Frame) -> None:
        with self._lock:
            self._send(frame)

    def _send(self, frame: Frame) -> None:
        try:
            self._connection.sendall(packed(frame | {"job": self._job}))
        except OSError:
            # The worker is gone, or the body has closed the line: it is lost at once.
            end_own_group()

    # Processes that a body forks.

    def forget(self) -> None:
        """In a forked process: it can neither speak for the job nor keep the line open."""
        # Whoever held it is not in this process.
        self._lock = threading.Lock()
        self._forked = True
        self._connection.close()
        if self._running is not None:
            self._running[1].end()

    def end_fork(self) -> None:
        """Ends a forked process in which the body came to its end, as it does in the first one."""
        if self._forked:
            os._exit(0)

    # Descriptors that a body closes.

    def live_by(self, descriptors: Iterable[int]) -> None:
        """The descriptors without which this process hears neither the worker nor its threads."""
        kept = [*descriptors, self._connection.fileno()]
        self._lives_by = {descriptor: _identity(descriptor) for descriptor in kept}

    def end_broken(self) -> None:
        """Ends this process where the body has closed what it lives by: it would hang."""
        if any(_identity(fd) != before for fd, before in self._lives_by.items()):
            end_own_group()

    # What the worker says.

    def listen(self) -> None:
        """Hears the worker out, in a thread of its own; its end is the end of this process."""
        try:
            while (frame := self._hear()) is not None:
                self._mind(frame)
        finally:
            end_own_group()

    def _hear(self) -> Frame | None:
        head = self._read(LENGTH_BYTES)
        body = self._read(int.from_bytes(head, "big")) if head else b""
        return json.loads(body) if body else None

    def _read(self, count: int) -> bytes:
        pieces = b""
        while len(pieces) < count:
            try:
                piece = self._connection.recv(count - len(pieces))
            except OSError:
                return b""
            if not piece:
                return b""
            pieces += piece
        return pieces

    def _mind(self, frame: Frame) -> None:
        match frame["do"]:
            case "job":
                self._job = frame["number"]
                self.jobs.put(frame)
            case "stop":
                with self._lock:
                    self._stop = (frame["number"], frame["reason"])
                    running = self._running
                if running is not None and running[0] == frame["number"]:
                    attempt = running[1]
                    call_in_loop(attempt.loop, interrupt, attempt, frame["reason"])
            case "answer":
                self._settle(frame)
            case _:
                self.jobs.put(None)

    def _settle(self, frame: Frame) -> None:
        with self._lock:
            ticket = self._waiting.pop(frame["number"])
        ticket.settle(_answer(frame))
        if ticket.loop is not None:
            call_in_loop(ticket.loop, ticket.settle_in_loop)

    def begin(self, number: int, attempt: Attempt) -> None:
        """From now on a stop reaches this attempt, also one that came before."""
        with self._lock:
            self._running = (number, attempt)
            stopped, reason = self._stop
        if stopped == number:
            attempt.ask_to_stop(reason)


def _identity(descriptor: int) -> tuple[int, int]:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return (-1, -1)
    return (found.st_dev, found.st_ino)


def _answer(frame: Frame) -> Any:
    if "error" not in frame:
        return Accepted(frame["cancel"])
    known = getattr(errors, frame["error"], None)
    if known in (errors.Abandon, errors.ClaimLost) or (
        isinstance(known, type) and issubclass(known, errors.StoreError)
    ):
        return known(frame["message"])
    return RuntimeError(f"{frame['error']}: {frame['message']}")


class BodyThreads(Threads):
    """Threads that a body may fork: what comes after the body is for the first process only."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self._line = line

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As in any threads."""

        def guarded() -> Any:
            try:
                return function(*args, **kwargs)
            finally:
                self._line.end_fork()
                self._line.end_broken()

        return await super().run(guarded)


def interrupt(attempt: Attempt, reason: str) -> None:
    """Asks the body to end; the worker ends the process where it does not."""
    if attempt.ask_to_stop(reason) and attempt.body is not None:
        attempt.body.cancel()


def find(first: str | None, module: str, name: str, task: str) -> Found:
    """The task that a module has under this name. ``first`` is imported before it."""
    with contextlib.redirect_stdout(sys.stderr):
        if first is not None:
            importlib.import_module(first)
        found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, Task):
        made = cast("Task[Any, Any]", found)
        return Found(made.name, made.fn, made.signature)
    return Found(task, found, compile_signature(found, name=task))


def run(line: Line, job: Frame, threads: Threads) -> None:
    """One job, from what the worker says of it to its outcome."""
    if job["log_level"] is not None:
        logging.basicConfig(level=job["log_level"], format=LOG_FORMAT)
    try:
        task = find(job["first"], job["module"], job["name"], job["task"])
    except BaseException as error:
        failed = failure_of(error)
        rule = "the process that runs the task could not import it; tried again within the budget"
        outcome = replace(failed, error=replace(failed.error, kind="unknown", rule=rule))
        rest = frames.from_write(Write(frames.as_claim(job["claim"]), 0))
        line.say(_end(outcome, rest, again=False))
        return
    selector = selectors.DefaultSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.get_loop()
        line.live_by([selector.fileno(), *(key.fd for key in selector.get_map().values())])
        runner.run(_run(line, job, task, threads))
        # Threads that are left behind may end when this loop is closed.
        line.live_by([])
    # What the body left in the loop is over; the result did not wait for that.
    line.say({"tells": "free"})


async def _run(line: Line, job: Frame, task: Found, threads: Threads) -> None:
    attempt = Attempt(
        frames.as_claim(job["claim"]),
        cast("Store", line),
        frames.as_recorded(job["recorded"]),
        max_payload=job["max_payload"],
        loop=asyncio.get_running_loop(),
        interrupt=interrupt,
    )
    attempt.task = asyncio.current_task()
    line.begin(job["number"], attempt)
    made = IsolatedContext if task.signature.is_async else IsolatedSyncContext
    clock = HeardClock()
    clock.hear(job["now"])
    given = attempt, threads, clock, cast("Resources", None), None
    try:
        outcome = await execute(attempt, task, made(*given), threads)
    finally:
        line.end_fork()
    attempt.end()
    line.say(_end(outcome, frames.from_write(attempt.rest()), again=True))


def _end(outcome: Outcome, rest: Frame, *, again: bool) -> Frame:
    return {
        "tells": "end",
        "outcome": frames.from_outcome(outcome),
        "rest": rest,
        "again": again,
    }


def main(descriptor: int) -> None:
    """Runs jobs until the worker says that it was the last, or is gone."""
    sys.argv = ["benbi-isolated"]
    connection = socket.socket(fileno=descriptor)
    # What a job starts must not keep the line open.
    connection.set_inheritable(False)
    watch(current)
    line = Line(connection)
    threads = BodyThreads(line)
    os.register_at_fork(after_in_child=line.forget)
    threading.Thread(target=line.listen, name="benbi-line", daemon=True).start()
    line.say({"tells": "ready"})
    while (job := line.jobs.get()) is not None:
        run(line, job, threads)
