"""The time that a process writes: it never runs back, and never stands still."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable


def micros() -> int:
    """Microseconds since the epoch, by the host's clock."""
    return time.time_ns() // 1000


def ticks() -> int:
    """Microseconds of a clock that nobody sets."""
    return time.monotonic_ns() // 1000


def lasting_ticks() -> int:
    """The same, of one that goes on while the machine sleeps, where there is one."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    return ticks()


class HeardClock:
    """The time of another host, as it was last heard, and as long after it as ``ticks`` say.

    Until something is heard, the time of this host.
    """

    def __init__(self, ticks: Callable[[], int] = lasting_ticks) -> None:
        self._ticks = ticks
        self._ahead = micros() - ticks()

    def hear(self, now: int) -> None:
        """``now``: what the other host's clock has just shown."""
        self._ahead = now - self._ticks()

    def __call__(self) -> int:
        return self._ticks() + self._ahead


class Clock:
    """``wall``, as long as it does not step back. After that it goes at half the speed of
    ``ticks`` until the wall clock has caught up: hosts that start with a wrong time and correct
    it would otherwise hold every delay for as long as the step was.
    """

    def __init__(self, wall: Callable[[], int] = micros, ticks: Callable[[], int] = ticks) -> None:
        self._wall = wall
        self._ticks = ticks
        self._lock = threading.Lock()
        # When it last showed the wall clock's time.
        self._right = (0, 0)
        self._now = 0

    def __call__(self) -> int:
        with self._lock:
            wall, ticked = self._wall(), self._ticks()
            if wall >= self._now:
                self._now, self._right = wall, (wall, ticked)
            else:
                right, since = self._right
                self._now = max(self._now, right + (ticked - since) // 2)
            return self._now
