"""The store: what is kept, in transactions that callers share in batches.

Synchronous inside (one writer thread, readers beside it), asynchronous outside: ``await
store.write(move, …)`` and ``store.write_sync(move, …)`` are the same transaction. A move is a
function of a transaction (lifecycle.py, moves.py, workers.py); a view is one that only reads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from benbi.errors import ClaimLost, StoreBusy, StoreError
from benbi.job import NewJob
from benbi.store import lifecycle, workers
from benbi.store.batcher import BUSY_SECONDS, Batcher, Lane, Ticket
from benbi.store.crash import crash_point
from benbi.store.database import Database, Session, Transaction
from benbi.store.files import Files
from benbi.store.lifecycle import Accepted, Write
from benbi.store.linked import enqueue_linked
from benbi.store.migrate import migrate

P = ParamSpec("P")
T = TypeVar("T")

READERS = 2
# A server may restart meanwhile: as long as for writes.
READ_AGAIN_SECONDS = 30.0
# Bounds of one transaction of enqueues: they keep the write lock well under 50 ms.
ENQUEUE_STRETCH = 1000
ENQUEUE_BYTES = 1024 * 1024
ROW_BYTES = 256


class Store:
    """Jobs in one database. Opened by the first use; safe in threads and in several loops."""

    def __init__(self, database: Database, files: Files | None = None) -> None:
        self.database = database
        # Where artifacts are kept; without a folder of its own they go with the process.
        self.files = files or Files(None)
        self._lock = threading.Lock()
        self._writer: Session | None = None
        # Kept while the store is open: in SQLite, one that is closed takes a turn to write.
        self._idle_readers: list[Session] = []
        self._may_read = threading.BoundedSemaphore(database.readers)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="benbi-read")
        self._closed = False
        # True once this store has seen its tables, whether or not it is open.
        self._prepared = False
        self._crash = crash_point()
        # The migrations that opening applied.
        self.applied: list[str] = []
        # Hints, called in the writer's thread after a commit; they must be quick.
        self.on_commit: list[Callable[[], None]] = []
        self._batcher = Batcher(
            [
                # Beats, finishes and steps go before enqueues.
                Lane("fenced", self._write_batch, most_items=500),
                Lane("workers", self._move_batch, most_items=1),
                Lane("moves", self._move_batch, most_items=1),
                Lane("enqueue", self._enqueue_batch, ENQUEUE_STRETCH, ENQUEUE_BYTES),
                Lane("keyed", self._enqueue_batch, ENQUEUE_STRETCH, ENQUEUE_BYTES),
                Lane("linked", self._linked_batch, ENQUEUE_STRETCH, ENQUEUE_BYTES),
            ]
        )

    def open(self) -> None:
        """Connects and migrates. Raises StoreError and its kin where that is not possible."""
        with self._lock:
            if self._closed:
                raise StoreError("the app is closed")
            if self._writer is not None:
                return
            session = self.database.connect()
            try:
                self.applied = migrate(self.database, session)
            except BaseException:
                session.close()
                raise
            self._writer = session
            self._prepared = True

    async def prepare(self) -> None:
        """Migrates. Keeps no connection: whoever stores in transactions of his own needs none."""
        if self._closed:
            raise StoreError("the app is closed")
        if not self._prepared:
            await asyncio.get_running_loop().run_in_executor(self._readers, self.prepare_sync)

    def prepare_sync(self) -> None:
        """The same from a thread."""
        with self._lock:
            if self._closed:
                raise StoreError("the app is closed")
            if self._prepared:
                return
            session = self.database.connect()
            try:
                self.applied = migrate(self.database, session)
            finally:
                session.close()
            self._prepared = True

    def hint(self) -> None:
        """Tells whoever waits for jobs that some may have come. From any thread; quick."""
        for hint in self.on_commit:
            hint()

    @property
    def closed(self) -> bool:
        """True from the beginning of ``close`` on."""
        return self._closed

    def close(self) -> None:
        """Commits what is queued and disconnects."""
        with self._lock:
            self._closed = True
            self.files.close()
            if self._writer is None:
                self._readers.shutdown(wait=False)
                return
        self._batcher.close()
        self._readers.shutdown(wait=True)
        for session in [*self._idle_readers, self._writer]:
            session.close()
        self._idle_readers.clear()
        self.database.close()
        self._writer = None

    # Moves, one transaction each.

    async def write(
        self, move: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a move in a transaction of its own."""
        await self._opened()
        return await self._batcher.put(_lane_of(move), (move, args, kwargs))

    def write_sync(
        self, move: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The same from a thread."""
        self._open_now()
        return self._batcher.put_sync(_lane_of(move), (move, args, kwargs))

    # Enqueues and fenced writes, many to a transaction.

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[bytes]:
        """Stores jobs atomically; returns after the durable commit with their ids, in order."""
        if self._closed or self._writer is None:
            await self._opened()
        return await self._batcher.put(_lane(jobs), jobs, _size(jobs))

    def enqueue_sync(self, jobs: Sequence[NewJob]) -> list[bytes]:
        """The same from a thread."""
        self._open_now()
        return self._batcher.put_sync(_lane(jobs), jobs, _size(jobs))

    def record(self, write: Write, size: int, loop: asyncio.AbstractEventLoop | None) -> Ticket:
        """Queues a claim's write; its ticket gives Accepted or raises ClaimLost.

        ``loop``: where the ticket will be awaited; None for a thread.
        """
        return self._batcher.post("fenced", Ticket(write, size, loop))

    def record_many(self, tickets: Sequence[Ticket]) -> None:
        """Queues the writes of several claims, each with its ticket."""
        self._batcher.post_many("fenced", tickets)

    def post(self, write: Write, then: Callable[[Ticket], None]) -> None:
        """Queues a claim's write that nobody waits for; ``then`` gets its ticket, in the
        writer's thread."""
        self._batcher.post("fenced", Ticket(write, 0, then=then))

    def stalled(self) -> float | None:
        """Seconds since the last commit of what waits to be written; None: nothing waits."""
        return self._batcher.stalled()

    # Views.

    async def read(
        self, view: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a view in a reader's thread: all rows are fetched before anything is awaited."""
        await self._opened()
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(
                self._readers, lambda: self.read_sync(view, *args, **kwargs)
            )
        except RuntimeError:
            # Closed since it was looked at.
            raise StoreError("the app is closed") from None
        return await reading

    def read_sync(
        self, view: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Runs a view in this thread; anew where its connection is lost under it."""
        self._open_now()
        deadline = time.monotonic() + READ_AGAIN_SECONDS
        while True:
            try:
                with self._reader() as session, session.read() as transaction:
                    return view(transaction, *args, **kwargs)
            except StoreBusy:
                if self._closed or time.monotonic() > deadline:
                    raise
                time.sleep(BUSY_SECONDS)

    @contextmanager
    def _reader(self) -> Any:
        if not self._may_read.acquire(timeout=READ_AGAIN_SECONDS):
            raise StoreBusy(
                f"all {self.database.readers} connections that read {self.database.url} have been "
                f"in use for {READ_AGAIN_SECONDS:g} s"
            )
        try:
            with self._lock:
                session = self._idle_readers.pop() if self._idle_readers else None
            session = session or self.database.connect()
            try:
                yield session
            finally:
                with self._lock:
                    keep = not self._closed
                    if keep:
                        self._idle_readers.append(session)
                if not keep:
                    session.close()
        finally:
            self._may_read.release()

    def _open_now(self) -> None:
        if self._closed or self._writer is None:
            self.open()

    async def _opened(self) -> None:
        if self._closed:
            raise StoreError("the app is closed")
        if self._writer is None:
            await asyncio.get_running_loop().run_in_executor(self._readers, self.open)

    # What the writer's thread runs.

    def _commit(
        self,
        name: str,
        move: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Runs a move in a transaction; ``name`` is that of its crash points."""
        assert self._writer is not None
        with self._writer.write() as tx:
            outcome = move(tx, *args, **kwargs)
            if self._crash is not None:
                self._crash(f"before:{name}.commit")
        if self._crash is not None:
            self._crash(f"after:{name}.commit")
        self.hint()
        return outcome

    def _write_batch(self, writes: list[Write]) -> Sequence[Accepted | ClaimLost]:
        finishes = any(write.decision is not None for write in writes)
        return self._commit("finish" if finishes else "write", lifecycle.write, writes)

    def _enqueue_batch(self, groups: list[Sequence[NewJob]]) -> Sequence[list[bytes] | Exception]:
        return self._commit("enqueue", lifecycle.enqueue, groups)

    def _linked_batch(self, groups: list[Sequence[NewJob]]) -> Sequence[list[bytes]]:
        return self._commit("enqueue", enqueue_linked, groups)

    def _move_batch(self, moves: list[Any]) -> Sequence[Any]:
        # The lane takes one at a time: a move that fails must not touch another.
        ((move, args, kwargs),) = moves
        return [self._commit(move.__name__.strip("_"), move, *args, **kwargs)]


# What a worker lives by: a thousand cancels at once must not keep it from its next claim.
_OF_WORKERS = frozenset(
    {
        lifecycle.claim,
        workers.register,
        workers.release,
        workers.sign_off,
        workers.bury_process,
        workers.release_process,
    }
)


def _lane_of(move: Callable[..., Any]) -> str:
    return "workers" if move in _OF_WORKERS else "moves"


def _lane(jobs: Sequence[NewJob]) -> str:
    lane = "enqueue"
    for job in jobs:
        if job.after or job.run is not None:
            return "linked"
        if job.key is not None or job.same_call_within is not None:
            lane = "keyed"
    return lane


def _size(jobs: Sequence[NewJob]) -> int:
    return sum(len(job.arguments) + ROW_BYTES for job in jobs)
