"""Hints that something may be claimable. Lost, late and needless ones do no harm.

Correctness never needs a hint: whoever waits for one looks by itself from time to time, which is
what ``Poll`` is for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger("benbi.wake")

CLOSE_SECONDS = 2.0


class Wake(Protocol):
    """Something that can tell when a look at the database may be worth while."""

    def start(self, on_wake: Callable[[], None]) -> None:
        """Watch, in a daemon thread that calls ``on_wake``; raises ``RuntimeError`` twice.

        A forked child has no such thread: there, ``start`` starts one of its own.
        """
        ...

    def close(self) -> None:
        """Stop watching. May be called at any time, from any thread, and again."""
        ...


class Poll:
    """A hint every ``interval`` seconds, the fallback for every database."""

    def __init__(self, interval: float = 1.0) -> None:
        self.interval = interval
        self._thread = WakeThread("benbi-poll", self._run)

    def start(self, on_wake: Callable[[], None]) -> None:
        self._thread.start(on_wake)

    def close(self) -> None:
        self._thread.close()

    def _run(self, stop: Stop, tell: Callable[[], None]) -> None:
        while not stop.wait(self.interval):
            tell()


class Stop(threading.Event):
    """Set when the thread is to end; ``interrupt`` gets it out of a wait for something else."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupt: Callable[[], None] = nothing

    def set(self) -> None:
        super().set()
        self.interrupt()


class WakeThread:
    """A daemon thread that belongs to one process and never keeps the interpreter from exiting.

    ``run(stop, tell)`` watches until ``stop`` is set and calls ``tell`` for each hint.
    """

    def __init__(self, name: str, run: Callable[[Stop, Callable[[], None]], None]) -> None:
        self._name = name
        self._run = run
        self._pid = -1
        self._thread: threading.Thread | None = None
        self._stop = Stop()

    def start(self, on_wake: Callable[[], None]) -> None:
        if self._thread is not None and self._pid == os.getpid():
            raise RuntimeError("this wake was started already; close it first")
        # New in each process: what a child inherits may be locked by a thread it does not have.
        self._stop = stop = Stop()
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._run, args=(stop, _careful(on_wake, stop)), name=self._name, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._pid != os.getpid():
            return
        self._stop.set()
        # A hint may close its own wake. One that blocks for longer is left behind: it is a daemon.
        if thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)


def _careful(on_wake: Callable[[], None], stop: threading.Event) -> Callable[[], None]:
    def tell() -> None:
        if stop.is_set():
            return
        try:
            on_wake()
        except Exception:
            # A hint that can not be delivered must not end the watch.
            logger.exception("a wake could not be delivered")

    return tell


def nothing() -> None:
    """Interrupts a thread that waits for nothing but ``Stop``."""
