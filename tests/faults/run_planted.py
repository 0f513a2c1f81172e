"""Runs tests on copies of the source, two at a time, each in a fork of this warm process.

Reads a JSON list of [source, tests, report, output] from standard input. What all runs import
alike is imported before the first fork; benbi and its tests are not.
"""

from __future__ import annotations

import json
import os
import sys

import _pytest.junitxml  # noqa: F401
import anyio.pytest_plugin  # noqa: F401
import hypothesis.stateful  # noqa: F401
import pydantic
import pytest

AT_ONCE = 2


def main() -> None:
    # Loaded lazily otherwise, in every fork anew.
    pydantic.TypeAdapter(dict[str, int]).json_schema()
    runs = json.load(sys.stdin)
    alive: set[int] = set()
    for run in runs:
        if len(alive) == AT_ONCE:
            alive.discard(os.wait()[0])
        child = os.fork()
        if child == 0:
            os._exit(_run(*run))
        alive.add(child)
    while alive:
        alive.discard(os.wait()[0])


def _run(source: str, tests: list[str], report: str, output: str) -> int:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    assert "benbi" not in sys.modules
    sys.path.insert(0, source)
    os.environ["PYTHONPATH"] = source
    # The compiled files lie in the real source: one of a fault has no business there.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    # They were imported above, so that pytest can not rewrite their asserts: they have none.
    warning = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    options = [
        "-q",
        "-W",
        warning,
        "-p",
        "no:cacheprovider",
        "--timeout=30",
        f"--junitxml={report}",
    ]
    code = pytest.main([*options, *tests])
    import benbi

    if not benbi.__file__.startswith(source):
        os.remove(report)
    sys.stdout.flush()
    return int(code)


if __name__ == "__main__":
    main()
