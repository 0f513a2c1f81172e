"""The time that what runs still has once a worker is told to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

# A grace that nobody has set.
ENDLESS_SECONDS = 365 * 86_400.0


class Grace:
    """Ends at ``end``, by the monotonic clock; that may come nearer, never go away."""

    def __init__(self) -> None:
        self.end = float("inf")
        self._shortened = asyncio.Event()

    @property
    def left(self) -> float:
        """Seconds; 0 once it is over."""
        return max(0.0, self.end - time.monotonic())

    @property
    def told(self) -> str:
        """What it is, for people."""
        return f"grace {self.left:.0f} s" if self.left < ENDLESS_SECONDS else "they may end"

    def shorten(self, seconds: float) -> None:
        """It ends in so many seconds, or before."""
        self.end = min(self.end, time.monotonic() + seconds)
        self._shortened.set()

    async def wait_for(self, awaited: Awaitable[object]) -> None:
        """Waits for something until the grace is over, and cancels it then."""
        future = asyncio.ensure_future(awaited)
        while not future.done() and self.left:
            self._shortened.clear()
            shortened = asyncio.ensure_future(self._shortened.wait())
            await asyncio.wait(
                [future, shortened], timeout=self.left, return_when=asyncio.FIRST_COMPLETED
            )
            shortened.cancel()
        future.cancel()
