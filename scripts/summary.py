"""Adds up the reports that pytest left, in one plain line.

    scripts/summary.py REPORT.xml ...

Exits with 1 when a test failed or was skipped, or when none ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def counts(report: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) of one report. An expected failure that failed has passed."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif skip is not None and skip.get("type") != "pytest.xfail":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(arguments: list[str]) -> int:
    reports = [counts(Path(argument)) for argument in arguments]
    passed, failed, skipped = (sum(report[place] for report in reports) for place in range(3))
    print(f"benbi: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 0 if passed and not failed and not skipped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
