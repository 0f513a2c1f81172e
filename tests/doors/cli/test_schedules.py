"""``benbi schedules``: list, pause, resume, run; in pipes, for programs, and on narrow screens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from benbi.cli.timetable import moment, schedules_view
from benbi.job import Schedule
from tests.doors.cli.command import Command
from tests.support.polling import wait_until

FIELDS = {
    "name",
    "task",
    "spec",
    "timezone",
    "catchup",
    "state",
    "last",
    "last_job",
    "seen_at",
    "paused_at",
    "upcoming",
}
NOW = datetime(2026, 3, 27, 12, 0, tzinfo=UTC)
REPORT = Schedule(
    name="report",
    task="make_report",
    spec="30 2 * * *",
    timezone="Europe/Berlin",
    catchup="latest",
    state="active",
    last=NOW,
    last_job="0197a2b3-4c5d-7e6f-8a9b-0c1d2e3f4a5b",
    seen_at=NOW,
    paused_at=None,
    upcoming=(NOW, NOW + timedelta(days=2)),
)
PLANNED = """
from benbi import Benbi

app = Benbi()


@app.cron("0 9 * * mon-fri", timezone="Asia/Ho_Chi_Minh")
@app.task
async def report() -> str:
    return "done"
"""


@pytest.fixture
def planned(benbi: Command) -> Command:
    """The command, in a folder with an app whose worker has registered a schedule."""
    (benbi.folder / "planned.py").write_text(PLANNED)
    benbi.start("work", "planned:app").until("tasks")
    wait_until(lambda: benbi.read("schedules", "list")["schedules"], 20.0, "a schedule")
    return benbi


def test_steering_a_schedule(planned: Command) -> None:
    (listed,) = planned.read("schedules", "list")["schedules"]
    assert set(listed) == FIELDS
    assert (listed["state"], listed["last"], len(listed["upcoming"])) == ("active", None, 5)
    assert all(time.endswith("T02:00:00Z") for time in listed["upcoming"])

    text = planned.run("schedules", "list").stdout
    assert text.startswith("report  active\n")
    assert text.count(" 09:00:00 +07:00") == 5

    assert planned.read("schedules", "pause", "report")["state"] == "paused"
    assert planned.run("schedules", "list").stdout.startswith("report  paused for ")
    assert planned.run("schedules", "pause", "report").stdout == "report  paused\n"
    job_id = planned.run("schedules", "run", "report").stdout.strip()
    assert planned.run("jobs", "watch", job_id).returncode == 0
    (created, *_) = planned.read("jobs", "show", job_id)["events"]
    assert (created["data"]["schedule"], created["data"]["by_hand"]) == ("report", True)
    assert planned.read("schedules", "run", "report")["task"] == "report"

    resumed = planned.run("schedules", "resume", "report").stdout
    assert resumed.startswith("report  active  next ") and resumed.endswith(" 09:00:00 +07:00\n")


def test_what_is_not_there(benbi: Command) -> None:
    assert benbi.run("db", "migrate").returncode == 0
    assert benbi.run("schedules", "list").stdout.startswith("no schedules; workers and servers")
    assert benbi.read("schedules", "list") == {"schedules": []}
    for command in ("pause", "resume", "run"):
        done = benbi.run("schedules", command, "nonesuch")
        assert done.returncode == 1
        assert "no schedule 'nonesuch'" in done.stderr


def printed(schedule: Schedule, width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width, highlight=False, markup=False)
    console.print(schedules_view([schedule, schedule]), crop=False)
    return out.getvalue()


def test_times_are_those_of_the_schedules_zone() -> None:
    lines = [line.strip() for line in printed(REPORT, 80).splitlines()]
    assert "next     Fri 2026-03-27 13:00:00 +01:00" in lines
    assert "Sun 2026-03-29 14:00:00 +02:00" in lines
    assert "" in lines, "a blank line between two"
    assert moment(NOW, "") == moment(NOW, "Nowhere/There") == "Fri 2026-03-27 12:00:00 +00:00"


@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_a_schedule_fits_every_width(width: int) -> None:
    lines = printed(REPORT, width).splitlines()
    # An id stays in one piece, to be copied.
    assert max(len(line) for line in lines if REPORT.last_job not in line) <= width


def test_what_a_name_holds_does_not_reach_the_terminal() -> None:
    evil = "\x1b[2J\x07[red]boo[/red]"
    text = printed(replace(REPORT, name=evil, task=evil, spec=evil), 100)
    assert "\x1b" not in text and "\x07" not in text and "[red]boo[/red]" in text


def test_a_schedule_that_is_in_no_process_says_so() -> None:
    text = printed(replace(REPORT, state="retired"), 100)
    assert "retired: in no live process for " in text
