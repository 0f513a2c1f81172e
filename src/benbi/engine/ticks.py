"""When a schedule is due: pure arithmetic on instants, in microseconds UTC.

cronsim knows the calendar (fields, names, last days); what a change of the clocks makes of its
times is decided here, for it loses ticks where clocks change by half an hour and runs back in
the repeated hour (docs/decisions/015-schedules.md).

* Minute and hour both written without a leading star (``30 2 * * *``): once a day for each time.
  A time that the clocks skip is due when they have skipped it; one that they repeat, the first
  time.
* Else (``*/15 * * * *``): by elapsed time. What is skipped does not occur; what is repeated
  occurs twice.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from benbi.job import as_datetime
from benbi.options import Duration, Refuse, seconds_of

_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)
_DAY: Final = timedelta(days=1)
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FORM: Final = (
    'minute hour day-of-month month day-of-week, as in "0 9 * * mon-fri", or '
    "@hourly, @daily, @weekly, @monthly, @yearly"
)
# cronsim takes any step: */61 would be a field with one time, which nobody means.
_SIZES: Final = {"minute": 60, "hour": 24, "day-of-month": 31, "month": 12, "day-of-week": 7}
# Upkeep looks once a second.
_SHORTEST: Final = 1.0


class Ticks(Protocol):
    """The instants at which a schedule is due. ``spec`` and ``timezone`` say which, as text."""

    spec: str
    timezone: str

    def after(self, at: int) -> int | None:
        """The first tick later than ``at``; None where there is none for fifty years."""
        ...

    def latest(self, after: int, until: int) -> int | None:
        """The last tick later than ``after`` and not later than ``until``."""
        ...


class Cron:
    """The ticks of a cron expression in a time zone. ``refuse`` is told what is wrong with it."""

    def __init__(self, spec: str, timezone: str, refuse: Refuse) -> None:
        self.spec = " ".join(str(spec).split())
        self.timezone = timezone
        self._zone = _zone(timezone, refuse)
        self._expression = _NAMED.get(self.spec.lower(), self.spec)
        fields = self._expression.split()
        if len(fields) != 5:
            seconds = '; for less than a minute say every="10s"' if len(fields) == 6 else ""
            refuse(f"{spec!r} has not five fields: {_FORM}{seconds}")
        for field, (what, size) in zip(fields, _SIZES.items(), strict=True):
            steps = [term.partition("/")[2] for term in field.split(",")]
            if any(step.isdecimal() and int(step) > size for step in steps):
                refuse(f"{spec!r}: a step of the {what} is {size} at the most; {_FORM}")
        self._by_the_clock = not fields[0].startswith("*") and not fields[1].startswith("*")
        try:
            first = self.after(_micros(datetime.now(UTC)))
        except (CronSimError, ValueError, AssertionError, TypeError) as error:
            refuse(f"{spec!r}: {str(error).lower() or 'no cron expression'}; {_FORM}")
        if first is None:
            refuse(f"{spec!r} names a date that does not come in fifty years; {_FORM}")

    def after(self, at: int) -> int | None:
        moment = as_datetime(at)
        assert moment is not None
        found = self._by_clock(moment) if self._by_the_clock else self._by_elapsed_time(moment)
        return None if found is None else _micros(found)

    def latest(self, after: int, until: int) -> int | None:
        reach = 60_000_000
        # What was missed may be years of minutes: look back, twice as far each time.
        while True:
            start = max(after, until - reach)
            found = None
            tick = self.after(start)
            while tick is not None and tick <= until:
                found, tick = tick, self.after(tick)
            if found is not None or start == after:
                return found
            reach *= 2

    def _times(self, wall: datetime) -> Iterator[datetime]:
        """Clock times that the expression names, after ``wall``, wherever clocks change."""
        return CronSim(self._expression, wall)

    def _by_clock(self, moment: datetime) -> datetime | None:
        for time in self._times(self._wall(moment)):
            while self._wall(found := self._first(time)) != time:
                time += _MINUTE
            # The second time that clocks show the hour, its times are over.
            if found > moment:
                return found
        return None

    def _by_elapsed_time(self, moment: datetime) -> datetime | None:
        wall = self._wall(moment)
        while (time := next(self._times(wall), None)) is not None:
            found = (time - self._offset(moment)).replace(tzinfo=UTC)
            change = self._change(moment, found)
            if change is None:
                return found
            # Nothing is due before the clocks change; from there on they show other times.
            moment, wall = change, self._wall(change) - _SECOND
        return None

    def _change(self, since: datetime, until: datetime) -> datetime | None:
        """The first instant in (since, until] with another offset than ``since``."""
        offset = self._offset(since)
        while since < until:
            look = min(since + _DAY, until)
            if self._offset(look) == offset:
                since = look
                continue
            while look - since > _SECOND:
                middle = since + (look - since) // 2
                since, look = (middle, look) if self._offset(middle) == offset else (since, middle)
            return look.replace(microsecond=0)
        return None

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta()

    def _wall(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone).replace(tzinfo=None)

    def _first(self, time: datetime) -> datetime:
        """The first instant at which clocks show ``time``, if they ever do."""
        return time.replace(tzinfo=self._zone).astimezone(UTC)


class Every:
    """A tick at each multiple of an interval since 1970 UTC: the same in every process."""

    timezone = ""

    def __init__(self, every: Duration, refuse: Refuse) -> None:
        seconds = seconds_of(every, "every", refuse)
        if seconds < _SHORTEST:
            refuse(f"every={every!r}: a second or more")
        self._interval = round(seconds * 1_000_000)
        self.spec = f"every {_in_units(seconds)}"

    def after(self, at: int) -> int | None:
        return at - at % self._interval + self._interval

    def latest(self, after: int, until: int) -> int | None:
        found = until - until % self._interval
        return found if found > after else None


def ticks_of(spec: str, timezone: str, refuse: Refuse) -> Ticks:
    """The ticks that a stored ``spec`` means."""
    if spec.startswith("every "):
        return Every(spec.removeprefix("every "), refuse)
    return Cron(spec, timezone, refuse)


def _in_units(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.15g}s"


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _zone(name: str, refuse: Refuse) -> tzinfo:
    if name == "UTC":
        # Known without a database of zones.
        return UTC
    try:
        if name == "localtime":
            refuse("timezone='localtime' is another one on each machine; name it")
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        pass
    known = {zone.casefold(): zone for zone in available_timezones()}
    near = difflib.get_close_matches(str(name).casefold(), known, n=3)
    meant = " or ".join(known[zone] for zone in near)
    hint = f"did you mean {meant}?" if meant else "names are those of the IANA, as Asia/Ho_Chi_Minh"
    lacking = "" if known else "; this machine has no zones: pip install tzdata"
    refuse(f"there is no time zone {name!r}; {hint}{lacking}")
