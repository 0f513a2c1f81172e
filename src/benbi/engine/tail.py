"""One tail of the event log for each loop: it tells the readers of a job that there is news.

It buffers nothing: each reader reads its own events by ``seq``, so a slow one costs nothing. It
runs only while somebody listens.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, suppress

from benbi.engine.hints import Hints
from benbi.engine.patience import Trouble
from benbi.loops import call_in_loop
from benbi.store.database import Transaction
from benbi.store.store import Store

log = logging.getLogger("benbi.tail")

# Under load, news are gathered for this long; a reader is told at once otherwise.
GATHER_SECONDS = 0.02
# Polling underneath: a hint may be lost.
POLL_SECONDS = 1.0
MOST_AT_ONCE = 5000

EVERY_JOB = 0


class Tail:
    """News by job, for one event loop."""

    def __init__(self, store: Store, hints: Hints) -> None:
        self.store = store
        self._loop = asyncio.get_running_loop()
        self._hints = hints
        self._listeners: dict[int, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._hinted = asyncio.Event()

    @contextmanager
    def listen(self, n: int) -> Generator[asyncio.Event]:
        """An event that is set whenever job ``n`` (EVERY_JOB: any job) has news.

        Listen first, read then: whatever happens after the read sets it.
        """
        news = asyncio.Event()
        self._listeners[n].add(news)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="benbi-tail")
        try:
            yield news
        finally:
            self._listeners[n].discard(news)
            if not self._listeners[n]:
                del self._listeners[n]
            if not self._listeners:
                self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def hint(self) -> None:
        """The store may have news, or be closed. From any thread."""
        call_in_loop(self._loop, self._hinted.set)

    async def _run(self) -> None:
        unsubscribe = self._hints.subscribe(self._hinted.set)
        place: tuple[int, int] | None = None
        trouble = Trouble(log, "the tail waits for the database", "the tail goes on")
        try:
            while not self.store.closed:
                try:
                    if place is None:
                        place = await self.store.read(_newest)
                        # Listeners that read before this point must look once more.
                        self._tell_all()
                    else:
                        place = await self._advance(*place)
                    trouble.is_over()
                except Exception as error:
                    # Whoever listens would wait for ever if it ended here.
                    trouble.begins(error)
                await asyncio.sleep(GATHER_SECONDS)
                await self._next_hint()
        finally:
            unsubscribe()
            # No news will come any more: who reads now learns why.
            self._tell_all()

    async def _next_hint(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._hinted.wait()
        self._hinted.clear()

    async def _advance(self, position: int, at: int) -> tuple[int, int]:
        while True:
            events, progressed = await self.store.read(_news, position, at)
            jobs = {n for _, n in events} | {n for _, n in progressed}
            if jobs:
                jobs.add(EVERY_JOB)
            for n in jobs & self._listeners.keys():
                for news in self._listeners[n]:
                    news.set()
            before, position = position, events[-1][0] if events else position
            at = progressed[-1][0] if progressed else at
            # Where it is still the same, another transaction is open: news may come again.
            if len(events) < MOST_AT_ONCE or position == before:
                return position, at

    def _tell_all(self) -> None:
        for listeners in self._listeners.values():
            for news in listeners:
                news.set()


def _newest(view: Transaction) -> tuple[int, int]:
    ((position,),) = view.rows("newest_change")
    ((at,),) = view.rows("newest_progress")
    return position, at


def _news(
    view: Transaction, position: int, at: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    events = view.rows("changed_since", cursor=position, most=MOST_AT_ONCE)
    progressed = view.rows("progressed_since", at=at, most=MOST_AT_ONCE)
    return [(p, n) for p, n in events], [(t, n) for t, n in progressed]
