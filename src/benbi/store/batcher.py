"""Natural batching: while one transaction is under way, callers queue up; the next takes them all.

No timer: nothing waits when idle, and batches grow under load. The batcher belongs to the
store, outlives every event loop and is bounded by items and bytes: a full one makes callers wait.

Lanes never share a transaction, so that one caller's lock or bad row can not hurt another's
kind of work. Each round serves every lane that has something, in the order of the lanes.
A batch that fails because of its data is halved until the culprit stands alone; one that fails
because the database is busy is repeated whole.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benbi.errors import StoreBusy, StoreError
from benbi.loops import call_in_loop

log = logging.getLogger("benbi.store")

BUSY_SECONDS = 0.01

Outcome = Any  # what the lane's handler returned for one item, or an exception


@dataclass(slots=True)
class Lane:
    """One kind of work. ``handle`` runs one transaction over a batch and returns one outcome
    (a value or an exception) for each item, in order."""

    name: str
    handle: Callable[[list[Any]], Sequence[Outcome]]
    most_items: int = 1000
    most_bytes: int = 4 * 1024 * 1024
    waiting: deque[Ticket] = field(default_factory=lambda: deque())


class Ticket:
    """One item under way, waited for by a loop, by a thread, or by nobody.

    ``value`` is its outcome, once it is ``done``. ``then`` is called with the ticket instead of
    somebody waiting: in ``loop``, or without one in the thread that serves.
    """

    __slots__ = (
        "_called",
        "_future",
        "_then",
        "done",
        "item",
        "loop",
        "size",
        "value",
        "withdrawn",
    )

    def __init__(
        self,
        item: Any,
        size: int,
        loop: asyncio.AbstractEventLoop | None = None,
        then: Callable[[Any], None] | None = None,
    ) -> None:
        self.item = item
        self.size = size
        self.loop = loop
        self.withdrawn = False
        self._then = then
        self.done = False
        self.value: Outcome = None
        self._future: asyncio.Future[Any] | None = None
        if loop is not None and then is None:
            self._future = loop.create_future()
        # Held until a thread that waits is called. Most threads find their item done.
        self._called: threading.Lock | None = None

    def result(self) -> Any:
        """Blocks the thread, then returns the outcome or raises it."""
        if not self.done:
            called = threading.Lock()
            called.acquire()
            self._called = called
            # Looked at again: settle may have come in between, and looks at the lock last.
            if not self.done:
                called.acquire()
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    def outcome(self) -> asyncio.Future[Any]:
        """To await in the loop: the outcome, or what it raises."""
        assert self._future is not None
        return self._future

    def settle(self, outcome: Outcome) -> None:
        """Keeps the outcome and tells whoever waits outside a loop."""
        self.value = outcome
        self.done = True
        called, self._called = self._called, None
        if called is not None:
            called.release()
        elif self.loop is None and self._then is not None:
            self._tell(self._then)

    def settle_in_loop(self) -> None:
        """Tells who waits in a loop; runs in that loop."""
        future = self._future
        if self._then is not None:
            self._tell(self._then)
        elif future is None or future.done():
            return
        elif isinstance(self.value, BaseException):
            future.set_exception(self.value)
        else:
            future.set_result(self.value)

    def _tell(self, then: Callable[[Any], None]) -> None:
        try:
            then(self)
        except Exception:
            # The others of its batch are still to be told.
            log.exception("who waited for a write failed to hear of it")


class Batcher:
    """Lanes of work, one thread that serves them. Started by the first item.

    ``most_items`` and ``most_bytes`` bound what waits in all lanes together.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        *,
        most_items: int = 10_000,
        most_bytes: int = 64 * 1024 * 1024,
        busy_seconds: float = 30.0,
    ) -> None:
        self._lanes = {lane.name: lane for lane in lanes}
        self._most_items = most_items
        self._most_bytes = most_bytes
        self._busy_seconds = busy_seconds
        self._items = 0
        self._bytes = 0
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # Held by whoever serves: the server's thread, or a caller in its place.
        self._serving = threading.Lock()
        self._room: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._thread: threading.Thread | None = None
        self._closed = False
        self._progress_at = 0.0

    def put_sync(self, lane: str, item: Any, size: int = 0) -> Any:
        """Queues an item from a thread, waiting for room, and returns its outcome.

        Where nobody serves, the caller does, until its own item is done: one thread less to
        wake for a caller that would only wait.
        """
        ticket = Ticket(item, size)
        try:
            if not self._served_at_once(lane, ticket):
                with self._lock:
                    while self._full(size):
                        self._changed.wait()
                    self._append(lane, ticket)
                if self._serving.acquire(blocking=False):
                    try:
                        while not ticket.done:
                            self._round()
                    finally:
                        self._serving.release()
        finally:
            # Also where Ctrl-C ended this caller: what is queued has other callers.
            if self._items:
                with self._lock:
                    self._wake_server()
        return ticket.result()

    def _served_at_once(self, lane: str, ticket: Ticket) -> bool:
        """Where nobody waits, an item needs no queue."""
        if not self._serving.acquire(blocking=False):
            return False
        try:
            if self._items or self._closed:
                return False
            (outcome,) = self._attempt(self._lanes[lane], [ticket.item])
            ticket.settle(outcome)
            return True
        finally:
            self._serving.release()

    async def put(self, lane: str, item: Any, size: int = 0) -> Any:
        """Queues an item from a loop, waiting for room, and returns its outcome.

        Cancelling the awaiting coroutine withdraws the item if no transaction has taken it;
        otherwise the commit goes on and the caller must assume that it happened.
        """
        loop = asyncio.get_running_loop()
        ticket = Ticket(item, size, loop)
        while (room := self._try(lane, ticket, loop)) is not None:
            await room
        try:
            return await ticket.outcome()
        except asyncio.CancelledError:
            ticket.withdrawn = True
            raise

    def post(self, lane: str, ticket: Ticket) -> Ticket:
        """Queues at once, beyond the bound: for a claim's own writes, whose order must stay."""
        with self._lock:
            self._queue(lane, ticket)
        return ticket

    def post_many(self, lane: str, tickets: Sequence[Ticket]) -> None:
        """The same for several: whoever serves finds them all."""
        with self._lock:
            idle = not self._items
            for ticket in tickets:
                self._append(lane, ticket)
            if idle or self._thread is None:
                self._wake_server()

    def stalled(self) -> float | None:
        """Seconds since anything was done of what waits; None where nothing waits.

        However long the queue is: a backlog that is worked off is not stalled.
        """
        with self._lock:
            return time.monotonic() - self._progress_at if self._items else None

    def close(self) -> None:
        """Serves what is queued, then ends the thread."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._serving:
            while self._items:
                self._round()

    def _full(self, size: int) -> bool:
        if self._closed:
            raise StoreError("the store is closed")
        return self._items > 0 and (
            self._items >= self._most_items or self._bytes + size > self._most_bytes
        )

    def _try(
        self, lane: str, ticket: Ticket, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[None] | None:
        """Queues the ticket, or gives what to wait for: noted in the same breath as the look,
        so that no room that is made in between goes untold."""
        with self._lock:
            if not self._full(ticket.size):
                self._queue(lane, ticket)
                return None
            room: asyncio.Future[None] = loop.create_future()
            self._room.append((loop, room))
            return room

    def _append(self, lane: str, ticket: Ticket) -> None:
        if self._closed:
            raise StoreError("the store is closed")
        self._lanes[lane].waiting.append(ticket)
        if not self._items:
            self._progress_at = time.monotonic()
        self._items += 1
        self._bytes += ticket.size

    def _queue(self, lane: str, ticket: Ticket) -> None:
        self._append(lane, ticket)
        # The server waits only while nothing is queued; callers wait only when full.
        if self._items == 1 or self._thread is None:
            self._wake_server()

    def _wake_server(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="benbi-store", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            with self._lock:
                while not self._items:
                    if self._closed:
                        return
                    self._changed.wait()
            with self._serving:
                self._round()

    def _round(self) -> None:
        """One batch of each lane that has something, in the order of the lanes."""
        for lane in self._lanes.values():
            if lane.waiting:
                batch, size = self._take(lane)
                try:
                    self._run(lane, batch)
                except BaseException:
                    # Ctrl-C in a caller that serves. The others' items are in the batch as well,
                    # and every one of them can be repeated.
                    with self._lock:
                        lane.waiting.extendleft(reversed(batch))
                    raise
                self._leave(len(batch), size)

    def _take(self, lane: Lane) -> tuple[list[Ticket], int]:
        """The next batch, which has at least one item, and its bytes."""
        batch: list[Ticket] = []
        size = 0
        with self._lock:
            while lane.waiting and len(batch) < lane.most_items:
                head = lane.waiting[0]
                if batch and size + head.size > lane.most_bytes:
                    break
                lane.waiting.popleft()
                size += head.size
                batch.append(head)
        return batch, size

    def _run(self, lane: Lane, batch: list[Ticket]) -> None:
        taken = [ticket for ticket in batch if not ticket.withdrawn]
        if taken:
            outcomes = self._attempt(lane, [ticket.item for ticket in taken])
            _tell(taken, outcomes)

    def _attempt(self, lane: Lane, items: list[Any]) -> Sequence[Outcome]:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                return lane.handle(items)
            except StoreBusy as busy:
                # Who closes has a deadline of its own, whatever the database does.
                if self._closed or time.monotonic() > deadline:
                    return [busy] * len(items)
                # The database has waited already, as a rule; where it did not, this loop must.
                time.sleep(BUSY_SECONDS)
            except StoreError as refusal:
                return [refusal] * len(items)
            except Exception as fault:
                if len(items) == 1:
                    return [fault]
                half = len(items) // 2
                return [
                    *self._attempt(lane, items[:half]),
                    *self._attempt(lane, items[half:]),
                ]

    def _leave(self, items: int, size: int) -> None:
        with self._lock:
            self._progress_at = time.monotonic()
            self._items -= items
            self._bytes -= size
            room, self._room = self._room, []
            self._changed.notify_all()
        for loop, waiter in room:
            call_in_loop(loop, _wake, waiter)


def _tell(batch: list[Ticket], outcomes: Sequence[Outcome]) -> None:
    # One call for each loop, not for each item: a call wakes the loop through a socket.
    loops: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket, outcome in zip(batch, outcomes, strict=True):
        ticket.settle(outcome)
        if ticket.loop is not None:
            loops.setdefault(ticket.loop, []).append(ticket)
    for loop, tickets in loops.items():
        call_in_loop(loop, _settle, tickets)


def _settle(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.settle_in_loop()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
