"""Moves of all jobs that filters choose: pages of them, and one transaction for each page.

A page is read first, without the write lock. Its transaction looks at each job again: one that
has left the state that was asked for, or has gone, is passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benbi.errors import NotPermitted
from benbi.store import moves
from benbi.store.database import Transaction

# Jobs that one transaction moves at the most: it holds the write lock for some milliseconds.
PAGE = 200


class Filters(NamedTuple):
    """What the jobs have in common; None: anything."""

    owner: str | None
    state: str | None
    task: str | None
    queue: str | None


class Ended(NamedTuple):
    """A job that can be retried by hand, with what its budgets follow from."""

    n: int
    task: str
    max_attempts: int
    max_losses: int


class Again(NamedTuple):
    """A retry by hand to come, with the budgets it adds."""

    n: int
    attempts: int
    losses: int


class Step(NamedTuple):
    """How many jobs a transaction changed, and the last one that it looked at."""

    changed: int
    reached: int


def live(view: Transaction, filters: Filters, before: int) -> list[int]:
    """The next page of jobs that have not ended and were not asked to stop, newest first."""
    rows = view.rows("live_of_filters", before=before, most=PAGE, **filters._asdict())
    return [n for (n,) in rows]


def newest(view: Transaction) -> int:
    """The number of the newest job; 0: there is none."""
    ((n,),) = view.rows("newest_job")
    return n


def ended(view: Transaction, filters: Filters, after: int, last: int) -> list[Ended]:
    """The next page of jobs that can be retried by hand, oldest first, up to the job ``last``."""
    found = filters._asdict()
    rows = view.rows("ended_of_filters", after=after, last=last, most=PAGE, **found)
    return [Ended(*row) for row in rows]


def cancel(tx: Transaction, ns: Sequence[int], state: str | None, reason: str) -> int:
    """Cancels the jobs of a page; how many it changed. ``state``: only those still in it."""
    return moves.cancel(tx, ns, reason, state)


def again(tx: Transaction, page: Sequence[Again], state: str | None, fresh: bool) -> Step:
    """Retries the jobs of a page, up to PAGE with those that wait again by it."""
    changed = touched = 0
    for n, attempts, losses in page:
        if state in (None, moves.hold(tx, [n]).get(n)):
            try:
                touched += 1 + moves.again(tx, n, attempts, losses, fresh)
                changed += 1
            except NotPermitted:
                # Retried by somebody else, or it waits again for one of this very page.
                continue
        if touched >= PAGE:
            return Step(changed, n)
    return Step(changed, page[-1].n)
