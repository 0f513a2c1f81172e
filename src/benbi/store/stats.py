"""What became of jobs in the last days: counts and percentiles, in one pass over the log.

The log is read in stretches, each a short read of its own: no reader holds the write-ahead log
for long. What is kept between them is small however many attempts there were: durations are
counted by their first three digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benbi.fleet import Stats, TaskStats, Timings
from benbi.job import as_datetime
from benbi.store.database import Row, Transaction
from benbi.store.fleet import moment

STRETCH = 5_000  # events of one read
ENDINGS = ("completed", "failed", "canceled", "skipped")


class Span(NamedTuple):
    """A part of the log: positions ``after`` < p <= ``newest``, of times from ``since`` on."""

    after: int
    newest: int
    since: int
    until: int


def span_of(view: Transaction, length: int) -> Span:
    """The last ``length`` microseconds of the log."""
    since = view.now - length
    ((newest,),) = view.rows("last_position")
    ((low,),) = view.rows("oldest_position")
    high = newest + 1
    while low < high:
        middle = (low + high) // 2
        ((at,),) = view.rows("event_at", position=middle)
        low, high = (low, middle) if at >= since else (middle + 1, high)
    return Span(low - 1, newest, since, view.now)


def stretch(view: Transaction, span: Span) -> list[Row]:
    """The next rows of the span: (position, task, queue, type, reason, microseconds or None)."""
    return view.rows(
        "attempts_since", after=span.after, newest=span.newest, since=span.since, most=STRETCH
    )


def count(view: Transaction, tally: Tally, span: Span) -> Span | None:
    """Reads the next stretch into the tally, in the reader's thread; the span that is left."""
    return tally.add(stretch(view, span))


def backlog(view: Transaction) -> list[Row]:
    """(task, queue, count, since when) of what is pending now."""
    return view.rows("backlog")


class Tally:
    """Adds up rows of the log, by task and queue."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._retries: Counter[tuple[str, str]] = Counter()
        self._waited: dict[tuple[str, str], Counter[int]] = {}
        self._ran: dict[tuple[str, str], Counter[int]] = {}

    def add(self, rows: Sequence[Row]) -> Span | None:
        """Counts the next stretch; the span that is left, None after the last."""
        for _, task, queue, type, reason, took in rows:
            place = (task, queue)
            if type in ENDINGS:
                self._ended[task, queue, type] += 1
            elif type == "retrying" or (type == "pending" and reason == "lost"):
                self._retries[place] += 1
            if took is not None:
                kind = self._waited if type == "started" else self._ran
                kind.setdefault(place, Counter())[rounded(took)] += 1
        return self._span._replace(after=rows[-1][0]) if len(rows) == STRETCH else None

    def stats(self, pending: Sequence[Row]) -> Stats:
        """All that was added, with what is pending now."""
        now = {(task, queue): (count, oldest) for task, queue, count, oldest in pending}
        ended = {(task, queue) for task, queue, _ in self._ended}
        places = sorted({*ended, *self._retries, *self._waited, *self._ran, *now})
        return Stats(
            since=moment(self._span.since),
            until=moment(self._span.until),
            tasks=tuple(self._of(place, *now.get(place, (0, None))) for place in places),
        )

    def _of(self, place: tuple[str, str], pending: int, oldest: int | None) -> TaskStats:
        ends = {ending: self._ended[*place, ending] for ending in ENDINGS}
        decided = ends["completed"] + ends["failed"]
        return TaskStats(
            *place,
            **ends,
            success_rate=ends["completed"] / decided if decided else None,
            retries=self._retries[place],
            waited=timings(self._waited.get(place, {})),
            ran=timings(self._ran.get(place, {})),
            pending=pending,
            oldest_pending=as_datetime(oldest),
        )


def rounded(micros: int) -> int:
    """Three significant digits: so many different durations can be counted, and no more."""
    unit = 10 ** max(0, len(str(abs(micros))) - 3)
    return (micros + unit // 2) // unit * unit


def timings(counted: Mapping[int, int]) -> Timings:
    """The percentiles of counted durations (microseconds), by the nearest rank."""
    total = sum(counted.values())
    if not total:
        return Timings(0, None, None, None)
    ranks = {share: -(-total * share // 100) for share in (50, 95, 99)}
    found: dict[Any, float] = {}
    reached = 0
    for micros in sorted(counted):
        reached += counted[micros]
        for share, rank in ranks.items():
            if reached >= rank and share not in found:
                found[share] = max(0, micros) / 1e6
    return Timings(total, found[50], found[95], found[99])
