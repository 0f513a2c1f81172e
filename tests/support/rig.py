"""A store on a test's own clock, with words for what conformance tests do to it.

Everything goes through the seam (moves, views, named statements), so that each database that
brings one runs the same tests.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from benbi.errors import ClaimLost
from benbi.job import Claim, ErrorRecord, Event, Job, NewJob, new_id
from benbi.outcome import Completed, Failed, Outcome, decide
from benbi.retry import Retry
from benbi.store import lifecycle, moves, upstream, views, workers
from benbi.store.database import Database, Transaction
from benbi.store.lifecycle import (
    Accepted,
    Asked,
    ClaimRequest,
    Place,
    StepRecord,
    Told,
    Write,
)
from benbi.store.moves import Found
from benbi.store.recorded import Recorded, recorded
from benbi.store.store import Store
from benbi.store.workers import Held, Worker
from tests.support.polling import wait_until
from tests.support.postgresql import looked

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
POLICY = Retry(attempts=3, first=10, jitter=0)


class Clock:
    """Microseconds that move only when a test says so."""

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Rig:
    """One store under test. Jobs are named by their public id; times are seconds."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.store = Store(database)
        self.store.open()
        self._tokens = count(1)
        # By fence: one claim call gives all its claims one token.
        self._numbers: Counter[tuple[int, int]] = Counter()
        self.written: dict[tuple[int, int], Write] = {}

    # Enqueue.

    def new(
        self,
        task: str = "work",
        *,
        arguments: Any = None,
        key: str | None = None,
        within: float | None = None,
        delay: float | None = None,
        after: Sequence[str] = (),
        **fields: Any,
    ) -> NewJob:
        """A row to store: pending now, three attempts and three losses unless fields say so."""
        text = "{}" if arguments is None else json.dumps(arguments)
        comparable = key is not None or within is not None
        made = NewJob(
            id=new_id(),
            task=task,
            queue="default",
            owner="",
            rank=0,
            delay=None if delay is None else round(delay * SECOND),
            run_at=None,
            max_attempts=3,
            max_losses=3,
            timeout=None,
            grace=SECOND,
            keep=None,
            expires_in=None,
            key=key,
            arguments_hash=hashlib.blake2b(text.encode()).digest()[:16] if comparable else None,
            arguments=text,
            same_call_within=None if within is None else round(within * SECOND),
        )
        return made._replace(after=tuple(map(views.as_bytes, after)), **fields)

    def put(self, task: str = "work", **fields: Any) -> str:
        """Stores one job; its id, or that of the job that is there already."""
        (job_id,) = self.put_rows(self.new(task, **fields))
        return job_id

    def put_rows(self, *rows: NewJob) -> list[str]:
        """Stores rows in one call, atomically."""
        return [views.as_text(job_id) for job_id in self.store.enqueue_sync(rows)]

    # Workers and claims.

    def worker(self, name: str = "worker") -> int:
        """A newly registered worker's number."""
        told = Worker(f"{name}-{next(self._tokens)}", "host", 1, 10, ["default"], ["work"], "0")
        return self.store.write_sync(workers.register, told)

    def claim(
        self,
        worker: int,
        most: int = 1,
        *,
        queues: Sequence[str] = ("default",),
        tasks: Sequence[str] = ("work",),
        fragile: bool = True,
        marks: dict[str, Place] | None = None,
    ) -> list[Claim]:
        request = ClaimRequest(
            worker, 1000 + next(self._tokens), queues, json.dumps(tasks), most, fragile, marks
        )
        return self.store.write_sync(lifecycle.claim, request)

    def claim_one(self, worker: int | None = None, **asked: Any) -> Claim:
        """The one job that this claim gets."""
        (claim,) = self.claim(self.worker() if worker is None else worker, **asked)
        return claim

    def running(self, worker: int | None = None, **fields: Any) -> Claim:
        """A new job, claimed."""
        job_id = self.put(**fields)
        claim = self.claim_one(worker)
        assert claim.job_id == job_id
        return claim

    # What a claim writes.

    def write(
        self,
        claim: Claim,
        *events: Told,
        steps: Sequence[StepRecord] = (),
        progress: tuple[float, float | None, str] | None = None,
    ) -> Accepted:
        """The claim's next write. ClaimLost."""
        return self._record(
            Write(claim, self._number(claim), list(events), list(steps), [], progress)
        )

    def add_jobs(self, claim: Claim, rows: Sequence[NewJob]) -> Accepted:
        """The claim's next write adds jobs."""
        return self._record(Write(claim, self._number(claim), adds=rows))

    def finish(
        self,
        claim: Claim,
        outcome: Outcome,
        *events: Told,
        steps: Sequence[StepRecord] = (),
        asks: Sequence[Asked] = (),
        awaits: Sequence[str] = (),
        policy: Retry = POLICY,
    ) -> str | None:
        """Finishes the claim with what ``decide`` says; the state the job arrived in."""
        write = Write(claim, self._number(claim), list(events), list(steps), list(asks))
        write.decision = decide(claim, outcome, policy)
        write.awaited = [views.as_bytes(job_id) for job_id in awaits]
        return self._record(write).state

    def finish_together(
        self, finishes: Iterable[tuple[Claim, Outcome, Sequence[Asked]]]
    ) -> list[str | None]:
        """Many finishes in few transactions; the states, None where the claim was lost."""
        tickets = []
        for claim, outcome, asks in finishes:
            write = Write(claim, self._number(claim), [], [], list(asks))
            write.decision = decide(claim, outcome, POLICY)
            self.written[claim.n, claim.token] = write
            tickets.append(self.store.record(write, 0, None))
        states: list[str | None] = []
        for ticket in tickets:
            try:
                states.append(ticket.result().state)
            except ClaimLost:
                states.append(None)
        return states

    def complete(self, claim: Claim, result: Any = None) -> str | None:
        return self.finish(claim, Completed(json.dumps(result)))

    def repeat(self, claim: Claim) -> Accepted:
        """The claim's last write once more, as after an unknown commit. ClaimLost."""
        return self._record(self.written[claim.n, claim.token])

    def _number(self, claim: Claim) -> int:
        self._numbers[claim.n, claim.token] += 1
        return self._numbers[claim.n, claim.token]

    def _record(self, write: Write) -> Accepted:
        self.written[write.claim.n, write.claim.token] = write
        return self.store.record(write, 0, None).result()

    def recorded(self, claim: Claim) -> Recorded:
        return self.store.read_sync(recorded, claim)

    # Moves of people and of time.

    def cancel(self, job_id: str, reason: str = "requested") -> None:
        self.store.write_sync(_cancel, job_id, reason)

    def again(
        self, job_id: str, *, attempts: int = 3, losses: int = 3, fresh: bool = False
    ) -> None:
        self.store.write_sync(_again, job_id, attempts, losses, fresh)

    def answer(self, job_id: str, key: str, value: Any, by: str = "somebody") -> None:
        self.store.write_sync(_answer, job_id, key, json.dumps(value), by)

    def due(self) -> int:
        return self.store.write_sync(moves.due)

    def expire(self) -> int:
        return self.store.write_sync(moves.expire)

    def stop_overrun(self, *, allowance: float = 0, delay: float = 1) -> list[int]:
        return self.store.write_sync(
            moves.stop_overrun, round(allowance * SECOND), round(delay * SECOND)
        )

    def settle(self) -> None:
        """What upkeep does for cascades that were cut, until nothing is left."""
        while self.store.write_sync(upstream.go_on):
            pass

    def prune(self, *, keep_failed: float = 30 * 86400, keep_other: float = 7 * 86400) -> int:
        """All stretches once; how many jobs were removed."""
        removed = after = 0
        while True:
            stretch = self.store.write_sync(
                moves.prune, after, round(keep_failed * SECOND), round(keep_other * SECOND)
            )
            removed, after = removed + stretch.removed, stretch.after
            if not after:
                return removed

    def beat(self, worker: int) -> dict[int, Held] | None:
        return self.store.write_sync(workers.beat, worker)

    def beat_no(self, worker: int) -> int | None:
        return self.store.read_sync(workers.beats).get(worker)

    def bury(self, worker: int, beat_no: int | None = None) -> list[int] | None:
        """Buries the worker, unless it beat after ``beat_no`` (None: its present one)."""
        seen = self.beat_no(worker) if beat_no is None else beat_no
        return self.store.write_sync(workers.bury, worker, seen or 0)

    def release(self, worker: int, claim: Claim, reason: str = "unheld") -> list[int]:
        return self.store.write_sync(workers.release, worker, [(claim.n, claim.token)], reason)

    def sign_off(self, worker: int) -> list[int]:
        return self.store.write_sync(workers.sign_off, worker, "drain")

    # What is there.

    def job(self, job_id: str, owner: str | None = None) -> Job:
        return self.store.read_sync(views.job, job_id, owner)

    def state(self, job_id: str) -> str:
        return str(self.job(job_id).state)

    def found(self, job_id: str) -> Found:
        return self.store.read_sync(views.find, job_id, None)

    def events(self, job_id: str) -> list[Event]:
        found = self.found(job_id)
        return self.store.read_sync(views.events, job_id, found.n, 0, 10_000)

    def since(self, cursor: int, owner: str | None = None, limit: int = 10_000) -> list[Event]:
        """The stream of all jobs. On a server that others use, it waits for their transactions."""
        if self.database.dialect != "sqlite":
            wait_until(lambda: self.rows("newest_position") == self.rows("last_position"), 30.0)
        return self.store.read_sync(views.events_since, owner, cursor, limit)

    def types(self, job_id: str) -> list[str]:
        return [event.type for event in self.events(job_id)]

    def last(self, job_id: str) -> tuple[str, str | None]:
        """(type, reason) of the newest event."""
        event = self.events(job_id)[-1]
        return event.type, event.reason

    def result(self, job_id: str) -> Any:
        text = self.store.read_sync(views.result, self.found(job_id))
        return None if text is None else json.loads(text)

    def rows(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a named statement that changes nothing, though it may lock."""

        def move(tx: Transaction) -> list[tuple[Any, ...]]:
            return tx.rows(statement, **values)

        return self.store.write_sync(move)

    # Past the seam: what no move does, and what no view shows.

    def table(self, part: str) -> str:
        """A table as this database names it."""
        return f"benbi_{part}" if self.database.dialect == "sqlite" else f"benbi.{part}"

    def script(self, sql: str) -> None:
        """Runs statements in a transaction. They name tables in brackets: ``{jobs}``."""

        def move(tx: Transaction) -> None:
            tx.script(re.sub(r"\{(\w+)\}", lambda found: self.table(found[1]), sql))

        self.store.write_sync(move)

    def count(self, part: str) -> int:
        """How many rows a table has."""

        def view(tx: Any) -> int:
            sql = f"SELECT count(*) FROM {self.table(part)}"
            if self.database.dialect == "postgresql":
                ((count,),) = looked(tx, sql)
                return count
            return tx._cursor.execute(sql).fetchone()[0]

        return self.store.read_sync(view)


def step(
    name: str = "load", use: str = "#1", result: Any = 1, *, failed: bool = False, tries: int = 1
) -> StepRecord:
    """A step's record: its result, or its failed tries."""
    if failed:
        return StepRecord("step", name, use, b"print", "failed", tries, None, '{"type": "E"}')
    return StepRecord("step", name, use, b"print", "completed", tries, json.dumps(result), None)


def asked(key: str = "colour", *, default: Any = None, timeout: float | None = None) -> Asked:
    """A question as a suspended attempt brings it; None: no default."""
    return Asked(
        key,
        b"print",
        f"Which {key}?",
        '{"type": "string"}',
        None if default is None else json.dumps(default),
        None if timeout is None else round(timeout * SECOND),
    )


def failure(kind: str = "transient", message: str = "no luck") -> Failed:
    return Failed(ErrorRecord("ConnectionError", message, kind, "a rule"))


def _cancel(tx: Transaction, job_id: str, reason: str) -> None:
    moves.cancel(tx, [views.find(tx, job_id, None).n], reason)


def _again(tx: Transaction, job_id: str, attempts: int, losses: int, fresh: bool) -> None:
    moves.again(tx, views.find(tx, job_id, None).n, attempts, losses, fresh)


def _answer(tx: Transaction, job_id: str, key: str, text: str, by: str) -> None:
    moves.answer(tx, views.find(tx, job_id, None), key, text, by)
