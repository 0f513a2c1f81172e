"""A job's life in transactions: enqueue, claim, the writes of a claim, its finish.

Each function is the body of one transaction and may be run again after an unknown commit:
ids are made by the caller, a claim call has its own token, a claim's writes are numbered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from benbi.errors import ClaimLost, IdempotencyConflict
from benbi.job import FINAL, Claim, NewJob
from benbi.outcome import Decision
from benbi.store import upstream
from benbi.store.database import Row, Transaction
from benbi.store.linked import enqueue_linked, keyed, same_call
from benbi.store.moves import go_on


class Told(NamedTuple):
    """An event to append. ``data`` is JSON text."""

    type: str
    reason: str | None = None
    data: str | None = None


class StepRecord(NamedTuple):
    """One row of ``steps``: the recorded end of a step, or its failed tries so far."""

    kind: str
    name: str
    use: str
    fingerprint: bytes
    state: str
    tries: int
    result: str | None
    error: str | None


class Asked(NamedTuple):
    """A question born in the transaction that suspends its job. ``timeout`` in microseconds."""

    key: str
    fingerprint: bytes
    prompt: str
    schema: str
    default: str | None
    timeout: int | None


@dataclass(slots=True)
class Write:
    """What a claim writes under its fence, in one transaction.

    ``number`` counts the claim's writes: a repeated one is recognised and changes nothing.
    """

    claim: Claim
    number: int
    events: Sequence[Told] = ()
    steps: Sequence[StepRecord] = ()
    questions: Sequence[Asked] = ()
    progress: tuple[float, float | None, str] | None = None
    decision: Decision | None = None
    # What else is recorded with it: named statements and their values.
    also: Sequence[tuple[str, Mapping[str, Any]]] = ()
    # Jobs that it adds, and, where it waits, those that it waits for.
    adds: Sequence[NewJob] = ()
    awaited: Sequence[bytes] = ()


class Accepted(NamedTuple):
    """A write that was recorded. ``state`` is None while the job runs on."""

    cancel_requested: bool
    state: str | None = None


def enqueue(tx: Transaction, groups: Sequence[Sequence[NewJob]]) -> list[list[bytes] | Exception]:
    """Stores each group of jobs; returns the ids of each group, in order.

    A job whose id is there already is the repetition of an unknown commit; one whose key is
    there is the existing job, or IdempotencyConflict for its group's caller.
    """
    outcomes: list[list[bytes] | Exception] = []
    plain: list[NewJob] = []
    for group in groups:
        if all(job.arguments_hash is None for job in group):
            plain += group
            outcomes.append([job.id for job in group])
            continue
        try:
            outcomes.append([_insert_comparable(tx, job) for job in group])
        except IdempotencyConflict as conflict:
            if len(group) > 1:
                raise
            outcomes.append(conflict)
    for _, alike in groupby(plain, attrgetter("likeness")):
        _insert(tx, list(alike))
    return outcomes


def _insert(tx: Transaction, jobs: Sequence[NewJob]) -> Sequence[int | None]:
    """Stores jobs that are alike; the numbers of those that were not there already."""
    job = jobs[0]
    return tx.insert(
        "enqueue",
        [(one.id, one.arguments) for one in jobs],
        task=job.task,
        queue=job.queue,
        owner=job.owner,
        rank=job.rank,
        run_at=job.run_at,
        delay=job.delay,
        max_attempts=job.max_attempts,
        max_losses=job.max_losses,
        timeout=job.timeout,
        grace=job.grace,
        keep=job.keep,
        expires_in=job.expires_in,
        key=job.key,
        arguments_hash=job.arguments_hash,
    )


def _insert_comparable(tx: Transaction, job: NewJob) -> bytes:
    """Stores a job that may be one that is there already: by its key, or as the same call."""
    found = same_call(tx, job)
    while found is None:
        (inserted,) = _insert(tx, [job])
        if inserted is not None or tx.rows("existing", id=job.id):
            return job.id
        found = keyed(tx, job)
    return found


# (rank, run_at, n): the order of claims within a queue.
Place: TypeAlias = tuple[int, int, int]
START: Place = (-(2**63), 0, 0)


class ClaimRequest(NamedTuple):
    """One claim call. ``token`` is fresh and random; ``fragile``: may a job that lost a worker
    before be among the claimed? ``queues`` and ``tasks`` as the worker knows them. ``marks``: how
    far earlier calls came in each queue; this one looks at what is behind, and moves them on."""

    worker: int
    token: int
    queues: Sequence[str]
    tasks: str
    most: int
    fragile: bool
    marks: dict[str, Place] | None = None


def claim(tx: Transaction, request: ClaimRequest) -> list[Claim]:
    """Up to ``most`` pending jobs in the order (rank, run_at, n), now running for this worker.

    Raises ClaimLost where the worker was buried.
    """
    if not tx.rows("worker_alive", worker=request.worker):
        raise ClaimLost("this worker was taken for dead; its jobs went to others")
    chosen = _candidates(tx, request, request.fragile)
    fragile = [row for row in chosen if row[3]]
    if len(fragile) > 1:
        # Only the first: the healthy jobs behind the others must not wait for them.
        healthy = _candidates(tx, request, fragile=False)
        chosen = sorted([fragile[0], *healthy])[: request.most]
    order = {n: place for place, (_, _, n, _, _) in enumerate(chosen)}
    ns = as_json(list(order))
    rows = tx.rows("claim", worker=request.worker, token=request.token, ns=ns)
    # RETURNING has no order of its own.
    claims = sorted(map(_as_claim, rows), key=lambda made: order[made.n])
    tx.rows("arrived", ns=ns)
    if request.marks is not None:
        request.marks.update({queue: (rank, run_at, n) for rank, run_at, n, _, queue in chosen})
    return claims


def _candidates(tx: Transaction, request: ClaimRequest, fragile: bool) -> list[Row]:
    """(rank, run_at, n, losses, queue) of the jobs that are next."""
    found: list[Row] = []
    for queue in request.queues:
        rank, run_at, n = (request.marks or {}).get(queue, START)
        found += tx.rows(
            "candidates",
            queue=queue,
            tasks=request.tasks,
            fragile=int(fragile),
            most=request.most,
            after_rank=rank,
            after_run_at=run_at,
            after_n=n,
        )
    return sorted(found)[: request.most]


def _as_claim(row: Row) -> Claim:
    made = Claim._make(row)
    return made if made.arguments is not None else made._replace(arguments="{}")  # pyright: ignore[reportUnnecessaryComparison]


def write(tx: Transaction, writes: Sequence[Write]) -> list[Accepted | ClaimLost]:
    """Records what claims write: events, steps, progress, and finishes last.

    A claim's writes come in order and its finish is its last, so finishes can be done together.
    """
    outcomes: dict[int, Accepted | ClaimLost] = {}
    running = [item for item in writes if item.decision is None]
    finishing = [item for item in writes if item.decision is not None]
    if running:
        rows = tx.each(
            "write", [(w.number, len(w.events), w.claim.n, w.claim.token) for w in running]
        )
        for item, row in zip(running, rows, strict=True):
            if row:
                ((seq, cancel_requested_at),) = row
                canceled = cancel_requested_at is not None
                _record(tx, item, seq, canceled)
                outcomes[id(item)] = Accepted(canceled)
            else:
                outcomes[id(item)] = _standing(tx, item)
    if finishing:
        _finish(tx, finishing, outcomes)
    return [outcomes[id(item)] for item in writes]


def _record(tx: Transaction, item: Write, seq: int, canceled: bool = False) -> None:
    n, attempt = item.claim.n, item.claim.attempt
    first = seq - len(item.events) + 1
    if item.events:
        tx.many(
            "event",
            (
                (n, first + place, told.type, told.reason, attempt, tx.now, told.data)
                for place, told in enumerate(item.events)
            ),
        )
    if item.progress is not None:
        done, total, message = item.progress
        tx.rows("progress", n=n, done=done, total=total, message=message)
    for statement, values in item.also:
        tx.rows(statement, n=n, attempt=attempt, **values)
    if item.adds and canceled:
        # Whoever cancels a run means what its jobs would add as well.
        return
    if item.adds:
        enqueue_linked(tx, [item.adds], n)
    for step in item.steps:
        tx.rows(
            "step",
            n=n,
            generation=item.claim.generation,
            attempt=attempt,
            **step._asdict(),
        )


def _finish(tx: Transaction, items: list[Write], outcomes: dict[int, Accepted | ClaimLost]) -> None:
    moved = _moved(tx, items)
    arrived: list[int] = []
    events: list[tuple[Any, ...]] = []
    results: list[tuple[int, str | None, str | None]] = []
    asking: list[int] = []
    awaiting: list[Write] = []
    gone: list[int] = []
    for item in items:
        found = moved.get((item.claim.n, item.claim.token, item.number))
        if found is None:
            outcomes[id(item)] = _standing(tx, item)
            continue
        state, reason, seq = found
        decision, n, attempt = item.decision, item.claim.n, item.claim.attempt
        assert decision is not None
        if item.events or item.steps or item.also or item.progress is not None:
            _record(tx, item, seq - 1)
        stands = state == decision.state
        if stands and decision.data is not None:
            events.append((n, seq, state, reason, attempt, tx.now, decision.data))
        else:
            arrived.append(n)
        if stands:
            if decision.result not in (None, "null") or decision.error is not None:
                results.append((n, decision.result, decision.error))
            for asked in item.questions:
                _ask(tx, item.claim, asked)
            asking += [n] if item.questions else []
            awaiting += [item] if item.awaited else []
        if state in FINAL:
            gone.append(n)
        outcomes[id(item)] = Accepted(False, state)
    if arrived:
        tx.rows("arrived", ns=as_json(arrived))
    if events:
        tx.many("event", events)
    if results:
        tx.many("result", results)
    for n in asking:
        # Asked again after a retry by hand, and answered since this attempt began: no wait.
        go_on(tx, n)
    for item in awaiting:
        upstream.await_jobs(tx, item.claim.n, item.awaited)
    upstream.ended(tx, gone)


def _moved(tx: Transaction, items: list[Write]) -> dict[tuple[int, int, int], Row]:
    """(state, reason, last_seq) of each claim that the finishing statement still found."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for item in items:
        decision = item.decision
        assert decision is not None
        charge = (decision.failures, decision.losses)
        proposal = (decision.live, decision.state, decision.reason, *charge)
        fence = (decision.delay, item.number, len(item.events) + 1, item.claim.token)
        alike.setdefault(proposal + fence, []).append(item.claim.n)
    moved: dict[tuple[int, int, int], Row] = {}
    for (live, state, reason, *charge, delay, number, events, token), ns in alike.items():
        for n, *found in tx.rows(
            "await" if state == "waiting" else "finish",
            live=live,
            state=state,
            reason=reason,
            failures=charge[0],
            losses=charge[1],
            delay=delay,
            write_no=number,
            events=events,
            token=token,
            ns=as_json(ns),
        ):
            moved[n, token, number] = tuple(found)
    return moved


def _ask(tx: Transaction, claim: Claim, asked: Asked) -> None:
    tx.rows(
        "question",
        n=claim.n,
        generation=claim.generation,
        key=asked.key,
        fingerprint=asked.fingerprint,
        prompt=asked.prompt,
        schema=asked.schema,
        default_answer=asked.default,
        timeout=asked.timeout,
    )


def _standing(tx: Transaction, item: Write) -> Accepted | ClaimLost:
    """After a fenced write that changed nothing: my own earlier commit, or a lost claim?"""
    for state, token, last_write in tx.rows("standing", n=item.claim.n):
        if token == item.claim.token and last_write >= item.number:
            return Accepted(False, None if state == "running" else state)
    return ClaimLost(f"job {item.claim.job_id} is no longer held by attempt {item.claim.attempt}")


def as_json(value: Any) -> str:
    """Compact JSON text of a value that is known to be plain."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
