"""Child processes that run the bodies of isolated tasks, each one job at a time.

The worker holds the claim and makes all its writes; a child only says what to write. It leads a
process group of its own, which ends with the job's grace, with the child, and with the worker.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from benbi.engine import frames
from benbi.engine.attempt import Attempt
from benbi.engine.execute import as_stopped
from benbi.engine.frames import LENGTH_BYTES, Frame, packed
from benbi.errors import ConfigurationError, TaskDefinitionError
from benbi.job import ErrorRecord
from benbi.outcome import Failed, Lost, Outcome, Released
from benbi.processes.ends import in_words, kill_group
from benbi.processes.groups import Groups
from benbi.store.batcher import Ticket
from benbi.task import Task

log = logging.getLogger("benbi.worker")

# An idle child is let go after this; a busy one after so many jobs.
IDLE_SECONDS: Final = 60.0
MOST_JOBS: Final = 100
# From the end of a job until its child has ended what the body left running.
FREE_SECONDS: Final = 1.0
# From a kill until the end is known, and from the end of a conversation to that of the process.
KILL_SECONDS: Final = 2.0
# From the end of a child until all that it has said is read.
HEARD_SECONDS: Final = 0.2
# A job that is given back has had its grace already.
LAST_WORDS_SECONDS: Final = 0.5
# JSON within JSON grows; what is larger than this is no frame of ours.
FRAME_FACTOR: Final = 16

NO_CHILD: Final = "no process could be started to run the task; tried again within the budget"

_BOOT: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from benbi.isolated import main; main(int(sys.argv[1]))"
)


def check_isolated(tasks: Iterable[Task[Any, Any]]) -> None:
    """Refuses what a child process could not find. TaskDefinitionError, ConfigurationError."""
    for task in tasks:
        if task.isolation is None:
            continue
        if sys.platform == "win32":
            raise ConfigurationError(f'task {task.name}: isolation="process" needs Linux or macOS')
        _address_of(task)


def _address_of(task: Task[Any, Any]) -> tuple[str, str]:
    """(module, qualified name) where a child finds the task."""
    module, name = task.fn.__module__, task.fn.__qualname__
    if module == "__main__":
        _refuse(task, "it is defined in the script that runs; put it into a module and import it")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        found = None
    if found is not task and found is not task.fn:
        _refuse(task, f"{module}.{name} is not it; define it at the top of its module")
    return module, name


def _refuse(task: Task[Any, Any], problem: str) -> None:
    raise TaskDefinitionError(
        f'task {task.name}: isolation="process" runs it in a process that imports it, but {problem}'
    )


class _Stray(ValueError):
    """A frame of a job that came before: whatever that one left behind speaks on the line."""


class Child:
    """One child process and the line to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.process: Process | None = None
        self.jobs = 0
        self.idle_timer: asyncio.TimerHandle | None = None
        self.watching: asyncio.Task[None] | None = None
        self._reader = reader
        self._writer = writer

    @property
    def pid(self) -> int:
        """The number of the process, and of the group that it leads."""
        assert self.process is not None
        return self.process.pid

    @property
    def gone(self) -> bool:
        """True once it has ended, or hung up."""
        ended = self.process is not None and self.process.returncode is not None
        return ended or self._reader.at_eof()

    async def watch(self) -> None:
        """Ends its group and the line with it: what it has forked may keep the line open."""
        assert self.process is not None
        await self.process.wait()
        kill_group(self.pid)
        # What it said before is heard first.
        asyncio.get_running_loop().call_later(HEARD_SECONDS, self._writer.transport.abort)

    def say(self, frame: Frame) -> None:
        """Sends a frame; to one that is gone, none."""
        with suppress(OSError, RuntimeError):
            self._writer.write(packed(frame))

    async def hear(self, most: int) -> Frame:
        """Its next frame. EOFError or OSError where it is gone, ValueError for what is no frame."""
        length = int.from_bytes(await self._reader.readexactly(LENGTH_BYTES), "big")
        if length > most:
            raise ValueError(f"a frame of {length:,} bytes")
        return json.loads(await self._reader.readexactly(length))

    async def hang_up(self) -> None:
        """Closes the line, and lets the loop close what else it had of the process."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.sleep(0)


class Children:
    """The children of one worker; lives in its loop. One is started when none is idle."""

    def __init__(self, max_payload: int) -> None:
        self._max_payload = max_payload
        self._most = FRAME_FACTOR * max_payload + 1_048_576
        self._idle: list[Child] = []
        self._groups = Groups(patience=0.0)
        self._beside: set[asyncio.Task[Any]] = set()
        self._becoming_free: set[asyncio.Task[None]] = set()

    async def run(self, attempt: Attempt, task: Any) -> Outcome:
        """One attempt's body in a child: what it came to. Its death is a loss of this job."""
        attempt.allowance = KILL_SECONDS
        taking = asyncio.ensure_future(self._take())

        def give_up(_: str) -> None:
            taking.cancel()

        attempt.on_stop = give_up
        try:
            child = await taking
        except asyncio.CancelledError:
            stopped = as_stopped(attempt)
            if stopped is None:
                raise
            return stopped
        except OSError as error:
            return Failed(ErrorRecord(type(error).__qualname__, str(error), "unknown", NO_CHILD))
        return await self._run(child, attempt, task)

    async def _run(self, child: Child, attempt: Attempt, task: Any) -> Outcome:
        kept = False
        timers: list[asyncio.TimerHandle] = []
        child.jobs += 1
        try:
            child.say(self._job(child, attempt, task))
            attempt.on_stop = partial(self._stop, child, attempt, timers)
            try:
                outcome, kept = await self._converse(child, attempt)
            except (EOFError, OSError, ValueError) as error:
                outcome = await self._broken(child, attempt, error)
            return outcome
        finally:
            attempt.on_stop = None
            for timer in timers:
                timer.cancel()
            if kept and not timers and child.jobs < MOST_JOBS:
                becoming = asyncio.create_task(self._put_back_when_free(child))
                self._becoming_free.add(becoming)
                becoming.add_done_callback(self._becoming_free.discard)
            elif kept:
                self._end_beside(child)
            else:
                await self._end(child)

    async def _broken(self, child: Child, attempt: Attempt, error: Exception) -> Outcome:
        """What an attempt came to whose child died or can not be trusted any more."""
        if isinstance(error, ValueError):
            kill_group(child.pid)
        ended = in_words(await self._end(child))
        if isinstance(error, ValueError):
            ended = f"sent what is no message of this job ({error})"
        stopped = as_stopped(attempt)
        if stopped is not None:
            return stopped
        log.warning("job %s: its child process %s", attempt.claim.job_id, ended)
        if isinstance(error, _Stray):
            # Not the doing of this job: it goes back, uncharged.
            return Released("unheld")
        return Lost(f"the child process {ended} while it ran this job")

    async def close(self) -> None:
        """Ends the idle ones, and waits for those that are ending."""
        await asyncio.gather(*self._becoming_free)
        ending = [self._end(self._idle.pop()) for _ in list(self._idle)]
        await asyncio.gather(*ending, *self._beside, return_exceptions=True)
        self._groups.close()

    # One child's life.

    async def _take(self) -> Child:
        while True:
            while self._idle:
                child = self._idle.pop()
                if child.idle_timer is not None:
                    child.idle_timer.cancel()
                if not child.gone:
                    return child
                await self._end(child)
            if not self._becoming_free:
                return await self._start()
            await asyncio.wait(self._becoming_free, return_when=asyncio.FIRST_COMPLETED)

    async def _start(self) -> Child:
        here, there = socket.socketpair()
        with there:
            child = Child(*await asyncio.open_unix_connection(sock=here))
            try:
                child.process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    _BOOT,
                    str(there.fileno()),
                    json.dumps(sys.path),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[there.fileno()],
                    process_group=0,
                )
                self._groups.add(child.pid)
                child.watching = asyncio.create_task(child.watch())
                # Its end of the line is its own: this one would never hear that it has ended.
                there.close()
                await child.hear(self._most)
            except BaseException as error:
                ended = in_words(await self._end(child)) if child.process else "was not started"
                await child.hang_up()
                if isinstance(error, EOFError | ValueError):
                    raise ChildProcessError(f"a child process {ended} too early") from None
                raise
        return child

    async def _put_back_when_free(self, child: Child) -> None:
        """What does not end in time what its job left running is thrown away."""
        try:
            async with asyncio.timeout(FREE_SECONDS):
                told = await child.hear(self._most)
        except (EOFError, OSError, ValueError):
            told = {}
        if told == {"tells": "free", "job": child.jobs}:
            self._put_back(child)
        else:
            kill_group(child.pid)
            self._end_beside(child)

    def _put_back(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        child.idle_timer = loop.call_later(IDLE_SECONDS, self._let_go, child)
        self._idle.append(child)

    def _let_go(self, child: Child) -> None:
        self._idle.remove(child)
        self._end_beside(child)

    def _end_beside(self, child: Child) -> None:
        ending = asyncio.get_running_loop().create_task(self._end(child))
        self._beside.add(ending)
        ending.add_done_callback(self._beside.discard)

    async def _end(self, child: Child) -> int:
        """Its exit code, once it and whatever it has started are gone."""
        assert child.process is not None
        child.say({"do": "end"})
        try:
            async with asyncio.timeout(KILL_SECONDS):
                return await child.process.wait()
        except TimeoutError:
            kill_group(child.pid)
            return await child.process.wait()
        finally:
            kill_group(child.pid)
            self._groups.discard(child.pid)
            await child.hang_up()

    # One job's conversation.

    def _job(self, child: Child, attempt: Attempt, task: Any) -> Frame:
        module, name = _address_of(task)
        return {
            "do": "job",
            "number": child.jobs,
            "claim": frames.from_claim(attempt.claim),
            "recorded": frames.from_recorded(attempt.recorded),
            "first": task.enqueuer.first_import,
            "module": module,
            "name": name,
            "task": task.name,
            "max_payload": self._max_payload,
            "now": attempt.store.database.now(),
            "log_level": logging.getLogger().level if logging.getLogger().handlers else None,
        }

    def _stop(
        self, child: Child, attempt: Attempt, timers: list[asyncio.TimerHandle], reason: str
    ) -> None:
        """Asks the body to end, and kills its process group when the grace is over."""
        child.say({"do": "stop", "number": child.jobs, "reason": reason})
        grace = attempt.claim.grace / 1e6
        if reason in ("drain", "lost"):
            grace = min(grace, LAST_WORDS_SECONDS)
        loop = asyncio.get_running_loop()
        timers.append(loop.call_later(grace, kill_group, child.pid))

    async def _converse(self, child: Child, attempt: Attempt) -> tuple[Outcome, bool]:
        """The outcome, and whether the child can be used again."""
        while True:
            told = await child.hear(self._most)
            try:
                if told["job"] != child.jobs:
                    stray = isinstance(told["job"], int) and 0 < told["job"] < child.jobs
                    raise (_Stray if stray else ValueError)(f"one of its job {told['job']!r}")
                if told["tells"] == "end":
                    attempt.adopt(frames.as_write(attempt.claim, told["rest"]))
                    return frames.as_outcome(told["outcome"]), bool(told["again"])
                write, number, size = told["write"], told["number"], told["size"]
                write = frames.as_write(attempt.claim, write)
            except (LookupError, TypeError) as error:
                raise ValueError(repr(error)) from None
            try:
                ticket = attempt.relay(write, size)
            except BaseException as error:
                child.say(_refusal(number, error))
                continue
            answer = asyncio.create_task(self._answer(child, number, attempt, ticket))
            self._beside.add(answer)
            answer.add_done_callback(self._beside.discard)

    async def _answer(self, child: Child, number: int, attempt: Attempt, ticket: Ticket) -> None:
        try:
            accepted = await ticket.outcome()
        except Exception as error:
            child.say(_refusal(number, error))
        else:
            attempt.mind(accepted)
            child.say({"do": "answer", "number": number, "cancel": accepted.cancel_requested})


def _refusal(number: int, error: BaseException) -> Frame:
    return {
        "do": "answer",
        "number": number,
        "error": type(error).__name__,
        "message": str(error),
    }
