"""examples/testing with the plugin, the plugin alone, and the page that shows both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.readme import blocks

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "testing"
PAGE = ROOT / "docs" / "testing.md"

APP = """
from benbi import Benbi
app = Benbi("jobs.db")
other = 1

@app.task
def add(a: int, b: int) -> int:
    return a + b
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, as a user runs it.

    The plugin is named, because an environment may be older than its entry point.
    """
    named = ["-p", "no:benbi", "-p", "benbi_pytest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *named, *options],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
    )


def project(folder: Path, test: str, setting: str = "app:app") -> Path:
    (folder / "app.py").write_text(APP, "utf-8")
    (folder / "pytest.ini").write_text(f"[pytest]\nbenbi_app = {setting}\n", "utf-8")
    (folder / "test_app.py").write_text(test, "utf-8")
    return folder


def test_the_tests_of_the_example_pass() -> None:
    # Those for pytest-asyncio run where it is installed, with the built wheel (scripts/smoke).
    done = run_pytest(EXAMPLE, "--ignore", "tests/test_asyncio.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout


def test_the_plugin_imports_nothing_of_benbi_before_it_is_used(tmp_path: Path) -> None:
    test = """
import sys

def test_nothing(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("benbi_pytest")
    assert "benbi" not in sys.modules
"""
    done = run_pytest(project(tmp_path, test, setting=""))
    assert done.returncode == 0, done.stdout


def test_each_test_has_a_database_of_its_own(tmp_path: Path) -> None:
    test = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
def test_add(benbi_app, n):
    assert benbi_app.enqueued() == []
    job = benbi_app.enqueue_sync("add", {"a": n, "b": 1})
    benbi_app.run_until_idle_sync()
    assert job.result_sync() == n + 1
"""
    done = run_pytest(project(tmp_path, test))
    assert done.returncode == 0, done.stdout
    assert not list(tmp_path.glob("jobs.db*"))


def test_a_fixture_of_ones_own_takes_its_place(tmp_path: Path) -> None:
    test = """
import pytest
from benbi import Benbi, testing

@pytest.fixture
def benbi_app():
    made = Benbi(slots=1)
    made.task(name="seven")(lambda: 7)
    with testing.fresh(made) as app:
        yield app

def test_seven(benbi_app):
    job = benbi_app.enqueue_sync("seven")
    benbi_app.run_until_idle_sync()
    assert job.result_sync() == 7
"""
    done = run_pytest(project(tmp_path, test, setting=""))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("", "needs its app"),
        ("app", "needs its app"),
        ("nowhere:app", "No module named 'nowhere'"),
        ("app:missing", "has no attribute 'missing'"),
        ("app:other", "is 1, and no Benbi"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path: Path, setting: str, told: str) -> None:
    done = run_pytest(project(tmp_path, "def test_add(benbi_app): pass\n", setting))
    assert done.returncode == 1
    assert told in done.stdout


def test_every_snippet_of_the_page_stands_in_the_example() -> None:
    """The example's tests run, and so what the page shows does."""
    shown = blocks(PAGE.read_text("utf-8"))
    assert {block.language for block in shown} == {"python", "sh", "toml"}
    named = [block for block in shown if block.language in ("python", "toml")]
    assert len(named) > 8
    for block in named:
        _, *name = block.words
        assert name, f"line {block.line}: which file of examples/testing is it of?"
        text = (EXAMPLE / name[0]).read_text("utf-8")
        assert block.body in text, f"line {block.line}: {name[0]} says otherwise"
