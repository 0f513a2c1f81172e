"""``benbi jobs``: list, show, cancel, retry, answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.doors.cli.command import Command
from tests.support.polling import wait_until

JOB_FIELDS = {
    "id",
    "waits_for",
    "task",
    "queue",
    "owner",
    "state",
    "reason",
    "priority",
    "attempt",
    "failures",
    "max_attempts",
    "losses",
    "max_losses",
    "generation",
    "seq",
    "key",
    "cancel_requested",
    "created_at",
    "run_at",
    "started_at",
    "finished_at",
    "kept_until",
    "progress",
    "error",
    "questions",
}
EVENT_FIELDS = {"job_id", "seq", "type", "reason", "attempt", "at", "data"}
MISSING = "0197a2b3-4c5d-7e6f-8a9b-0c1d2e3f4a5b"


def until_state(shop: Command, job_id: str, state: str) -> None:
    wait_until(
        lambda: shop.read("jobs", "show", job_id)["state"] == state, 20.0, f"{job_id} {state}"
    )


def test_json_has_stable_field_names(shop: Command) -> None:
    job_id = shop.enqueue("analyse", "rounds=2")
    assert shop.run("jobs", "watch", job_id).returncode == 0
    shown = shop.read("jobs", "show", job_id)
    assert set(shown) == JOB_FIELDS | {"arguments", "result", "events"}
    assert all(set(event) == EVENT_FIELDS for event in shown["events"])
    assert [event["seq"] for event in shown["events"]] == list(range(1, shown["seq"] + 1))
    assert shown["result"] == {"total": 5}
    assert shown["created_at"].endswith("Z")
    assert set(shown["progress"]) == {"done", "total", "message"}
    listed = shop.read("jobs", "list", "--limit", "1")
    assert set(listed) == {"jobs"}
    assert set(listed["jobs"][0]) == JOB_FIELDS


def test_filters_choose(shop: Command) -> None:
    later = shop.enqueue("add", "a=1", "--owner", "ann", "--queue", "attic", "--delay", "1h")
    shop.enqueue("greet", "name=x", "--owner", "bob", "--delay", "1h")

    def ids(*words: str) -> list[str]:
        return [job["id"] for job in shop.read("jobs", "list", *words)["jobs"]]

    assert ids("--owner", "ann") == [later]
    assert ids("--queue", "attic") == [later]
    assert later in ids("--state", "scheduled")
    assert later not in ids("--task", "greet")
    assert ids("--owner", "ann", "--state", "failed") == []
    newest = ids("--limit", "2")
    assert len(newest) == 2
    assert newest[1] in ids("--before", newest[0])
    assert newest[0] not in ids("--before", newest[0])


def test_a_list_for_people_fits_its_width(shop: Command) -> None:
    shop.enqueue("add", "a=1", "--delay", "1h")
    for width in ("40", "80", "140"):
        done = shop.run("jobs", "list", COLUMNS=width)
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= int(width)
        assert "scheduled" in done.stdout
    assert "\x1b" not in shop.run("jobs", "list").stdout
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    assert "\x1b[34m" in shop.run("jobs", "list", **forced).stdout
    assert "\x1b[34m" not in shop.run("jobs", "list", **forced, NO_COLOR="1").stdout


def test_an_empty_list_says_so(shop: Command) -> None:
    done = shop.run("jobs", "list", "--task", "none")
    assert (done.returncode, done.stdout) == (0, "no jobs\n")


def test_show_tells_why_a_job_failed(shop: Command) -> None:
    job_id = shop.enqueue("breaks", "message=out of stock")
    assert shop.run("jobs", "watch", job_id).returncode == 1
    shown = shop.run("jobs", "show", job_id).stdout
    error = shop.read("jobs", "show", job_id)["error"]
    assert "ValueError: out of stock" in shown
    assert error["rule"] in shown
    assert "Traceback" in shown
    assert "shop.py" in shown


@pytest.mark.parametrize("words", [["show"], ["watch"], ["cancel"], ["retry"]])
def test_a_missing_job_is_refused_on_one_line(shop: Command, words: list[str]) -> None:
    for job_id in (MISSING, "not-an-id"):
        done = shop.run("jobs", *words, job_id)
        assert done.returncode == 1
        assert done.stderr == f"benbi: no job {job_id!r}\n"
        assert done.stdout == ""


def test_cancel_and_retry(shop: Command) -> None:
    job_id = shop.enqueue("add", "a=1", "--delay", "1h")
    done = shop.run("jobs", "cancel", job_id, "--reason", "changed my mind")
    assert done.returncode == 0
    assert "canceled" in done.stdout
    again = shop.run("jobs", "retry", job_id)
    assert again.returncode == 0, again.stderr
    assert shop.run("jobs", "watch", job_id).returncode == 0
    refused = shop.run("jobs", "retry", job_id)
    assert refused.returncode == 1
    assert "completed" in refused.stderr


def test_an_answer_of_the_right_type_lets_the_job_go_on(shop: Command) -> None:
    job_id = shop.enqueue("asks")
    until_state(shop, job_id, "input_required")
    shown = shop.run("jobs", "show", job_id).stdout
    assert "Sell it?" in shown
    assert f"benbi jobs answer {job_id} VALUE" in shown
    wrong = shop.run("jobs", "answer", job_id, "perhaps")
    assert wrong.returncode == 1
    assert shop.run("jobs", "answer", job_id, "yes").returncode == 0
    assert shop.run("jobs", "watch", job_id).returncode == 0
    assert shop.read("jobs", "show", job_id)["result"] == "sold"
    late = shop.run("jobs", "answer", job_id, "no")
    assert late.returncode == 1


def test_an_answer_in_words_stays_words(shop: Command) -> None:
    job_id = shop.enqueue("asks_for_text")
    until_state(shop, job_id, "input_required")
    answered = shop.read("jobs", "answer", job_id, "42", "--by", "ann")
    assert answered["id"] == job_id
    shop.run("jobs", "watch", job_id)
    assert shop.read("jobs", "show", job_id)["result"] == "42"


def test_a_reader_that_goes_away_is_no_error(shop: Command) -> None:
    shop.enqueue("add", "a=1")
    done = subprocess.run(
        f"{sys.executable} -m benbi jobs list | true",
        # "true" has closed the pipe before anything is written to it.
        shell=True,
        cwd=shop.folder,
        env=shop.environment({}),
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
