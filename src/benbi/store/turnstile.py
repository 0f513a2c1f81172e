"""Writers of one SQLite file take turns, in the order in which they came.

SQLite has no queue for its write lock: a waiter sleeps and looks again, a busy writer takes the
lock again in microseconds, and some process starves. So whoever writes passes the turnstile first:
threads of one process in the order in which they came (here), processes by two record locks on
``<database>-lock`` (record_locks.py).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from typing import Final

from benbi.store.record_locks import Late, RecordLocks, seconds_until

# Where there are none, writers of several processes are left to SQLite's busy timeout.
RECORD_LOCKS: Final = sys.platform != "win32"


class Turnstile:
    """The turnstile of one database file in this process; ``turnstile_for`` makes it.

    ``path`` is the real path of the database file, which need not exist yet.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._line = _Line()
        self._locks = RecordLocks(path) if RECORD_LOCKS else None

    def turn(self, timeout: float | None = None) -> _Turn:
        """A turn to write, held inside a ``with`` block; turns of one thread do not nest.

        ``timeout``: seconds to wait, ``None`` waits as long as it takes, 0 does not wait.
        Entering raises ``TimeoutError`` when the time is over, ``StoreReadOnly`` when the lock
        file can not be opened, ``StoreError`` when the file system has no record locks.
        """
        return _Turn(self, timeout)

    def guards(self, found: os.stat_result) -> bool:
        """True when ``found`` is the lock file that this turnstile holds open."""
        return self._locks is not None and self._locks.is_file(found)

    def start_afresh(self) -> None:
        """Forget the parent's threads, waiters and locks; for a forked child.

        The inherited descriptor stays open and unused. The next turn opens one of its own.
        """
        self._line = _Line()
        if self._locks is not None:
            self._locks = RecordLocks(self.path, open_now=False)


def turnstile_for(path: str | os.PathLike[str]) -> Turnstile:
    """The one turnstile of this process for a database file; opens ``<path>-lock`` for ever.

    Raises ``StoreReadOnly`` when the lock file can not be made or opened, ``StoreFull`` when the
    disk is full. Whoever only reads does not need a turnstile.
    """
    known = _registry.get(os.fspath(path))
    if known is not None:
        return known
    real = os.path.realpath(path)
    with _registry_lock:
        known = _registry.get(real) or _other_name(real)
        if known is None:
            known = Turnstile(real)
        _registry[real] = known
        return known


def _other_name(real: str) -> Turnstile | None:
    """The turnstile that has this lock file open under another name, as bind mounts give it.

    A second descriptor of one file would be a trap: closing it, or locking through it, acts on
    the locks of the first.
    """
    try:
        found = os.stat(real + "-lock")
    except OSError:
        return None
    return next((known for known in _registry.values() if known.guards(found)), None)


class _Turn:
    __slots__ = ("_line", "_locks", "_timeout", "_turnstile")

    def __init__(self, turnstile: Turnstile, timeout: float | None) -> None:
        self._turnstile = turnstile
        self._timeout = timeout

    def __enter__(self) -> None:
        # Kept, so that a block that is left in a forked child does not give back what is not held.
        self._line, self._locks = self._turnstile._line, self._turnstile._locks  # pyright: ignore[reportPrivateUsage]
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            self._line.enter(deadline)
            if self._locks is not None:
                self._locks.take(deadline, self._line.leave)
            self._line.owner = threading.get_ident()
        except Late as late:
            raise TimeoutError(
                f"no turn to write {self._turnstile.path} within {self._timeout:g} s: {late}"
            ) from None

    def __exit__(self, *_: object) -> None:
        if self._line is not self._turnstile._line:  # pyright: ignore[reportPrivateUsage]
            return
        try:
            if self._locks is not None:
                self._locks.give_back()
        finally:
            self._line.leave()


class _Line:
    """Threads of one process, one at a time, in the order in which they came."""

    def __init__(self) -> None:
        self.owner = 0  # the thread inside, while one is
        self._mutex = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    def enter(self, deadline: float | None) -> None:
        if self.owner == threading.get_ident():
            raise RuntimeError("this thread holds a turn already; turns do not nest")
        with self._mutex:
            if not self._taken:
                self._taken = True
                return
            called = threading.Lock()
            called.acquire()
            self._waiting.append(called)
        try:
            in_time = called.acquire(timeout=seconds_until(deadline))
        except BaseException:
            if not self._withdraw(called):
                self.leave()
            raise
        if not in_time and self._withdraw(called):
            raise Late("other threads of this process are writing")

    def leave(self) -> None:
        self.owner = 0
        with self._mutex:
            if self._waiting:
                # Handed over, not let go: a thread that comes back at once queues up behind.
                self._waiting.popleft().release()
            else:
                self._taken = False

    def _withdraw(self, called: threading.Lock) -> bool:
        """False when the turn was handed over in the meantime."""
        with self._mutex:
            try:
                self._waiting.remove(called)
            except ValueError:
                return False
            return True


_registry: dict[str, Turnstile] = {}
_registry_lock = threading.Lock()


def _in_forked_child() -> None:
    global _registry_lock
    _registry_lock = threading.Lock()
    for turnstile in _registry.values():
        turnstile.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
