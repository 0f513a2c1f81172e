"""``benbi enqueue``: by the catalogue, by ``--app``, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.cli.command import Command


def test_a_published_task_needs_no_task_code(shop: Command, tmp_path: Path) -> None:
    elsewhere = Command(shop.launcher, tmp_path)
    words = ["enqueue", "add", "a=2", "b=3", "--wait", "--json"]
    done = elsewhere.run(*words, BENBI_URL=str(shop.folder / "jobs.db"))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["created", "started", "completed", "end"]
    assert lines[-1]["result"] == 5


def test_the_id_alone_is_printed(shop: Command) -> None:
    done = shop.run("enqueue", "add", "a=2")
    assert done.returncode == 0
    assert done.stderr == ""
    assert shop.read("jobs", "show", done.stdout.strip())["arguments"] == {"a": 2, "b": 1}


def test_text_stays_text_and_choices_are_checked(shop: Command) -> None:
    done = shop.run("enqueue", "greet", "name=007", "loud=yes", "--wait", "--json")
    assert json.loads(done.stdout.splitlines()[-1])["result"] == "short hello 007!"
    refused = shop.run("enqueue", "greet", "name=Ada", "style=shrill")
    assert refused.returncode == 1
    assert "style" in refused.stderr


def test_json_and_stdin_carry_the_arguments(shop: Command) -> None:
    shown = shop.read("enqueue", "add", '{"a": 40, "b": 2}')
    assert shown["task"] == "add"
    piped = shop.run("enqueue", "add", "-", stdin='{"a": 40, "b": 2}')
    assert piped.returncode == 0, piped.stderr
    assert shop.read("jobs", "show", piped.stdout.strip())["arguments"] == {"a": 40, "b": 2}


def test_options_are_those_of_the_job(shop: Command) -> None:
    words = ["enqueue", "add", "a=1", "--owner", "u1", "--key", "k1", "--delay", "1h"]
    job = shop.read(*words, "--priority", "-5", "--queue", "slow")
    assert job["state"] == "scheduled"
    assert (job["owner"], job["key"], job["priority"]) == ("u1", "k1", -5)
    assert job["queue"] == "slow"
    assert shop.read(*words, "--priority", "-5", "--queue", "slow")["id"] == job["id"]
    conflict = shop.run("enqueue", "add", "a=2", "--owner", "u1", "--key", "k1")
    assert conflict.returncode == 1
    assert job["id"] in conflict.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ad", "a=1"], "ad"),
        (["add", "a=one"], "a:"),
        (["add", "b=1"], "a"),
        (["add", "a=1", "c=1"], "c"),
    ],
)
def test_bad_input_is_refused_on_one_line(shop: Command, words: list[str], said: str) -> None:
    done = shop.run("enqueue", *words)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert said in line


def test_arguments_of_another_form_are_wrong_usage(shop: Command) -> None:
    for word in ("17", "--budget"):
        done = shop.run("enqueue", "add", word)
        assert done.returncode == 2
        assert f"{word!r} is neither key=value nor a JSON object" in done.stderr


def test_app_enqueues_before_any_worker_ran(benbi: Command) -> None:
    job_id = benbi.enqueue("add", "a=1", "--app", "shop:app")
    assert benbi.read("jobs", "show", job_id)["state"] == "pending"
    # Typed by the task itself: nothing is published yet.
    named = benbi.enqueue("greet", "name=7", "--app", "shop:app")
    assert benbi.read("jobs", "show", named)["arguments"]["name"] == "7"


def test_the_exit_code_tells_how_the_job_ended(shop: Command) -> None:
    failed = shop.run("enqueue", "breaks", "--wait")
    assert failed.returncode == 1
    assert "no such shelf" in failed.stdout
    assert "Traceback" not in failed.stderr
    assert shop.run("enqueue", "skips", "--wait").returncode == 4


def test_who_waits_may_stop_waiting(shop: Command) -> None:
    """No worker runs here: the job stays, and the code says so."""
    words = ["enqueue", "add", "a=1", "--queue", "nobody"]
    over = shop.run(*words, "--wait", "--timeout", "0.1")
    assert over.returncode == 5
    (job,) = shop.read("jobs", "list", "--queue", "nobody")["jobs"]
    assert f"time is over; job {job['id']} goes on" in over.stderr
    wrong = shop.run(*words, "--timeout", "1")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--timeout: how long to --wait" in wrong.stderr
