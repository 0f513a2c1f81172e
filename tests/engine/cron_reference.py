"""A second opinion on cron in time zones: looks at every minute, and shares no code with benbi.

It knows the rules as docs/schedules.md states them, and of zones only what a clock on the wall
shows at an instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def walk(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """(instant, what clocks show) of each minute in [start, end)."""
    while start < end:
        yield start, start.astimezone(zone).replace(tzinfo=None)
        start += MINUTE


def transitions(zone: ZoneInfo, start: datetime, end: datetime) -> list[datetime]:
    """The minutes in [start, end) at which clocks are changed, found by looking every hour."""
    found = []
    while start < end:
        after = start + timedelta(hours=1)
        if start.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            minutes = list(walk(zone, start, after + MINUTE))
            found += [
                late for (_, wall), (late, then) in pairwise(minutes) if then - wall != MINUTE
            ]
        start = after
    return found


class Expression:
    """Five fields of numbers, names, ranges, lists and steps; days by Debian's rule."""

    def __init__(self, text: str) -> None:
        self.fields = text.split()
        self.minutes = _values(self.fields[0], 0, 59)
        self.hours = _values(self.fields[1], 0, 23)
        self.days = _values(self.fields[2], 1, 31)
        self.months = _values(self.fields[3], 1, 12)
        self.weekdays = {value % 7 for value in _values(self.fields[4], 0, 7)}
        self.by_the_clock = self.fields[0][0] != "*" and self.fields[1][0] != "*"

    def names(self, wall: datetime) -> bool:
        if wall.minute not in self.minutes or wall.hour not in self.hours:
            return False
        day, weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        both = self.fields[2][0] == "*" or self.fields[4][0] == "*"
        return wall.month in self.months and (day and weekday if both else day or weekday)

    def ticks(self, minutes: list[tuple[datetime, datetime]]) -> list[datetime]:
        """The instants among consecutive ``minutes`` at which a job is due."""
        if not self.by_the_clock:
            return [instant for instant, wall in minutes if self.names(wall)]
        found: set[datetime] = set()
        shown: set[datetime] = set()
        before = minutes[0][1] - MINUTE
        for instant, wall in minutes:
            # Each time of the clock from the one shown last: more than one where it jumps ahead.
            passed = [before + MINUTE * n for n in range(1, (wall - before) // MINUTE)]
            if any(self.names(time) for time in passed if time not in shown):
                found.add(instant)
            if self.names(wall) and wall not in shown:
                found.add(instant)
            shown.update(passed, [wall])
            before = wall
        return sorted(found)


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = (_number(end, low) for end in span.split("-"))
        else:
            first = _number(span, low)
            last = high if step else first
        found.update(range(first, last + 1, int(step or 1)))
    return found


def _number(text: str, low: int) -> int:
    if text.isdigit():
        return int(text)
    return WEEKDAYS.index(text) if text in WEEKDAYS else 1 + MONTHS.index(text)


def utc(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)  # type: ignore[arg-type]
