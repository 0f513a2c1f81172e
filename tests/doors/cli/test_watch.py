"""``benbi jobs watch``: events as they come, and an exit code by how the job ended."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tests.doors.cli.command import SECONDS, Command

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def gate(shop: Command, name: str) -> tuple[str, str]:
    """A job that goes on once the file is there: its id, and the file."""
    file = shop.folder / name
    return shop.enqueue("analyse", "rounds=2", f"gate={file}"), str(file)


def test_events_are_printed_as_they_come(shop: Command) -> None:
    job_id, file = gate(shop, "gate-lines")
    watching = shop.start("jobs", "watch", job_id)
    printed = watching.until("partial")
    assert "completed" not in printed.replace("step_completed", "")
    open(file, "w").close()
    assert watching.wait() == 0
    out = watching.out.read_text()
    assert '"total": 5' in out
    assert "\x1b" not in out


def test_json_lines_end_with_the_job_and_its_result(shop: Command) -> None:
    job_id, file = gate(shop, "gate-json")
    watching = shop.start("jobs", "watch", job_id, "--json")
    watching.until('"partial"')
    open(file, "w").close()
    assert watching.wait() == 0
    lines = [json.loads(line) for line in watching.out.read_text().splitlines()]
    events, end = lines[:-1], lines[-1]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert end["type"] == "end"
    assert end["job"]["state"] == "completed"
    assert end["result"] == {"total": 5}


def test_after_resumes_where_one_stopped(shop: Command) -> None:
    job_id = shop.enqueue("analyse", "rounds=3")
    whole = shop.run("jobs", "watch", job_id, "--json").stdout.splitlines()
    rest = shop.run("jobs", "watch", job_id, "--json", "--after", "4").stdout.splitlines()
    assert rest == whole[4:]
    nothing = shop.run("jobs", "watch", job_id, "--json", "--after", "999").stdout.splitlines()
    assert nothing == whole[-1:]


@pytest.mark.parametrize(("words", "code"), [(["add", "a=1"], 0), (["breaks"], 1), (["skips"], 4)])
def test_the_exit_code_tells_the_outcome(shop: Command, words: list[str], code: int) -> None:
    assert shop.run("jobs", "watch", shop.enqueue(*words)).returncode == code


def test_a_canceled_job_ends_with_4(shop: Command) -> None:
    job_id = shop.enqueue("add", "a=1", "--delay", "1h")
    watching = shop.start("jobs", "watch", job_id)
    watching.until("created")
    assert shop.run("jobs", "cancel", job_id).returncode == 0
    assert watching.wait() == 4


def test_ctrl_c_leaves_the_job_running_and_says_so(shop: Command) -> None:
    job_id, file = gate(shop, "gate-interrupt")
    watching = shop.start("jobs", "watch", job_id)
    watching.until("partial")
    watching.send(signal.SIGINT)
    assert watching.wait() == 130
    (line,) = watching.err.read_text().splitlines()
    assert f"job {job_id} goes on" in line
    again = re.search(r"--after (\d+)", line)
    assert again
    assert shop.read("jobs", "show", job_id)["state"] == "running"
    open(file, "w").close()
    assert shop.run("jobs", "watch", job_id, "--after", again[1]).returncode == 0


def test_timeout_ends_the_watch_alone(shop: Command) -> None:
    job_id = shop.enqueue("add", "a=1", "--delay", "1h")
    done = shop.run("jobs", "watch", job_id, "--timeout", "200ms")
    assert done.returncode == 5
    assert "goes on" in done.stderr
    assert shop.read("jobs", "show", job_id)["state"] == "scheduled"


def test_a_question_is_shown_with_the_command_that_answers_it(shop: Command) -> None:
    job_id = shop.enqueue("asks")
    watching = shop.start("jobs", "watch", job_id)
    printed = watching.until("answer with")
    assert "Sell it?" in printed
    assert f"benbi jobs answer {job_id} VALUE" in watching.until("VALUE")
    assert shop.run("jobs", "answer", job_id, "no").returncode == 0
    assert watching.wait() == 0
    assert watching.out.read_text().count("Sell it?\n") == 1
    assert '"kept"' in watching.out.read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_a_bar_lives_below_the_events(shop: Command, colour: bool) -> None:
    job_id, file = gate(shop, f"gate-terminal-{colour}")
    ours, theirs = pty.openpty()
    watching = subprocess.Popen(
        [sys.executable, "-m", "benbi", "jobs", "watch", job_id],
        cwd=shop.folder,
        env={
            **os.environ,
            "BENBI_URL": str(shop.folder / "jobs.db"),
            "TERM": "xterm-256color",
            "COLUMNS": "80",
            **({} if colour else {"NO_COLOR": "1"}),
        },
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = ""
    while True:
        try:
            printed += os.read(ours, 4096).decode(errors="replace")
        except OSError:  # how Linux tells that the other side is closed
            break
        if "100%" in printed and "partial" in printed:
            open(file, "w").close()
    os.close(ours)
    assert watching.wait(SECONDS) == 0
    assert "━" in printed
    assert "round 2" in printed
    assert ESCAPE.sub("", printed).rstrip().endswith("}")
    assert ("\x1b[32m" in printed) is colour
