"""The table of README.md is complete, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("README.md")
REPORTS = 137
PARTS = {"PostgreSQL", "limits", "DAGs", "crews", "dashboard"}
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")


def rows(text: str) -> dict[int, str]:
    """Where each number is dealt with."""
    found: dict[int, str] = {}
    for number, _, _, where in ROW.findall(text):
        assert int(number) not in found, f"{number} stands twice"
        found[int(number)] = where
    return found


@cache
def names_in(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def untrue(where: str) -> str | None:
    """What is wrong with one row's last column; None: nothing."""
    kind, _, told = where.partition(": ")
    if kind == "later":
        return None if told in PARTS else f"no such part: {told}"
    if kind == "can not occur":
        return None if len(told) > 20 else "without a reason"
    if TEST.sub("", where).replace("<br>", ""):
        return f"neither a test nor a reason: {where}"
    for file, name in TEST.findall(where):
        if not (TESTS / file).is_file() or name not in names_in(TESTS / file):
            return f"no such test: {file}::{name}"
    return None


def test_every_report_has_its_row() -> None:
    assert sorted(rows(TABLE.read_text("utf-8"))) == list(range(1, REPORTS + 1))


def test_what_the_rows_say_is_true() -> None:
    found = rows(TABLE.read_text("utf-8"))
    wrong = {number: fault for number, where in found.items() if (fault := untrue(where))}
    assert wrong == {}


def test_what_this_suite_tests_stands_in_the_table() -> None:
    named = set(TEST.findall(TABLE.read_text("utf-8")))
    here = {
        (f"regressions/{file.name}", name)
        for file in TABLE.parent.glob("test_*.py")
        if file.name != Path(__file__).name
        for name in names_in(file)
        if name.startswith("test_")
    }
    assert here - named == set()


@pytest.mark.parametrize(
    "where",
    [
        "later: someday",
        "can not occur: no",
        "`regressions/test_table.py::test_that_is_nowhere`",
        "`nowhere/test_table.py::test_every_report_has_its_row`",
        "tested elsewhere",
    ],
)
def test_a_row_that_lies_is_seen(where: str) -> None:
    assert untrue(where)
