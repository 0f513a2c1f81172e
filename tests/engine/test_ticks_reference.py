"""Ticks against a reference that looks at every minute: ten years, five zones, every transition."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NoReturn
from zoneinfo import ZoneInfo, available_timezones

import pytest

from benbi.engine.ticks import Cron
from tests.engine.cron_reference import Expression, transitions, utc, walk

START, END = utc(2016, 1, 1), utc(2026, 1, 1)
AROUND = timedelta(hours=5)
# Two hemispheres, half an hour, midnight, a clock that is put back for a month each year, and
# one that goes back in summer.
ZONES = {
    "America/New_York": 20,
    "Australia/Lord_Howe": 20,
    "America/Santiago": 20,
    "Africa/Casablanca": 25,
    "Europe/Dublin": 20,
}
SPECS = [
    "0 9 * * mon-fri",
    "30 2 * * *",
    "5,35 0-4 * * *",
    "0 0 * * *",
    "15 1 * 3,10,11 sun",
    "59 23 * * *",
    "* * * * *",
    "*/7 * * * *",
    "20 * * * *",
    "*/10 1-5 * * *",
    "* 0,2 1-7 * sun",
    "0 */2 * * *",
]


def refuse(problem: str) -> NoReturn:
    raise AssertionError(problem)


def micros(moment: datetime) -> int:
    return round(moment.timestamp()) * 1_000_000


def ours(cron: Cron, start: datetime, end: datetime) -> list[int]:
    """The ticks in [start, end)."""
    found, tick = [], cron.after(micros(start) - 1)
    while tick is not None and tick < micros(end):
        found.append(tick)
        tick = cron.after(tick)
    return found


def differences(name: str, specs: list[str], start: datetime, end: datetime) -> list[str]:
    """Where benbi and the reference differ within [start, end)."""
    # What the clock showed in the hours before decides what it repeats.
    early = start - timedelta(hours=3)
    minutes = list(walk(ZoneInfo(name), early, end))
    found = []
    for spec in specs:
        expected = [micros(tick) for tick in Expression(spec).ticks(minutes) if tick >= start]
        got = ours(Cron(spec, name, refuse), start, end)
        if got != expected:
            found.append(f"{name} {spec!r} {start}: {sorted({*got} ^ {*expected})[:4]}")
    return found


@pytest.mark.parametrize("name", list(ZONES))
def test_around_every_transition_of_ten_years(name: str) -> None:
    changes = transitions(ZoneInfo(name), START, END)
    assert len(changes) == ZONES[name], "the zone is not what this test is meant for"
    found = []
    for change in changes:
        found += differences(name, SPECS, change - AROUND, change + AROUND)
    assert not found


@pytest.mark.soak
@pytest.mark.parametrize("name", list(ZONES))
def test_every_minute_of_ten_years(name: str) -> None:
    # Every minute as such stands in the other tests: it alone would take most of the time here.
    specs = [spec for spec in SPECS if spec != "* * * * *"]
    found = []
    for year in range(START.year, END.year):
        found += differences(name, specs, utc(year, 1, 1), utc(year + 1, 1, 1))
    assert not found


@pytest.mark.soak
def test_around_every_transition_of_every_zone() -> None:
    found, seen = [], 0
    for name in sorted(available_timezones() - {"localtime"}):
        for change in transitions(ZoneInfo(name), utc(2010, 1, 1), utc(2031, 1, 1)):
            seen += 1
            found += differences(name, SPECS[:9:2], change - AROUND, change + AROUND)
    assert seen > 5_000
    assert not found, found[:20]


@pytest.mark.parametrize("spec", SPECS)
def test_the_latest_is_the_last_of_all(spec: str) -> None:
    cron = Cron(spec, "America/Santiago", refuse)
    start, end = utc(2025, 4, 3), utc(2025, 4, 9)
    ticks = ours(cron, start, end)
    for hours in range(1, 24 * 6, 7):
        until = micros(start + timedelta(hours=hours))
        last = max((tick for tick in ticks if tick <= until), default=None)
        assert cron.latest(micros(start) - 1, until) == last
