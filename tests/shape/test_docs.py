"""The pages in docs/: their code compiles, their links lead somewhere, their tests are there."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from benbi import Benbi, Retry
from benbi.cli import exits
from benbi.fleet import CAUSES
from benbi.job import MOVES, State
from benbi.retry import codes, judge
from benbi.retry.classes import _RULES
from benbi.triggers import RULES
from scripts import states
from scripts.readme import blocks, compile_python
from tests.shape.source import ROOT

PAGES = sorted((ROOT / "docs").rglob("*.md"))
OPERATIONS = ROOT / "docs" / "operations.md"
RETRIES = ROOT / "docs" / "retries.md"
PROMISES = ROOT / "docs" / "promises.md"
QUOTED = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
PROMISE = re.compile(r"^## (\d+)\. ", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)


@cache
def named_in(path: Path) -> frozenset[str]:
    found = re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    return frozenset(found)


def unknown_tests(text: str) -> list[str]:
    """The tests a page names that are not in the file named before them."""
    unknown: list[str] = []
    file: Path | None = None
    for word in QUOTED.findall(prose(text)):
        if re.fullmatch(r"[\w/]+/test_\w+\.py", word):
            file = ROOT / "tests" / word.removeprefix("tests/")
            if not file.is_file():
                unknown.append(word)
        elif re.fullmatch(r"test_\w+", word) and (
            file is None or not file.is_file() or word not in named_in(file)
        ):
            unknown.append(word)
    return unknown


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_in_a_page_compiles(page: Path) -> None:
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python":
            compile_python(block, name_of(page))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    assert not unknown_tests(page.read_text("utf-8"))


def test_a_name_that_is_nowhere_is_seen() -> None:
    known = "`shape/test_docs.py`: `test_a_name_that_is_nowhere_is_seen`"
    assert not unknown_tests(known)
    assert unknown_tests("`shape/test_docs.py`: `test_nowhere`") == ["test_nowhere"]
    assert unknown_tests("`shape/test_nowhere.py`") == ["shape/test_nowhere.py"]
    assert unknown_tests("`test_a_name_that_is_nowhere_is_seen`")


def anchors_of(path: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = HEADING.findall(prose(path.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=name_of)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(prose(page.read_text("utf-8"))):
        path = page.parent / target if target else page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors_of(path), f"{target}#{anchor}"


def test_every_promise_has_its_tests() -> None:
    _, *parts = PROMISE.split(PROMISES.read_text("utf-8"))
    promises = dict(zip(map(int, parts[::2]), parts[1::2], strict=True))
    assert list(promises) == list(range(1, 13))
    untested = {number for number, text in promises.items() if "`test_" not in text}
    assert not untested


def rows_of(page: Path, heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading, by their first cell."""
    _, _, section = page.read_text("utf-8").partition(f"\n## {heading}\n")
    lines = section.partition("\n## ")[0].splitlines()
    cells = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|")
    return {name.strip("`"): rest for name, *rest in list(cells)[2:]}


def test_every_trigger_rule_is_explained() -> None:
    assert list(rows_of(ROOT / "docs" / "waiting.md", "Trigger rules")) == list(RULES)


def test_every_setting_is_documented_with_its_default_and_its_danger() -> None:
    rows = rows_of(OPERATIONS, "Settings")
    settings = inspect.signature(Benbi).parameters
    assert list(rows) == list(settings)
    assert all(cell for row in rows.values() for cell in row)
    assert rows["slots"][0] == str(settings["slots"].default)
    assert rows["heartbeat_timeout"][0] == f"{settings['heartbeat_timeout'].default:g} s"
    assert rows["durability"][0] == f'`"{settings["durability"].default}"`'


def test_every_cause_that_explain_knows_is_documented() -> None:
    rows = rows_of(OPERATIONS, "Why a job does not run")
    written = [cause for cell in rows for cause in re.findall(r"\w+", cell)]
    assert sorted(written) == sorted(CAUSES)


def known_packages() -> set[str]:
    """The packages whose errors the retry rules know by name, but for Python's own."""
    classes = {*_RULES, *codes._READERS, *codes._CODE_IS_STATUS, *codes._STATUS_IS_STATUS}
    packages = {name.partition(".")[0] for name in {*classes, *judge._WRAPPERS}}
    return (packages | codes._MODEL_PACKAGES) - sys.stdlib_module_names


def test_the_page_of_retries_names_each_library_and_each_default() -> None:
    table = rows_of(RETRIES, "Which libraries are known")
    named = [word for packages, _ in table.values() for word in QUOTED.findall(packages)]
    assert sorted(named) == sorted(known_packages())
    fields = rows_of(RETRIES, "The policy")
    policy = Retry()
    assert list(fields) == [field.name for field in dataclasses.fields(Retry)]
    for name, (default, _) in fields.items():
        value = getattr(policy, name)
        assert default.strip("`").removesuffix(" s") == (
            str(value) if isinstance(value, bool) else f"{value:g}"
        )


def test_the_exit_codes_are_those_of_the_command() -> None:
    rows = rows_of(OPERATIONS, "Exit codes")
    written = {code: meaning.replace("`", "") for code, (meaning,) in rows.items()}
    told = inspect.cleandoc(exits.__doc__ or "").replace("`", "")
    codes = dict(re.findall(r"^(\d+) +(.+)$", told, re.MULTILINE))
    assert written == codes


def test_the_page_of_states_is_up_to_date() -> None:
    for path, old, new in states.drawn():
        assert old == new, f"{path.name}: run python -m scripts.states"
    assert set(states.WHEN) == set(MOVES)


def test_the_drawing_of_states_shows_each_arrow_and_state() -> None:
    picture = states.picture()
    assert picture.count('class="arrow"') == len(states.arrows())
    assert all(f">{state}</text>" in picture for state in State if state != State.WAITING)
    left_out = {*states.BESIDE, "settle", "admit", "wait"}
    assert {name for told in states.arrows().values() for name in told.split(", ")} == (
        set(MOVES) - left_out
    )


def test_the_page_of_states_explains_each_state() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", states.PAGE.read_text("utf-8"), re.MULTILINE)
    assert [row for row in rows if row in set(State)][: len(State)] == list(State)


def test_a_page_that_is_not_up_to_date_is_seen() -> None:
    stale = f"# States\n\n{states.BEGIN}\nold\n{states.END}\n"
    assert states.page(stale) != stale
    assert "`enqueue`" in states.page(stale)
