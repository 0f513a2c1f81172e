"""Turns between processes: two record locks on ``<database>-lock``.

``next`` admits one process to the wait for ``writer`` and is given back as soon as ``writer`` is
held: whoever comes back from a turn finds the one who waited before it.

Record locks, because the kernel gives them back when their process is killed, and because a forked
child does not hold what its parent holds (``flock`` would be shared with it).
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from benbi.errors import StoreError, StoreFull, StoreReadOnly

if sys.platform != "win32":
    import fcntl

NEXT: Final = 0  # offsets of the two locked bytes
WRITER: Final = 1
# Somebody may remove the lock file beside a living process; newcomers then lock another one.
LOOK_AGAIN_SECONDS: Final = 1.0
DEADLOCK_PAUSE_SECONDS: Final = 0.002


class Late(Exception):
    """The time is over; the message says who is in the way."""


class _Request:
    """One wait for the record locks that may be given up."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self.leave = leave
        self.error: Exception | None = None
        self.answered = threading.Lock()
        self.answered.acquire()
        self._decided = threading.Lock()

    def decide(self) -> bool:
        """True for the first of the two sides: the waiter giving up, the thread answering."""
        return self._decided.acquire(blocking=False)


class RecordLocks:
    """Turns between processes. Used by one thread at a time, the one at the head of the line.

    Holds one descriptor of the lock file and never closes it: closing any descriptor of a file
    drops all record locks that the process has on it.
    """

    def __init__(self, database: str, *, open_now: bool = True) -> None:
        self._database = database
        self._path = database + "-lock"
        self._fd = -1
        self._identity = (-1, -1)
        self._look_again_at = 0.0
        self._requests: SimpleQueue[_Request] | None = None
        if open_now:
            self._renew()

    def is_file(self, found: os.stat_result) -> bool:
        return (found.st_dev, found.st_ino) == self._identity

    def take(self, deadline: float | None, leave: Callable[[], None]) -> None:
        """Take the writer's lock, or call ``leave`` (perhaps later) and raise.

        A wait in the kernel can not be given up. Looking again and again could, but whoever looks
        starves beside those who wait. So a thread of our own waits where there is a deadline.
        """
        try:
            if time.monotonic() >= self._look_again_at:
                self._renew()
            if self._take_at_once():
                return
            if deadline is None:
                self._take_in_turn()
                return
            seconds = seconds_until(deadline)
            if seconds <= 0:
                raise Late(self._who_writes())
            request = self._ask(leave)
        except BaseException:
            leave()
            raise
        self._wait_for_answer(request, seconds)

    def give_back(self) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, WRITER)

    def _take_at_once(self) -> bool:
        """Both locks in one call when nobody holds or waits; most turns are taken so."""
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 2, NEXT)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise self._refusal(error) from error
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, NEXT)
        return True

    def _take_in_turn(self) -> None:
        try:
            self._wait_for(NEXT)
            self._wait_for(WRITER)
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, NEXT)
        except BaseException as error:
            with suppress(OSError):
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 2, NEXT)
            if isinstance(error, OSError):
                raise self._refusal(error) from error
            raise

    def _wait_for(self, byte: int) -> None:
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, byte)
                return
            except OSError as error:
                if error.errno != errno.EDEADLK:
                    raise
            # The kernel knows processes, not threads: two processes that write two databases each
            # look like a deadlock. The thread that holds the other lock goes on, so ask again.
            time.sleep(DEADLOCK_PAUSE_SECONDS)

    def _wait_for_answer(self, request: _Request, seconds: float) -> None:
        try:
            request.answered.acquire(timeout=seconds)
        except BaseException:
            if not request.decide():
                self._refuse(request)
            raise
        if request.decide():
            raise Late(self._who_writes())
        if request.error is not None:
            self._refuse(request)
            raise request.error

    def _refuse(self, request: _Request) -> None:
        """Give up what the asking thread brought."""
        if request.error is None:
            self.give_back()
        request.leave()

    def _ask(self, leave: Callable[[], None]) -> _Request:
        if self._requests is None:
            self._requests = SimpleQueue()
            threading.Thread(
                target=self._answer,
                args=(self._requests,),
                name=f"benbi-turnstile-{os.path.basename(self._database)}",
                daemon=True,
            ).start()
        request = _Request(leave)
        self._requests.put(request)
        return request

    def _answer(self, requests: SimpleQueue[_Request]) -> None:
        while True:
            request = requests.get()
            try:
                self._take_in_turn()
            except Exception as error:
                request.error = error
            if request.decide():
                request.answered.release()
            else:
                self._refuse(request)

    def _renew(self) -> None:
        """Open the lock file, and again when another one stands in its place."""
        self._look_again_at = time.monotonic() + LOOK_AGAIN_SECONDS
        try:
            if self._fd >= 0 and self.is_file(os.stat(self._path)):
                return
        except FileNotFoundError:
            pass
        self._fd = _open(self._path, self._database)
        opened = os.fstat(self._fd)
        self._identity = (opened.st_dev, opened.st_ino)

    def _refusal(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self._path} can not be locked ({error.strerror}): benbi needs POSIX record locks, "
            "which some network file systems lack; put the database on a local disk"
        )

    def _who_writes(self) -> str:
        pid = _writer_of(self._fd)
        return "another process is writing" if pid is None else f"process {pid} is writing"


def seconds_until(deadline: float | None) -> float:
    """Seconds to wait, as ``Lock.acquire`` takes them: -1 is for ever."""
    if deadline is None:
        return -1
    return min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)


def _writer_of(fd: int) -> int | None:
    """The process that holds the writer's lock; ``None`` where that can not be told."""
    if sys.platform != "linux":
        return None
    layout = "hhqqi4x"  # struct flock
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, WRITER, 1, 0)
    try:
        kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return None
    # 0: a process in a container that this one can not see.
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


def _open(path: str, database: str) -> int:
    """A descriptor of the lock file, made like SQLite makes its own files beside a database."""
    try:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        _belong_to(fd, database)
        return fd
    except OSError as error:
        raise _open_error(path, database, error) from error


def _belong_to(fd: int, database: str) -> None:
    """Whoever may write the database must be able to take a turn, and nobody else."""
    with suppress(OSError):
        like = os.stat(database)
        if os.geteuid() == 0:
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, like.st_mode & 0o777)


def _open_error(path: str, database: str, error: OSError) -> StoreError:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(
            f"{database} can not be written: its lock file {path} can not be opened "
            f"({error.strerror}); give this user write access to the directory and to the files "
            f"{os.path.basename(database)}*, or open the database read-only"
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(f"{path} can not be made: {error.strerror}; free some space")
    if error.errno == errno.ENOENT:
        return StoreError(f"{path} can not be made: there is no directory {os.path.dirname(path)}")
    return StoreError(f"{path} can not be opened: {error.strerror}")
