"""The supervisor of ``benbi work --processes``: keeps worker processes alive and buries the dead.

It runs none of the user's code: the children import it, each in a process group of its own. When
one has ended, its group is killed and its workers are buried by name, so that their jobs run
again at once; then another takes its place. The database is opened for the first burial only.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benbi.cli import exits
from benbi.cli.burials import Burials
from benbi.cli.changes import Changes
from benbi.cli.worker_process import Child
from benbi.processes.ends import in_words
from benbi.processes.groups import Groups
from benbi.processes.memory import resident_bytes

log = logging.getLogger("benbi.supervisor")

# A process that ran so long was healthy: its end is no sign of a crash loop.
HEALTHY_SECONDS: Final = 10.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
# What a process may take beyond the grace to give its jobs back, and then to be gone.
LEEWAY_SECONDS: Final = 10.0
MEMORY_SECONDS: Final = 1.0
CHANGES_SECONDS: Final = 0.5
# How long children may survive a supervisor that was killed.
ORPHAN_SECONDS: Final = 6.0
IDLE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Plan:
    """``settings`` are what each child is told. ``max_memory`` in bytes, ``grace`` in seconds;
    ``watched``: folders whose Python files start the children anew when they change."""

    settings: dict[str, Any]
    processes: int
    grace: float
    max_memory: int | None
    once: bool
    watched: tuple[Path, ...]


class Place:
    """One of the processes that should be there: who holds it, and who is on the way out."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.retiring: Child | None = None
        self.start_at = 0.0
        self.crashes = 0
        self.done = False


class Supervisor:
    """Runs in the main thread until it is told to stop."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._places = [Place() for _ in range(plan.processes)]
        self._groups = Groups(ORPHAN_SECONDS)
        self._burials = Burials()
        self._changes = Changes(plan.watched) if plan.watched else None
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._told = 0
        self._code = exits.DONE
        self._kill_at: float | None = None
        self._memory_at = self._changes_at = 0.0

    def run(self) -> int:
        """The exit code, once all children have ended."""
        before = self._listen_to_signals()
        try:
            while not self._over():
                self._turn()
        finally:
            for child in self._children():
                self._kill(child)
                self._bury(child, child.wait())
            self._burials.close()
            self._groups.close()
            self._selector.close()
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._code

    def _over(self) -> bool:
        if any(self._children()):
            return False
        return self._kill_at is not None or all(place.done for place in self._places)

    def _children(self) -> Iterator[Child]:
        for place in self._places:
            yield from filter(None, (place.child, place.retiring))

    # Turns.

    def _turn(self) -> None:
        self._wait()
        self._mind_signals()
        for place in self._places:
            self._reap(place)
            # Many take a while to start.
            self._mind_signals()
            if place.child is None and not place.done and self._kill_at is None:
                self._start(place)
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + LEEWAY_SECONDS
            for child in self._children():
                self._kill(child)
        if self._plan.max_memory is not None and now >= self._memory_at:
            self._memory_at = now + MEMORY_SECONDS
            self._weigh(self._plan.max_memory)
        if self._changes is not None and now >= self._changes_at:
            self._changes_at = now + CHANGES_SECONDS
            if (changed := self._changes.look()) is not None and self._kill_at is None:
                self._reload(changed)

    def _wait(self) -> None:
        """Until something happens, or something is due."""
        due: list[float] = []
        if self._kill_at is not None:
            due.append(self._kill_at)
        else:
            empty = [place for place in self._places if place.child is None and not place.done]
            due += [place.start_at for place in empty]
        due += [self._memory_at] if self._plan.max_memory is not None else []
        due += [self._changes_at] if self._changes is not None else []
        seconds = min([*due, time.monotonic() + IDLE_SECONDS]) - time.monotonic()
        for key, _ in self._selector.select(max(0.0, seconds)):
            if key.data is None:
                os.read(key.fd, 4_096)
            else:
                self._hear(*key.data)

    def _hear(self, place: Place, child: Child) -> None:
        for told in child.hear():
            if "mark" in told:
                child.mark, child.database = told["mark"], (told["database"], told["schema"])
            elif "worn" in told:
                child.worn = told["worn"]
                self._retire(place, child)
            elif "ends" in told:
                child.ends = told["ends"]
        if child.hung_up:
            self._unwatch(child)

    def _unwatch(self, child: Child) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(child.line)

    # Children.

    def _start(self, place: Place) -> None:
        if time.monotonic() < place.start_at:
            return
        place.child = child = Child(self._plan.settings)
        self._groups.add(child.pid)
        self._selector.register(child.line, selectors.EVENT_READ, (place, child))

    def _reap(self, place: Place) -> None:
        for child in filter(None, (place.retiring, place.child)):
            code = child.poll()
            if code is None:
                continue
            self._hear(place, child)
            self._bury(child, code)
            if child is place.retiring:
                place.retiring = None
                if place.child is not None and place.child.worn:
                    self._retire(place, place.child)
            else:
                place.child = None
                self._follow(place, child, code)

    def _bury(self, child: Child, code: int) -> None:
        """Ends what the child has started, and gives its jobs to others."""
        self._groups.discard(child.end_group())
        self._unwatch(child)
        child.line.close()
        if child.mark and not child.done(code):
            why = f"the worker process {in_words(code)} while it ran this job"
            # Whom the supervisor itself had to kill is no loss: its jobs go back uncharged.
            self._burials.add(child.pid, child.database, child.mark, None if child.killed else why)

    def _follow(self, place: Place, child: Child, code: int) -> None:
        """What comes after a child that was not told to end."""
        if self._kill_at is not None:
            return
        if self._plan.once and child.done(code):
            place.done = True
            return
        refused = child.refused(code)
        if refused and self._changes is None:
            log.error(
                "worker process %d exited with code %d before it worked: a wrong setting, which "
                "is not mended by starting again",
                child.pid,
                code,
            )
            self._stop(code)
            return
        when = self._put_off(place, child, for_ever=refused)
        log.warning("worker process %d %s; another starts %s", child.pid, in_words(code), when)

    def _put_off(self, place: Place, child: Child, *, for_ever: bool = False) -> str:
        """Plans the next start, the later the more often the last ones did not live; in words."""
        lived = time.monotonic() - child.started
        place.crashes = 0 if lived >= HEALTHY_SECONDS else place.crashes + 1
        pause = 0.0
        if for_ever:
            pause = float("inf")
        elif place.crashes > 1:
            pause = min(FIRST_PAUSE * 2 ** min(place.crashes - 2, 10), LONGEST_PAUSE)
        place.start_at = time.monotonic() + pause
        words = {0.0: "at once", float("inf"): "when a file has changed"}
        return words.get(pause, f"in {pause:g} s")

    def _retire(self, place: Place, child: Child) -> None:
        """Lets a child end what it runs, and another begin; one at a time in each place."""
        if child is not place.child or self._kill_at is not None:
            return
        if place.retiring is not None:
            child.go_on()
            return
        # One that has done its jobs is replaced at once; one that is too large at its start would
        # be followed by others like it, as one that crashes.
        when = self._put_off(place, child) if child.too_large else self._at_once(place)
        log.info(
            "worker process %d is replaced: %s; another starts %s", child.pid, child.worn, when
        )
        child.retire()
        self._replace(place, child)

    def _at_once(self, place: Place) -> str:
        place.start_at, place.crashes = 0.0, 0
        return "at once"

    def _replace(self, place: Place, child: Child) -> None:
        place.retiring, place.child = child, None
        self._start(place)

    def _weigh(self, most: int) -> None:
        for place in self._places:
            child = place.child
            if child is not None and not child.worn and (held := resident_bytes(child.pid)) > most:
                child.too_large = True
                child.worn = f"it holds {held / 2**20:.0f} MiB"
                self._retire(place, child)

    def _reload(self, changed: Path) -> None:
        log.info("%s has changed: the workers start anew", changed)
        for place in self._places:
            if place.retiring is not None:
                self._kill(place.retiring)
                self._bury(place.retiring, place.retiring.wait())
            if place.child is not None:
                place.child.signal(signal.SIGTERM)
                self._at_once(place)
                self._replace(place, place.child)
            self._at_once(place)

    # The end.

    def _listen_to_signals(self) -> dict[int, Any]:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        self._selector.register(reading, selectors.EVENT_READ)
        before: dict[int, Any] = {
            number: signal.signal(number, lambda number, _: self._signals.append(number))
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _wake)
        return before

    def _mind_signals(self) -> None:
        while self._signals:
            number = self._signals.pop(0)
            self._told += 1
            if self._told == 1:
                exits.tell(
                    f"draining: running jobs get {self._plan.grace:g} s; "
                    "a second signal stops at once"
                )
                self._stop(exits.DONE)
            else:
                self._code, self._kill_at = 128 + number, 0.0

    def _stop(self, code: int) -> None:
        """No more children; those that are there drain, all within one grace."""
        self._code = code
        self._kill_at = time.monotonic() + self._plan.grace + LEEWAY_SECONDS
        for child in self._children():
            child.signal(signal.SIGTERM)

    def _kill(self, child: Child) -> None:
        if not child.killed:
            log.warning("worker process %d did not end and is killed", child.pid)
        child.killed = True
        child.signal(signal.SIGKILL)


def _wake(number: int, frame: object) -> None:
    """A handler, so that the signal is written to the pipe that is waited for."""
