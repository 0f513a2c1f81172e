"""What the command says when it is used wrongly, and how fast it starts."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.doors.cli.command import Command


def test_version_needs_neither_cyclopts_nor_rich(benbi: Command) -> None:
    code = "import sys; sys.argv[1:] = ['--version']; import benbi.cli as c; c.main();"
    code += "print(sorted({'cyclopts', 'rich', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, loaded = done.stdout.splitlines()
    assert first == f"benbi {version('benbi')}"
    assert "cyclopts" not in loaded
    assert "rich" not in loaded


def test_version_is_printed_by_the_command(benbi: Command) -> None:
    done = benbi.alone("--version")
    assert (done.returncode, done.stdout) == (0, f"benbi {version('benbi')}\n")


def test_help_names_every_command_and_the_exit_codes(benbi: Command) -> None:
    done = benbi.run("--help")
    assert done.returncode == 0
    names = (
        "serve",
        "work",
        "mcp",
        "enqueue",
        "jobs",
        "queues",
        "workers",
        "stats",
        "config",
        "db",
    )
    for name in (*names, "Exit codes"):
        assert name in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["jbs"], 'Did you mean "jobs"?'),
        (["jobs", "watch"], "JOB_ID requires an argument"),
        (["jobs", "list", "--state", "done"], "input_required"),
        (["jobs", "list", "--limit", "many"], "unable to convert"),
        (["jobs", "list", "--limit", "0"], "Must be >= 1"),
        (["jobs", "list", "--colour"], "Unknown option"),
        (["serve", "--port", "99999"], "Must be <= 65535"),
        (["work"], "TARGET requires an argument"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    benbi: Command, words: list[str], said: str
) -> None:
    done = benbi.run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("benbi: ")
    assert said in line
    assert "--help" in line


def test_a_list_of_queues_without_a_name_is_refused(benbi: Command) -> None:
    """An empty list would mean every queue to some and none to others."""
    done = benbi.run("work", "shop:app", "--queues", " , ")
    assert done.returncode == 2
    assert "names no queue" in done.stderr


def test_a_duration_that_is_none_is_refused(benbi: Command) -> None:
    done = benbi.run("enqueue", "add", "--app", "shop:app", "a=1", "--delay", "soon")
    assert done.returncode == 2
    assert "'soon' is not a duration" in done.stderr


def test_an_error_is_one_line_and_its_traceback_comes_with_debug(benbi: Command) -> None:
    quiet = benbi.run("jobs", "list", "--url", "mysql://there/jobs")
    assert quiet.returncode == 2
    assert len(quiet.stderr.splitlines()) == 1
    loud = benbi.run("jobs", "list", "--url", "mysql://there/jobs", "--debug")
    assert loud.returncode == 2
    assert "Traceback" in loud.stderr
    assert loud.stderr.splitlines()[-1] == quiet.stderr.strip()


def test_a_relative_database_in_the_root_folder_is_refused_with_a_remedy(benbi: Command) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benbi", "jobs", "list", "--url", "jobs.db"],
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "absolute" in line


@pytest.mark.parametrize("words", [["serve"], ["mcp"]])
def test_a_missing_extra_is_named(benbi: Command, words: list[str]) -> None:
    # An import of what is None in sys.modules fails as one of what is not installed.
    (benbi.folder / "sitecustomize.py").write_text(
        "import sys\nfor name in ('mcp', 'fastapi', 'starlette'): sys.modules[name] = None\n"
    )
    done = benbi.alone(*words, PYTHONPATH=str(benbi.folder))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "pip install 'benbi[server]'" in line
