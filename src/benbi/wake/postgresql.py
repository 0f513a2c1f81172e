"""A hint for each commit of another process on PostgreSQL, and one to others for each of ours.

A listener that was lost is replaced and said so; polling goes on underneath all the while. Hints of
ours go out one at a time: what is committed meanwhile is told by the next.
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

from benbi.wake.poll import Stop, WakeThread, logger, nothing

REST: Final = 0.002  # seconds: at most one hint in this time, however many commits
AGAIN: Final = 0.5  # until the next attempt to reach a server that is away
LOOK: Final = 30.0  # a connection that has died without a word is found by then


class Channel(Protocol):
    """One connection to the server: see store/postgresql/channel.py."""

    def listen(self, deaf_to: str) -> None: ...
    def fileno(self) -> int: ...
    def heard(self) -> bool: ...
    def say(self, mark: str) -> None: ...
    def close(self) -> None: ...


class PostgresWake:
    """Listens, in a thread, on a connection of its own. ``connect`` raises where there is none."""

    def __init__(self, connect: Callable[[], Channel], mark: str) -> None:
        self._connect = connect
        self._mark = mark
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
        lost = False
        try:
            while not stop.is_set():
                try:
                    self._listen(ours, stop, tell, lost)
                except Exception as error:
                    if not lost and not stop.is_set():
                        logger.warning(
                            "no hints from other processes until the server is back: %s", error
                        )
                    lost = True
                    stop.wait(AGAIN)
        finally:
            stop.interrupt = nothing
            ours.close()
            theirs.close()

    def _listen(
        self, ours: socket.socket, stop: Stop, tell: Callable[[], None], lost: bool
    ) -> None:
        channel = self._connect()
        try:
            channel.listen(self._mark)
            if lost:
                logger.info("hints from other processes arrive again")
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
    """Tells other processes of our commits, in a thread that the first of them starts."""

    def __init__(self, connect: Callable[[], Channel], mark: str) -> None:
        self._connect = connect
        self._mark = mark
        self._due = threading.Event()
        self._ended = False
        self._channel: Channel | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    def hint(self) -> None:
        """Something was committed. From any thread; quick."""
        if self._thread is None and not self._ended:
            self._thread = threading.Thread(target=self._run, name="benbi-notify", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """Says what is still to be said, then ends."""
        self._ended = True
        self._due.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(AGAIN)

    def _run(self) -> None:
        lost = False
        while True:
            self._due.wait()
            self._due.clear()
            try:
                self._channel = self._channel or self._connect()
                self._channel.say(self._mark)
                lost = False
            except Exception as error:
                # Whoever looks by itself finds the jobs: a hint is never worth a failure.
                if not lost:
                    logger.warning("other processes are not told of new jobs: %s", error)
                lost, self._channel = True, None
                if not self._ended:
                    time.sleep(AGAIN)
            if self._ended:
                if self._channel is not None:
                    with suppress(Exception):
                        self._channel.close()
                return
            time.sleep(REST)
