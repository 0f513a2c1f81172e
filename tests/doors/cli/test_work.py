"""``benbi work``: one line at the start, a drain at the first signal, an end at the second."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.cli.command import Command
from tests.support.polling import wait_until

SIGNALS = [signal.SIGTERM, signal.SIGINT]


def test_the_start_line_says_what_this_worker_does(benbi: Command) -> None:
    working = benbi.start("work", "shop:app", "--slots", "3", "--queues", "mail,default")
    printed = working.until("tasks")
    line = next(line for line in printed.splitlines() if "tasks" in line)
    for said in ("mail", "3 slots", "greet", str(benbi.folder / "jobs.db")):
        assert said in line
    working.send(signal.SIGTERM)
    assert working.wait() == 0


def test_the_start_line_as_json(benbi: Command) -> None:
    working = benbi.start("work", "shop:app", "--slots", "3", "--json")
    document = json.loads(working.until("tasks").splitlines()[0])
    assert set(document) == {"worker", "queues", "slots", "tasks", "database"}
    assert document["slots"] == 3
    assert set(document["queues"]) == {"default", "mail"}
    assert "add" in document["tasks"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_lets_running_jobs_end(benbi: Command, number: signal.Signals) -> None:
    file = benbi.folder / "gate"
    working = benbi.start("work", "shop:app")
    working.until("tasks")
    job_id = benbi.enqueue("analyse", "rounds=1", f"gate={file}")
    waiting = benbi.enqueue("add", "a=1", "--delay", "1h")
    wait_until(lambda: benbi.read("jobs", "show", job_id)["state"] == "running", 20.0)
    working.send(number)
    working.until("draining")
    file.touch()
    assert working.wait() == 0
    assert benbi.read("jobs", "show", job_id)["state"] == "completed"
    assert benbi.read("jobs", "show", waiting)["state"] == "scheduled"


@pytest.mark.parametrize(
    ("streams", "processes"), [(">&- 2>&-", ""), (">/dev/full 2>/dev/full", "--processes 1")]
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_drain_ends_with_0_where_nothing_can_be_printed(
    benbi: Command, streams: str, processes: str
) -> None:
    command = f"exec {sys.executable} -m benbi work shop:app {processes} {streams}"
    with subprocess.Popen(
        ["sh", "-c", command], cwd=benbi.folder, env=benbi.environment({})
    ) as working:
        try:
            wait_until(lambda: '"slots"' in benbi.run("workers", "list", "--json").stdout, 20.0)
            working.send_signal(signal.SIGTERM)
            assert working.wait(20) == 0
        finally:
            working.kill()


def test_what_does_not_end_within_the_grace_goes_back(benbi: Command) -> None:
    working = benbi.start("work", "shop:app", "--grace", "0.2")
    working.until("tasks")
    job_id = benbi.enqueue("analyse", "rounds=1", f"gate={benbi.folder / 'never'}")
    wait_until(lambda: benbi.read("jobs", "show", job_id)["state"] == "running", 20.0)
    working.send(signal.SIGTERM)
    assert working.wait() == 0
    job = benbi.read("jobs", "show", job_id)
    assert (job["state"], job["failures"], job["losses"]) == ("pending", 0, 0)


@pytest.mark.parametrize("task", ["stubborn", "blocks_the_loop"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_stops_at_once(benbi: Command, task: str, number: signal.Signals) -> None:
    started = benbi.folder / "started"
    working = benbi.start("work", "shop:app", "--grace", "1h")
    working.until("tasks")
    benbi.enqueue(task, f"started={started}")
    wait_until(started.exists, 20.0, "the task started")
    working.send(number)
    working.until("draining")
    working.send(number)
    assert working.wait() == 128 + number


def test_a_database_that_can_not_be_used_ends_the_worker_with_3(benbi: Command) -> None:
    (benbi.folder / "jobs.db").write_bytes(b"this is no database" * 100)
    done = benbi.run("work", "shop:app")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("benbi: ")
    assert "Traceback" not in done.stderr


def test_a_queue_that_no_task_has_is_pointed_out(benbi: Command) -> None:
    working = benbi.start("work", "shop:app", "--queues", "mial")
    printed = working.until("no task has the queue mial")
    assert "default, mail" in printed
