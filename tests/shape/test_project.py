"""What belongs to the project, and what must never stand in it."""

from __future__ import annotations

import re
import tomllib

import pytest

import benbi
from tests.shape.source import ROOT, project_files

ALL_SECONDS = 1200

# Put together from halves, so that this file does not hold what it looks for.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.~])/(?:wor" + r"k|roo" + r"t)/[\w.]",
            r"/(?:hom" + r"e|User" + r"s)/(?!you\b|me\b)\w+/",
            r"\bpyp" + r"i\.org\b",
            r"\bpython" + r"hosted\.org\b",
            r"\bregistry\.npm" + r"js\b",
            r"--(?:extra-)?index" + r"-url\b",
            r"--find" + r"-links\b",
        ]
    )
)


def test_no_machine_paths_and_no_registry_addresses() -> None:
    found: list[str] = []
    for path in project_files():
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if hit := FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {hit[0]}")
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "see /wor" + "k/main/src",
        "cache=/roo" + "t/.cache",
        "/hom" + "e/anna/benbi",
        "https://pyp" + "i.org/simple",
        "pip install --index" + "-url x",
    ],
)
def test_such_a_line_is_seen(line: str) -> None:
    assert FORBIDDEN.search(line)


def test_pins_are_plain() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    crooked = [pin for pin in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", pin)]
    assert not crooked
    names = [re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in pins]
    assert names == sorted(set(names)), "in order, each name once"


def test_every_test_lies_in_a_suite_with_a_budget_and_a_mark() -> None:
    with (ROOT / ".ci" / "budget.toml").open("rb") as file:
        budget = tomllib.load(file)
    with (ROOT / "pyproject.toml").open("rb") as file:
        marks = tomllib.load(file)["tool"]["pytest"]["markers"]
    tests = (ROOT / "tests").rglob("test_*.py")
    suites = {path.relative_to(ROOT / "tests").parts[0] for path in tests}
    assert suites <= set(budget["suites"])
    assert set(budget["suites"]) <= {mark.partition(":")[0] for mark in marks}


def test_the_budgets_keep_within_the_whole() -> None:
    with (ROOT / ".ci" / "budget.toml").open("rb") as file:
        budget = tomllib.load(file)
    assert sum(budget["suites"].values()) + sum(budget["stages"].values()) <= ALL_SECONDS


def test_the_changelog_names_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert versions
    assert versions[0] in ("Unreleased", benbi.__version__)
    assert benbi.__version__ in changelog
