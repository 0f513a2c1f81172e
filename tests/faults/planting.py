"""Planted faults: a copy of the source with one edit, and the one test that must see it.

A fault proves something only if the test fails by its assertion: one that dies of a SQL error
would die of any typing error as well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.shape.source import ROOT, SOURCE

# How pytest words a test that failed by what it asserts.
BY_ASSERTION = ("AssertionError", "assert ", "Failed: DID NOT RAISE", "Failed: not within")
ON_TEARDOWN = 'failed on teardown with "'


@dataclass(frozen=True)
class Fault:
    """``old`` in ``file`` (below the package) becomes ``new``: ``test`` must fail by assertion."""

    name: str
    file: str
    old: str
    new: str
    test: str


@dataclass(frozen=True)
class Planted:
    """One run of named tests on one copy of the source."""

    source: Path
    tests: tuple[str, ...]
    report: Path

    @property
    def output(self) -> Path:
        return self.report.with_suffix(".txt")


class Misplaced(AssertionError):
    """What the fault edits does not stand in the source exactly once."""


def planted(folder: Path, tests: Sequence[str], fault: Fault | None = None) -> Planted:
    """The source in ``folder``, with the fault in it. Raises Misplaced."""
    edited, text = None, ""
    if fault is not None:
        edited = ("benbi", *fault.file.split("/"))
        text = SOURCE.joinpath(*edited).read_text("utf-8")
        found = text.count(fault.old)
        if found != 1:
            raise Misplaced(f"what it edits stands {found} times in {fault.file}")
        text = text.replace(fault.old, fault.new)
    _overlay(SOURCE, folder / "src", edited or (), text)
    return Planted(folder / "src", tuple(tests), folder / "report.xml")


def _overlay(source: Path, copy: Path, edited: Sequence[str], text: str) -> None:
    """Links to everything in ``source``, but for the file at ``edited``, which holds ``text``."""
    copy.mkdir(parents=True)
    for entry in source.iterdir():
        if [entry.name] != list(edited[:1]):
            (copy / entry.name).symlink_to(entry)
    if len(edited) == 1:
        (copy / edited[0]).write_text(text, "utf-8")
    elif edited:
        _overlay(source / edited[0], copy / edited[0], edited[1:], text)


def run_all(runs: Sequence[Planted]) -> None:
    """Runs them, each in a process of its own; their reports are there afterwards."""
    told = [[str(run.source), run.tests, str(run.report), str(run.output)] for run in runs]
    subprocess.run(
        [sys.executable, "-m", "tests.faults.run_planted"],
        cwd=ROOT,
        input=json.dumps(told).encode(),
        check=True,
    )


def verdicts(run: Planted) -> dict[str, list[str]]:
    """For each test of the report, how it failed: the first line of each failure."""
    assert run.report.exists(), f"no report:\n{run.output.read_text('utf-8', 'replace')[-4000:]}"
    found: dict[str, list[str]] = {}
    for case in ElementTree.parse(run.report).iter("testcase"):
        told = [*case.iter("failure"), *case.iter("error"), *case.iter("skipped")]
        name = f"{case.get('classname')}::{case.get('name')}"
        found.setdefault(name, []).extend(one.get("message") or "" for one in told)
    return found


def by_assertion(message: str) -> bool:
    return message.removeprefix(ON_TEARDOWN).startswith(BY_ASSERTION)
