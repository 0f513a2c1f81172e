"""Moves that people and time make: cancel, answer, retry by hand; due, expired, overrun, pruned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from benbi.errors import AnswerRefused, NotPermitted
from benbi.job import FINAL
from benbi.store import upstream
from benbi.store.database import Row, Transaction

STRETCH = 500  # rows that one transaction of upkeep touches at the most


class Found(NamedTuple):
    """A job as a door found it, before it asks for a move."""

    n: int
    owner: str
    state: str


def tell(
    tx: Transaction, rows: Sequence[Row], type: str, reason: str | None, data: str | None = None
) -> None:
    """One event for each row (n, last_seq, attempt) that a move returned.

    Where the jobs have ended by it, whoever waits for them is told in the same breath.
    """
    tx.many("event", ((n, seq, type, reason, attempt, tx.now, data) for n, seq, attempt in rows))
    if type in FINAL:
        upstream.ended(tx, [row[0] for row in rows])


def tell_own(tx: Transaction, rows: Sequence[Row], data: str | None = None) -> list[int]:
    """Events for moves that choose state and reason row by row; returns the jobs moved."""
    tx.many(
        "event",
        (
            (
                n,
                seq,
                state,
                reason,
                attempt,
                tx.now,
                data if state in ("failed", "retrying") or reason == "lost" else None,
            )
            for n, seq, attempt, state, reason in rows
        ),
    )
    upstream.ended(tx, [row[0] for row in rows if row[3] in FINAL])
    return [row[0] for row in rows]


def hold(tx: Transaction, ns: Sequence[int]) -> dict[int, str]:
    """The states of these jobs, which nobody else moves until the transaction ends."""
    return dict(tx.rows("hold", ns=json.dumps(ns)))


def cancel(tx: Transaction, ns: Sequence[int], reason: str, state: str | None = None) -> int:
    """Not running: canceled at once. Running: the worker is asked. Final, or asked before:
    nothing happens. Returns how many of the jobs it changed. ``state``: only those in it.

    They are held first: one that is running when the first statement looks and pending when the
    second does would live on.

    What waits for them is told together, so that many canceled jobs hold the write lock for no
    more edges than one does.
    """
    found = [n for n, its in hold(tx, ns).items() if state in (None, its)]
    listed = json.dumps(found)
    moved = tx.rows("cancel", ns=listed, reason=reason)
    tell(tx, moved, "canceled", reason)
    if len(moved) == len(found):
        return len(moved)
    asked = tx.rows("request_cancel", ns=listed)
    tell(tx, asked, "cancel_requested", reason)
    return len(moved) + len(asked)


def again(tx: Transaction, n: int, attempts: int, losses: int, fresh: bool) -> int:
    """A retry by hand, from failed, canceled or skipped; the jobs that failed with it wait again.
    Returns how many these are.

    ``attempts`` and ``losses`` are the budgets it adds. ``fresh``: a new generation, which
    has no recorded steps. Raises NotPermitted from any other state.
    """
    moved = tx.rows(
        "again",
        n=n,
        attempts=attempts,
        losses=losses,
        fresh=int(fresh),
        waits=int(upstream.waits(tx, n)),
    )
    if not moved:
        state = hold(tx, [n]).get(n, "gone")
        raise NotPermitted(
            f"a job that is {state} can not be retried by hand; only failed, canceled and "
            "skipped ones can"
        )
    tx.many("forget_result", [(n,)])
    if fresh:
        tx.many("prune_progress", [(n,)])
        tx.rows("forget_artifacts", n=n)
    tell_own(tx, moved)
    return upstream.reopen(tx, n)


def answer(tx: Transaction, job: Found, key: str, text: str, by: str) -> None:
    """The first answer wins, whatever state the job lives in. Raises AnswerRefused for a second
    one, and where the job has ended."""
    # Before the question, whose row an answer locks: upkeep that answers takes them in this order.
    state = hold(tx, [job.n]).get(job.n, job.state)
    if state in FINAL:
        raise AnswerRefused(f"the job is {state}: it waits for no answer any more")
    if not tx.rows("answer", n=job.n, key=key, answer=text, by=by):
        raise AnswerRefused(f"question {key!r} is not open: it was answered already")
    (told,) = tx.rows("told", n=job.n)
    tell(tx, [(job.n, *told)], "answered", key, json.dumps({"question": key, "by": by}))
    go_on(tx, job.n)


def go_on(tx: Transaction, n: int) -> None:
    """A job leaves input_required once none of its questions is open."""
    ((still_open,),) = tx.rows("open_questions", n=n)
    if not still_open:
        tell(tx, tx.rows("answered", n=n), "pending", "answered")


def due(tx: Transaction) -> int:
    """Scheduled and retrying jobs whose time has come become pending. Returns how many."""
    moved = tx.rows("due", most=STRETCH)
    tell(tx, moved, "pending", "due")
    return len(moved)


def expire(tx: Transaction) -> int:
    """Ends jobs that were not started in time, and asks whose deadline has passed."""
    error = _error("Expired", "the job's time was over before it was done", "expired")
    moved = tx.rows("expire", most=STRETCH)
    tell(tx, moved, "failed", "expired", error)
    tx.many("result", [(n, None, error) for n, *_ in moved])
    overdue = tx.rows("overdue_questions", most=STRETCH)
    over: set[int] = set()
    for n, key, default in overdue:
        if n in over:
            continue
        if default is None:
            over.add(n)
            failed = tx.rows("unanswered", n=n)
            late = _error("Expired", f"nobody answered {key!r} in time", "expired")
            tell(tx, failed, "failed", "expired", late)
            tx.many("result", [(n, None, late) for n, *_ in failed])
        elif tx.rows("answer", n=n, key=key, answer=default, by="default"):
            (told,) = tx.rows("told", n=n)
            tell(tx, [(n, *told)], "answered", key, json.dumps({"question": key, "by": "default"}))
            go_on(tx, n)
    return len(moved) + len(overdue)


def stop_overrun(tx: Transaction, allowance: int, delay: int) -> list[int]:
    """Ends running rows past their deadline, or their cancel, and the grace: whatever the
    worker says. ``allowance`` (microseconds) leaves the worker time to say it itself."""
    canceled = tx.rows("stop_overrun_cancel", allowance=allowance)
    late = tx.rows("stop_overrun_timeout", allowance=allowance, delay=delay)
    error = _error("TimeoutError", "the job ran over its timeout and did not stop", "timeout")
    tx.many("result", [(row[0], None, error) for row in late if row[3] == "failed"])
    return tell_own(tx, [*canceled, *late], error)


class Stretch(NamedTuple):
    """Where the next pass of retention goes on; 0 after the last row.

    ``files``: the stored artifacts that nothing records any more.
    """

    after: int
    removed: int
    files: tuple[str, ...] = ()


def prune(tx: Transaction, after: int, keep_failed: int, keep_other: int) -> Stretch:
    """Removes whole jobs whose retention is over, in one stretch of rows. Live jobs never."""
    rows = tx.rows(
        "expired_rows",
        after=after,
        most=STRETCH,
        keep_failed=keep_failed,
        keep_other=keep_other,
    )
    over = [n for n, is_over in rows if is_over]
    runs: dict[int, int | None] = dict(tx.rows("runs_of", ns=json.dumps(over)) if over else ())
    # Whoever adds to a run, or removes jobs of it, holds it; these go the next time.
    gone = [(n,) for n in over if n not in runs or runs[n] is not None]
    files: list[Row] = []
    if gone:
        files = tx.rows("prune_artifacts", ns=json.dumps([n for (n,) in gone]))
        for part in (
            "events",
            "steps",
            "questions",
            "progress",
            "logs",
            "arguments",
            "results",
            "edges",
            "unsettled",
            "job",
        ):
            tx.many(f"prune_{part}", gone)
        tx.many("prune_run", [(run,) for run in sorted(filter(None, set(runs.values())))])
    after = rows[-1][0] if len(rows) == STRETCH else 0
    return Stretch(after, len(gone), tuple(file for (file,) in files))


def _error(type: str, message: str, kind: str) -> str:
    return json.dumps(
        {"type": type, "message": message, "kind": kind, "rule": f"reason: {kind}", "traceback": ""}
    )
