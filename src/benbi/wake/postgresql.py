"""A hint for each commit of another process on PostgreSQL, and one to others for each of ours.

A listener that was lost is replaced and said so; polling goes on underneath all the while, and is
all there is where nothing can be heard. Hints of ours go out one at a time: what is committed
meanwhile is told by the next.
"""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from benbi.errors import StoreBusy
from benbi.wake.poll import Stop, WakeThread, logger, nothing

REST: Final = 0.002  # seconds: at most one hint in this time, however many commits
AGAIN: Final = 0.5  # until the next attempt to reach a server that is away
AGAIN_LATER: Final = 60.0  # where it is there, and refuses or lets nothing be heard
LOOK: Final = 30.0  # a connection that has died without a word is found by then


class Channel(Protocol):
    """One connection to the server: see store/postgresql/channel.py."""

    def fileno(self) -> int: ...
    def heard(self) -> bool: ...
    def say(self, mark: str) -> None: ...
    def close(self) -> None: ...


class Hearing:
    """What is known of listening in this process: wakes come and go with those who wait.

    ``lost``: why nothing is heard at present; None while all is well, or nobody wants to hear.
    """

    def __init__(self) -> None:
        # One that was closed may take a while to end: the next waits, and knows what it found.
        self.turn = threading.Lock()
        self.lost: str | None = None
        self.again_at = 0.0  # by the monotonic clock


class PostgresWake:
    """Listens, in a thread, on a connection of its own.

    ``connect`` gives one that hears what has not this mark, and raises where there is none.
    """

    def __init__(self, connect: Callable[[str], Channel], mark: str, hearing: Hearing) -> None:
        self._connect = connect
        self._mark = mark
        self._hearing = hearing
        self._thread = WakeThread("benbi-listen", self._run)

    def start(self, on_wake: Callable[[], None]) -> None:
        self._thread.start(on_wake)

    def close(self) -> None:
        self._thread.close()

    def _run(self, stop: Stop, tell: Callable[[], None]) -> None:
        ours, theirs = socket.socketpair()

        def interrupt() -> None:
            # The thread may have ended meanwhile.
            with suppress(OSError):
                theirs.send(b"x")

        stop.interrupt = interrupt
        try:
            with self._hearing.turn:
                self._keep_listening(ours, stop, tell)
        finally:
            stop.interrupt = nothing
            ours.close()
            theirs.close()

    def _keep_listening(self, ours: socket.socket, stop: Stop, tell: Callable[[], None]) -> None:
        hearing = self._hearing
        while not stop.wait(hearing.again_at - time.monotonic()):
            try:
                self._listen(ours, stop, tell)
            except Exception as error:
                if stop.is_set() and isinstance(error, StoreBusy):
                    break
                if hearing.lost is None:
                    logger.warning(
                        "no hints from other processes; this one looks by itself: %s", error
                    )
                hearing.lost = str(error)
                hearing.again_at = time.monotonic() + _rest_after(error)
        # What lasts was said, and will not be said again by the next who listens.
        if hearing.again_at < time.monotonic() + AGAIN:
            hearing.lost = None

    def _listen(self, ours: socket.socket, stop: Stop, tell: Callable[[], None]) -> None:
        channel, hearing = self._connect(self._mark), self._hearing
        try:
            if hearing.lost is not None:
                logger.info("hints from other processes arrive again")
            hearing.lost = None
            # What was committed before it listened was not heard.
            tell()
            # Not select(): a server may have more than a thousand descriptors open.
            with selectors.DefaultSelector() as either:
                either.register(channel.fileno(), selectors.EVENT_READ)
                either.register(ours, selectors.EVENT_READ)
                while not stop.is_set():
                    either.select(LOOK)
                    if not stop.is_set() and channel.heard():
                        tell()
                        stop.wait(REST)
        finally:
            with suppress(Exception):
                channel.close()


class Notifier:
    """Tells other processes of our commits, in a thread that the first of them starts.

    ``lost``: why it could not the last time.
    """

    def __init__(self, connect: Callable[[], Channel], mark: str) -> None:
        self._connect = connect
        self._mark = mark
        self.lost: str | None = None
        self._due = threading.Event()
        self._ending = threading.Event()
        self._channel: Channel | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def hint(self) -> None:
        """Something was committed. From any thread; quick."""
        if self._thread is None and not self._ending.is_set():
            self._thread = threading.Thread(target=self._run, name="benbi-notify", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """Says what is still to be said, then ends."""
        self._ending.set()
        self._due.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(AGAIN)

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            rest = self._tell()
            if self._ending.is_set() and not self._due.is_set():
                break
            self._ending.wait(rest)
        self._disconnect()

    def _tell(self) -> float:
        """Says it, or sees to it that it is said later; how long to rest."""
        try:
            self._channel = self._channel or self._connect()
            self._channel.say(self._mark)
        except Exception as error:
            # Whoever looks by itself finds the jobs: a hint is never worth a failure.
            if self.lost is None:
                logger.warning(
                    "other processes are not told of new jobs, and look by themselves: %s", error
                )
            self.lost = str(error)
            self._disconnect()
            if not self._ending.is_set():
                self._due.set()
            return _rest_after(error)
        if self.lost is not None:
            logger.info("other processes are told of new jobs again")
        self.lost = None
        return REST

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            with suppress(Exception):
                channel.close()


def _rest_after(error: Exception) -> float:
    return AGAIN if isinstance(error, StoreBusy) else AGAIN_LATER
