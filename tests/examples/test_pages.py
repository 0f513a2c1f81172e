"""What the pages in docs/ show does run, and prints what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import pages

ROOT = Path(__file__).parents[2]
RUNNABLE = [page for page in sorted(pages.DOCS.glob("*.md")) if pages.runnable(page)]

LYING = """
```python run
print("hello")
```

```text
goodbye
```
"""


def run(page: Path) -> subprocess.CompletedProcess[str]:
    # A process of its own: what the pages import sets up logging for the whole process.
    command = [sys.executable, "-W", "error", "-m", "scripts.pages", str(page)]
    return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)


def test_there_are_pages_that_run() -> None:
    assert {page.stem for page in RUNNABLE} >= {"mcp", "replay", "operations"}


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_a_page_prints_what_it_says(page: Path) -> None:
    done = run(page)
    assert done.returncode == 0, done.stderr


def test_a_page_that_lies_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "lying.md"
    page.write_text(LYING, "utf-8")
    done = run(page)
    assert done.returncode == 1
    assert "-goodbye\n+hello" in done.stderr
