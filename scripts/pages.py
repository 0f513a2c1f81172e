"""Runs the Python of the pages in docs/ that says of itself that it runs.

    python -m scripts.pages [PAGE.md ...]       without names: every page in docs/

    ```python run       runs alone, in an empty folder, with no setting of benbi's
    ```text             right behind it: what it must print
    ```python           is compiled, no more (tests/shape does that)

Exits with 1 where one prints something else, or raises.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import runpy
import sys
import tempfile
import traceback
from itertools import zip_longest
from pathlib import Path
from typing import Final

from scripts.readme import Block, blocks

DOCS: Final = Path(__file__).parents[1] / "docs"


def runnable(page: Path) -> list[tuple[Block, str | None]]:
    """The blocks that run, each with what it must print; None: whatever it likes."""
    found = blocks(page.read_text("utf-8"))
    return [
        (block, after.body if after is not None and after.language == "text" else None)
        for block, after in zip_longest(found, found[1:])
        if block.words == ("python", "run")
    ]


def difference(page: Path, block: Block, expected: str | None) -> str:
    """What is wrong with what the block does; empty where nothing is."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory(prefix="benbi-page-") as folder:
        path = Path(folder, f"{page.stem}_line_{block.line}.py")
        path.write_text(block.body, "utf-8")
        try:
            with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
                runpy.run_path(str(path), run_name="__main__")
        except Exception:
            return traceback.format_exc()
    if expected is None:
        return ""
    lines = expected.splitlines(), printed.getvalue().splitlines()
    return "\n".join(difflib.unified_diff(*lines, "the page", "it prints", lineterm=""))


def main(arguments: list[str]) -> int:
    for name in [name for name in os.environ if name.startswith("BENBI_")]:
        del os.environ[name]
    pages = [Path(name).resolve() for name in arguments] or sorted(DOCS.glob("*.md"))
    ran, failed = 0, 0
    for page in pages:
        for block, expected in runnable(page):
            ran += 1
            if wrong := difference(page, block, expected):
                failed += 1
                print(f"{page.name}, line {block.line}:\n{wrong}", file=sys.stderr)
    print(f"pages: {ran} blocks ran, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
