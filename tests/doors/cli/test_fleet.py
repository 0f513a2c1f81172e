"""``benbi queues``, ``workers``, ``stats``, ``config`` and ``jobs explain``."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from benbi.cli import fleet
from benbi.fleet import Explanation, Queue, Stats, TaskStats, Timings, WorkerRecord
from tests.doors.cli.command import Command
from tests.doors.cli.test_jobs import MISSING, until_state

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def names_of(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def test_a_queue_is_paused_and_resumed(shop: Command) -> None:
    done = shop.run("queues", "pause", "cellar", "--by", "ann")
    assert done.returncode == 0
    assert done.stdout == "cellar  paused by ann 0s ago; 0 pending, 0 running, 0 workers\n"
    assert "no job and no live worker in a queue of the name 'cellar'" in done.stderr
    job_id = shop.enqueue("add", "a=1", "--queue", "cellar")
    found = {queue["name"]: queue for queue in shop.read("queues", "list")["queues"]}
    assert set(found["cellar"]) == names_of(Queue)
    assert (found["cellar"]["paused_by"], found["cellar"]["pending"]) == ("ann", 1)
    assert found["default"]["workers"] == 1
    text = shop.run("queues", "list").stdout
    assert "paused by ann" in text
    assert "open" in text

    why = shop.run("jobs", "explain", job_id)
    assert (why.returncode, why.stderr) == (0, "")
    assert "The queue cellar is paused, by ann" in why.stdout
    told = shop.read("jobs", "explain", job_id)
    assert set(told) == names_of(Explanation)
    assert (told["cause"], told["details"]["paused_by"]) == ("queue_paused", "ann")
    assert told["details"]["paused_at"].endswith("Z")

    resumed = shop.read("queues", "resume", "cellar")
    assert (resumed["paused_at"], resumed["pending"]) == (None, 1)
    assert "No live worker listens" in shop.run("jobs", "explain", job_id).stdout


def test_the_user_pauses_unless_somebody_is_named(benbi: Command) -> None:
    assert benbi.run("db", "migrate").returncode == 0
    assert "paused by mai" in benbi.run("queues", "pause", "mail", LOGNAME="mai").stdout


def test_workers_and_statistics_are_listed(shop: Command) -> None:
    job_id = shop.enqueue("breaks")
    until_state(shop, job_id, "failed")
    (worker,) = shop.read("workers", "list")["workers"]
    assert set(worker) == names_of(WorkerRecord)
    assert (worker["silent"], worker["slots"]) == (False, 20)
    assert worker["id"] in shop.run("workers", "list").stdout
    told = shop.read("stats", "--days", "0.5")
    assert set(told) == names_of(Stats)
    (breaks,) = [task for task in told["tasks"] if task["task"] == "breaks"]
    assert set(breaks) == names_of(TaskStats)
    assert breaks["failed"] >= 1
    assert breaks["success_rate"] == 0.0
    assert breaks["ran"]["p99"] > 0
    text = shop.run("stats").stdout
    assert "breaks" in text
    assert "WAITED" in text
    assert shop.run("jobs", "explain", job_id).stdout.startswith("It failed for good")


def test_an_empty_database_says_so(benbi: Command) -> None:
    assert benbi.run("db", "migrate").returncode == 0
    said = [benbi.run(*words) for words in (("queues", "list"), ("workers", "list"), ("stats",))]
    assert [done.stdout for done in said] == ["no queues\n", "no workers\n", "no jobs\n"]
    assert benbi.read("queues", "list") == {"queues": []}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("jobs", "explain", MISSING), 1, f"no job {MISSING!r}"),
        (("jobs", "explain", ""), 1, "no job ''"),
        (("stats", "--days", "0"), 2, "Must be > 0"),
        (("queues", "pause", " "), 1, "queue=' '"),
        (("queues", "pause"), 2, "NAME requires an argument"),
        (("queues", "list", "--url", "nowhere.db"), 3, "there is no database"),
    ],
)
def test_a_refusal_is_one_line(shop: Command, words: tuple[str, ...], code: int, said: str) -> None:
    done = shop.run(*words)
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (code, "")
    assert said in line


def test_config_says_where_each_value_came_from(benbi: Command) -> None:
    told = {row["name"]: row for row in benbi.read("config")["settings"]}
    assert told["url"] == {
        "name": "url",
        "value": f"sqlite:///{benbi.folder / 'jobs.db'}",
        "source": "BENBI_URL",
    }
    assert told["slots"] == {"name": "slots", "value": 20, "source": "default"}
    assert told["tokens"]["source"] == "default"
    (benbi.folder / "small.py").write_text("from benbi import Benbi\napp = Benbi(slots=2)\n")
    done = benbi.run("config", "small:app", "--url", "there.db", BENBI_TOKEN="ann:secret bob:other")
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert lines["url"] == [f"sqlite:///{benbi.folder / 'there.db'}", "--url"]
    assert lines["slots"] == ["2", "code"]
    assert lines["tokens"] == ["2", "set", "BENBI_TOKEN"]
    assert "secret" not in done.stdout
    assert not (benbi.folder / "there.db").exists(), "it connects to nothing"


# On a screen.

QUEUE = Queue("gifts\x1b[2J", NOW, "ann[red]", 1200, NOW, 3, 4, 0, 0)
WORKER = WorkerRecord(
    "host-1-abc", "host", 1, 20, 3, ("gifts", "mail"), ("a", "b"), "0.1", NOW, NOW, 10.0, True
)
TASK = TaskStats(
    *("deep_gift_analysis", "gifts", 999, 1, 0, 0, 0.9995, 7),
    *(Timings(1000, 0.012, 1.5, 310.0), Timings(0, None, None, None), 12, NOW),
)


def printed(view: RenderableType, width: int) -> str:
    out = StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(view)
    return out.getvalue()


def views(width: int) -> list[RenderableType]:
    rows = [{"name": "url", "value": "sqlite:///" + "x" * 90, "source": "code"}]
    return [
        fleet.queues_view([QUEUE, QUEUE], width),
        fleet.workers_view([WORKER], width),
        fleet.stats_view(Stats(NOW - timedelta(days=7), NOW, (TASK, TASK)), width),
        fleet.settings_view(rows, width),
    ]


@pytest.mark.parametrize("width", [30, 60, 100, 160])
def test_everything_fits_every_width(width: int) -> None:
    for view in views(width):
        text = printed(view, width)
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text


def test_a_narrow_screen_loses_nothing_that_counts() -> None:
    queues, workers, stats, _ = (printed(view, 60) for view in views(60))
    assert "pending 1,200" in queues
    assert "paused by ann[red]" in queues
    assert "retrying" not in queues, "of nothing there is nothing to say"
    assert "running 3 of 20" in workers
    assert "silent" in workers
    assert "waited 12 ms / 1.5 s / 5 m 10 s" in stats
    assert "done 999" in stats


def test_a_rate_is_never_rounded_up_to_all() -> None:
    stats = Stats(NOW - timedelta(days=7), NOW, (TASK,))
    assert "99.9%" in printed(fleet.stats_view(stats, 160), 160)
