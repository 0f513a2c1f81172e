"""What a type checker infers from the public names, and which mistakes it reports.

The snippets say what they expect: ``assert_type`` for what is inferred, and a comment
``# expect: rule, rule`` on each line that must be reported, with the rules in any order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SNIPPETS = Path(__file__).parent / "snippets"
EXPECT = re.compile(r"# expect: (?P<rules>[\w, ]+)$")

Reports = Counter[tuple[int, str]]


@pytest.fixture(scope="module")
def diagnostics() -> list[dict[str, Any]]:
    """Pyright's diagnostics of all snippets, from one run."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable),
            str(SNIPPETS),
        ],
        cwd=ROOT,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == len(list(SNIPPETS.glob("*.py"))), done.stderr
    return report["generalDiagnostics"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("snippet", sorted(SNIPPETS.glob("*.py")), ids=lambda path: path.stem)
def test_snippet_is_reported_where_it_says_so(
    snippet: Path, diagnostics: list[dict[str, Any]]
) -> None:
    expected: Reports = Counter(
        (number, rule.strip())
        for number, line in enumerate(snippet.read_text(encoding="utf-8").splitlines(), start=1)
        if (found := EXPECT.search(line))
        for rule in found["rules"].split(",")
    )
    reported: Reports = Counter(
        (item["range"]["start"]["line"] + 1, item.get("rule", "syntax"))
        for item in diagnostics
        if Path(item["file"]) == snippet
    )
    assert expected, "a snippet without a mistake shows nothing of what is reported"
    messages = {
        item["range"]["start"]["line"] + 1: item["message"]
        for item in diagnostics
        if Path(item["file"]) == snippet
    }
    assert reported == expected, [
        (line, rule, messages.get(line, "nothing reported"))
        for line, rule in sorted((reported - expected) + (expected - reported))
    ]
