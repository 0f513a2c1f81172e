"""When a schedule is due: the rules for changed clocks by example, and what is no schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NoReturn
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from benbi.engine.ticks import Cron, Every, Ticks, ticks_of


class Bad(Exception):
    """What was refused."""


def refuse(problem: str) -> NoReturn:
    raise Bad(problem)


def micros(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp()) * 1_000_000


def after(ticks: Ticks, start: str, count: int) -> list[str]:
    """The next ticks as UTC, "day hour:minute"."""
    at, found = micros(start), []
    for _ in range(count):
        tick = ticks.after(at)
        assert tick is not None and tick > at
        found.append(f"{datetime.fromtimestamp(tick / 1e6, UTC):%d %H:%M}")
        at = tick
    return found


def test_a_time_of_day_in_its_zone() -> None:
    cron = Cron("0 9 * * mon-fri", "Asia/Ho_Chi_Minh", refuse)
    assert after(cron, "2026-11-27T09:00:00+07:00", 2) == ["30 02:00", "01 02:00"]


# In Berlin 02:00 to 03:00 does not exist on 29 March 2026, and comes twice on 25 October.


def test_a_time_that_is_skipped_is_due_when_clocks_have_skipped_it() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-03-28T00:00Z", 3) == ["28 01:30", "29 01:00", "30 00:30"]


def test_several_times_that_are_skipped_are_one_tick() -> None:
    cron = Cron("15,45 2,3 * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-03-29T00:59Z", 3) == ["29 01:00", "29 01:15", "29 01:45"]


def test_a_time_that_is_repeated_is_due_the_first_time() -> None:
    cron = Cron("30 2 * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-10-24T12:00Z", 2) == ["25 00:30", "26 01:30"]


def test_in_the_repeated_hour_time_does_not_run_back() -> None:
    """A process that starts between the two: the first was missed, the second is none."""
    cron = Cron("30 2 * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-10-25T01:10Z", 1) == ["26 01:30"]


def test_stars_go_by_elapsed_time() -> None:
    cron = Cron("*/30 * * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-03-29T00:30Z", 2) == ["29 01:00", "29 01:30"]
    assert after(cron, "2026-10-24T23:59Z", 4) == ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]


def test_a_star_in_a_named_hour_comes_never_or_twice() -> None:
    cron = Cron("*/30 2 * * *", "Europe/Berlin", refuse)
    assert after(cron, "2026-03-28T02:00Z", 1) == ["30 00:00"]
    assert after(cron, "2026-10-25T00:00Z", 3) == ["25 00:30", "25 01:00", "25 01:30"]


def test_the_day_that_samoa_left_out() -> None:
    """From 29 December 2011 clocks went on to the 31st."""
    cron = Cron("0 9 * * *", "Pacific/Apia", refuse)
    assert after(cron, "2011-12-29T00:00-10:00", 3) == ["29 19:00", "30 10:00", "30 19:00"]


def test_where_cronsim_alone_would_be_wrong() -> None:
    """Why it is asked for the calendar only; if this fails, ticks.py may be simpler one day."""
    howe, york = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/New_York")
    lost = next(CronSim("*/10 5 * * *", datetime(2026, 10, 4, tzinfo=howe)))
    assert (lost.hour, lost.minute) == (5, 30), "05:00, 05:10 and 05:20 are lost"
    cron = Cron("*/10 5 * * *", "Australia/Lord_Howe", refuse)
    assert after(cron, "2026-10-04T00:00+10:30", 1) == ["03 18:00"]
    start = datetime(2026, 11, 1, 1, 10, tzinfo=york, fold=1)
    assert next(CronSim("30 1 * * *", start)).astimezone(UTC) < start.astimezone(UTC)


def test_an_interval_is_on_a_grid_that_all_processes_share() -> None:
    every = Every("10m", refuse)
    assert after(every, "2026-03-29T00:51:07Z", 2) == ["29 01:00", "29 01:10"]
    assert after(every, "2026-03-29T01:00:00Z", 1) == ["29 01:10"]
    assert every.latest(micros("2026-03-29T00:51Z"), micros("2026-03-29T02:09Z")) == micros(
        "2026-03-29T02:00Z"
    )
    assert every.latest(micros("2026-03-29T00:51Z"), micros("2026-03-29T00:59Z")) is None


@pytest.mark.parametrize("word", ["@yearly", "@monthly", "@weekly", "@daily", "@hourly"])
def test_words_for_the_usual_times(word: str) -> None:
    first = Cron(word, "UTC", refuse).after(micros("2026-01-01T00:30Z"))
    assert first is not None and first % 3_600_000_000 == 0


@pytest.mark.parametrize("spec", ["every 10m", "every 1.5s", "every 2d", "0 9 * * mon-fri"])
def test_what_is_stored_means_the_same(spec: str) -> None:
    ticks = ticks_of(spec, "UTC", refuse)
    assert ticks.spec == spec
    assert Every("90m", refuse).spec == "every 90m"
    assert Every(86_400, refuse).spec == "every 1d"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("61 * * * *", "bad minute"),
        ("0 9 * * fri-mon", "bad day-of-week"),
        ("0 9 * *", "five fields"),
        ("* * * * * *", 'every="10s"'),
        ("", "five fields"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 */15 * mon#2", "a date that does not come"),
        ("@noon", "five fields"),
        ("9" * 5000 + " * * * *", "minute"),
    ],
)
def test_what_is_no_cron_expression_is_refused(spec: str, told: str) -> None:
    with pytest.raises(Bad, match=told):
        Cron(spec, "UTC", refuse)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("asia/ho_chi_minh", "did you mean Asia/Ho_Chi_Minh"),
        ("Europe", "no time zone"),
        ("../../etc/passwd", "no time zone"),
        ("", "no time zone"),
        ("+07:00", "names are those of the IANA"),
        ("localtime", "another one on each machine"),
        (7, "no time zone"),
    ],
)
def test_what_is_no_zone_is_refused(zone: str, told: str) -> None:
    with pytest.raises(Bad, match=told):
        Cron("0 9 * * *", zone, refuse)


@pytest.mark.parametrize("every", [0, 0.5, -1, "soon", "100ms"])
def test_what_is_no_interval_is_refused(every: float | str) -> None:
    with pytest.raises(Bad, match="every="):
        Every(every, refuse)


FIELD = st.one_of(
    st.text("0123456789*/,-#LWlwmonfrijan²? ", max_size=7),
    st.sampled_from(["*", "0", "*/5", "1-5", "L", "LW", "mon#2", "5L", "L/2", "1,L/3", "#", "-"]),
)


@given(st.lists(FIELD, min_size=4, max_size=6))
def test_any_text_is_a_schedule_or_refused(fields: list[str]) -> None:
    try:
        cron = Cron(" ".join(fields), "America/New_York", refuse)
    except Bad:
        return
    at = micros("2026-01-01T00:00Z")
    first = cron.after(at)
    assert first is None or first > at
