"""A hint for each commit that another connection makes to a SQLite file.

``PRAGMA data_version`` tells for certain whether anything was committed; the question is only when
to look. On Linux inotify tells when the ``-wal`` file is written, which is a moment before the
commit can be seen. Elsewhere, and where inotify fails, we look every few milliseconds.
"""

from __future__ import annotations

import math
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from benbi.wake.poll import Stop, WakeThread, logger, nothing

if sys.platform == "linux":
    from benbi.wake.inotify import CREATE, MODIFY, MOVED_TO, OVERFLOW, Inotify

IDLE: Final = 1.0  # seconds between looks while the files are still; no event is trusted blindly
REST: Final = 0.002  # at most one hint in this time, however many commits
FIRST: Final = 0.0001  # from an event to the second look; then slower and slower
GROWTH: Final = 1.6
CALM: Final = 0.02  # the slowest while events go on and nothing is committed: a long transaction
SILENT: Final = 3  # changes without an event, until inotify is held to be deaf on this file system
POLL_FAST: Final = 0.002  # while something changed in the last second
POLL_SLOW: Final = 0.02
RECONNECT: Final = 0.25

Connect = Callable[[], Callable[[], int]]

# Connections being looked at. In a forked child the parent's stay here for ever: SQLite
# connections must not be closed, nor collected, in a process that did not open them.
_held: dict[int, Callable[[], int]] = {}


class SqliteWake:
    """Calls back once when the watch begins, then at most once for each change.

    ``path`` is the database file, which may appear later. ``connect`` opens a connection in
    autocommit, to be used for nothing else, and returns a function that reads its data version;
    if that function, or the object it is a method of, has a ``close()``, it is called in the end.
    Both run in the watching thread. ``inotify=False`` looks every 2 to 20 ms instead.

    Own commits of this process are hints as well: they come through other connections.
    Before a fork, close it where you can. SQLite takes the locks of a connection that was open
    then for locks of the child, which has none.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        connect: Connect,
        *,
        inotify: bool = sys.platform == "linux",
    ) -> None:
        self._path = os.path.realpath(path)
        self._connect = connect
        self._inotify = inotify
        self._thread = WakeThread(f"benbi-wake-{os.path.basename(self._path)}", self._run)

    def start(self, on_wake: Callable[[], None]) -> None:
        self._thread.start(on_wake)

    def close(self) -> None:
        self._thread.close()

    def _run(self, stop: Stop, tell: Callable[[], None]) -> None:
        # In this order: what is committed between the two is an event, or part of the first look.
        pace = self._pace(stop)
        watched = _Watched(self._path, self._connect)
        try:
            while not stop.is_set():
                changed = watched.changed()
                if changed:
                    tell()
                try:
                    pace.wait(changed)
                except OSError as error:
                    logger.info("looking at %s without inotify: %s", self._path, error)
                    pace.close()
                    pace = _Polling()
        finally:
            pace.close()
            watched.close()

    def _pace(self, stop: Stop) -> _Pace:
        if self._inotify:
            try:
                return _Events(self._path, stop)
            except OSError as error:
                logger.info("looking at %s without inotify: %s", self._path, error)
        return _Polling()


class _Watched:
    """The data version of whatever database stands at the path."""

    def __init__(self, path: str, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._read: Callable[[], int] | None = None
        self._file: tuple[int, int] | None = None
        self._version = 0
        self._connect_at = 0.0

    def changed(self) -> bool:
        """True for another version or file than last time, and for the first look of all."""
        if self._file != (file := _file_at(self._path)):
            self.close()
            self._file = file
        try:
            if self._read is None:
                return file is not None and self._begin()
            version = self._read()
        except Exception:
            # Locked, being replaced, not a database: whatever it is, only the next look tells.
            logger.debug("the data version of %s can not be read", self._path, exc_info=True)
            self.close()
            self._connect_at = time.monotonic() + RECONNECT
            return False
        changed = version != self._version
        self._version = version
        return changed

    def _begin(self) -> bool:
        if time.monotonic() < self._connect_at:
            return False
        self._read = read = self._connect()
        _held[id(read)] = read
        self._version = read()
        return True

    def close(self) -> None:
        read, self._read = self._read, None
        if read is None:
            return
        close: object = getattr(getattr(read, "__self__", read), "close", None)
        try:
            if callable(close):
                close()
        except Exception:
            logger.debug("the watch on %s can not be closed", self._path, exc_info=True)
        _held.pop(id(read), None)


def _file_at(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Pace(Protocol):
    """When to look next."""

    def wait(self, changed: bool) -> None:
        """Return when it is time; ``changed``: what the last look found."""
        ...

    def close(self) -> None: ...


class _Polling:
    def __init__(self) -> None:
        self._pause = POLL_FAST
        self._fast_until = 0.0

    def wait(self, changed: bool) -> None:
        now = time.monotonic()
        if changed:
            self._pause, self._fast_until = POLL_FAST, now + 1.0
        elif now >= self._fast_until:
            self._pause = min(self._pause * GROWTH, POLL_SLOW)
        time.sleep(self._pause)

    def close(self) -> None: ...


class _Events:
    """Looks when inotify tells of a write, then at growing intervals until the commit shows.

    Raises ``OSError`` where inotify can not be had, or says nothing while commits go on.
    """

    def __init__(self, path: str, stop: Stop) -> None:
        self._directory, name = os.path.split(path)
        self._wal = path + "-wal"
        self._names = (os.fsencode(name), os.fsencode(name + "-wal"))
        self._wal_watch = -1
        self._pause = IDLE
        self._start = FIRST
        self._rest_until = 0.0
        self._silent = 0
        self._fresh = self._woken = self._timed_out = False
        self._inotify = Inotify()
        try:
            self._arm()
        except OSError:
            self._inotify.close()
            raise
        self._stop = stop
        self._interrupts = _Interrupts()
        stop.interrupt = self._interrupts.send
        self._poll = select.poll()
        self._poll.register(self._inotify.fd, select.POLLIN)
        self._poll.register(self._interrupts.fd, select.POLLIN)

    def wait(self, changed: bool) -> None:
        self._plan(changed)
        self._woken = self._timed_out = False
        if self._pause < REST:
            time.sleep(self._pause)
        elif self._poll.poll(math.ceil(self._pause * 1000)):
            self._woken = True
            if not self._stop.is_set():
                time.sleep(max(0.0, self._rest_until - time.monotonic()))
        elif self._pause == IDLE:
            self._timed_out = True
            self._arm()
        self._fresh = self._drain()

    def _plan(self, changed: bool) -> None:
        if self._fresh:
            self._silent = 0
        if changed:
            self._silent += self._timed_out and not self._fresh
            if self._silent >= SILENT:
                raise OSError("commits come without events on this file system")
            self._start = FIRST
            self._rest_until = time.monotonic() + REST
            # Events seen before this look may belong to a commit that can not be seen yet.
            self._pause = REST if self._fresh else IDLE
        elif self._woken:
            self._pause, self._start = self._start, min(self._start * 2, CALM)
        else:
            self._pause = min(self._pause * GROWTH, CALM if self._fresh else IDLE)

    def _drain(self) -> bool:
        """True when the database was written or replaced."""
        fresh = moved = False
        for change in self._inotify.changes():
            if change.mask & OVERFLOW or change.name in self._names:
                fresh = moved = True
            elif change.watch == self._wal_watch:
                fresh |= bool(change.mask & MODIFY)
        if moved:
            self._arm()
        return fresh

    def _arm(self) -> None:
        """Watch the files that stand there now; again and again, which changes nothing."""
        with suppress(FileNotFoundError, NotADirectoryError):
            self._inotify.watch(self._directory, CREATE | MOVED_TO)
            wal_watch = self._inotify.watch(self._wal, MODIFY)
            if self._wal_watch not in (-1, wal_watch):
                self._inotify.forget(self._wal_watch)
            self._wal_watch = wal_watch

    def close(self) -> None:
        self._stop.interrupt = nothing
        self._inotify.close()
        self._interrupts.close()


class _Interrupts:
    """A pipe that ends a wait; sending is harmless once it is closed."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        self._lock = threading.Lock()

    def send(self) -> None:
        with self._lock:
            if self._write >= 0:
                os.write(self._write, b"x")

    def close(self) -> None:
        with self._lock:
            os.close(self.fd)
            os.close(self._write)
            self._write = -1
