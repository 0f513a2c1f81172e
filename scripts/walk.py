"""Turns the tests of tests/walk into the pages of a tutorial: docstrings as prose, code as code.

One page a chapter. A chapter's file is ``test_01_a_job.py``; its docstring begins "Chapter 1.".
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

WALK: Final = Path(__file__).parents[1] / "tests" / "walk"
SUPPORT: Final = ("shop.py", "conftest.py")

_INDEX: Final = """# The walk

A tutorial that can not be wrong: each page is a file of `tests/walk`, each section one test that
runs on every change. It goes from one job to a fleet; read it in order. Each test gets what it
names in its parentheses: `app` is a `Benbi` on a fresh file, `tmp_path` an empty folder, and
[what they start from](support.md) shows the rest.

"""
_SUPPORT: Final = """# What they start from

The fixtures of the chapters, and the tasks that the worker processes of chapters 13 and 14 run.
"""

_Definition = ast.FunctionDef | ast.AsyncFunctionDef


def pages() -> dict[str, str]:
    """The pages by their names: ``index.md`` first, the chapters in order, ``support.md``."""
    chapters = sorted(WALK.glob("test_*.py"))
    listed = "".join(
        f"{number}. [{title_of(path)}]({page_name(path)}): {lead_of(path)}\n"
        for number, path in enumerate(chapters, 1)
    )
    found = {"index.md": _INDEX + listed}
    found |= {page_name(path): chapter(path) for path in chapters}
    found["support.md"] = _SUPPORT + "".join(
        f"\n## {name}\n\n{code((WALK / name).read_text('utf-8'), name)}" for name in SUPPORT
    )
    return found


def page_name(path: Path) -> str:
    """``01_a_job.md`` for ``test_01_a_job.py``."""
    return f"{path.stem.removeprefix('test_')}.md"


def title_of(path: Path) -> str:
    """``A job`` for ``test_01_a_job.py``."""
    return sentence(path.stem.split("_", 2)[2])


def sentence(name: str) -> str:
    """A name with underscores, as words."""
    return name[:1].upper() + name[1:].replace("_", " ")


def lead_of(path: Path) -> str:
    """The first sentence of a chapter: what its docstring says behind "Chapter 1."."""
    told = prose(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
    return told.partition("\n\n")[0].replace("\n", " ")


def prose(docstring: str) -> str:
    """A docstring as Markdown."""
    return re.sub(r"^Chapter \d+\. ", "", docstring).replace("``", "`")


def chapter(path: Path) -> str:
    """One chapter as a page."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    module = ast.parse(text)
    number = int(path.stem.split("_")[1])
    parts = [f"# {number}. {title_of(path)}", prose(ast.get_docstring(module) or "")]
    pending: list[str] = []
    # Where the statement before ended: comments above a statement belong to it.
    last = module.body[0].end_lineno or 0
    for node in module.body[1:]:
        end = node.end_lineno or 0
        if isinstance(node, _Definition) and node.name.startswith("test_"):
            parts += block_of(pending)
            pending = []
            parts += section(node, lines[last:end], last)
        else:
            pending += lines[last:end]
        last = end
    return "\n\n".join([*parts, *block_of(pending)]).rstrip() + "\n"


def section(test: _Definition, lines: list[str], before: int) -> list[str]:
    """A test: its name as heading, its docstring as prose, the rest as code."""
    told = ast.get_docstring(test)
    if told is not None:
        said = test.body[0]
        lines = lines[: said.lineno - 1 - before] + lines[(said.end_lineno or 0) - before :]
    heading = f"## {sentence(test.name.removeprefix('test_'))}"
    return [heading, *([prose(told)] if told else []), *block_of(lines)]


def block_of(lines: list[str]) -> list[str]:
    """The lines as one fenced block; none for no lines."""
    text = "\n".join(line for line in lines if "from __future__" not in line).strip("\n")
    return [code(f"{text}\n")] if text else []


def code(text: str, title: str = "") -> str:
    """Python in a fence."""
    heading = f' title="{title}"' if title else ""
    return f"```python{heading}\n{text}```\n"
