"""A skip is fine on a laptop and a failure in CI: there, whatever is skipped is unguarded.

``BENBI_NO_SKIP=1`` turns each skipped test and each skipped module into a failure.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest

NO_SKIP = os.environ.get("BENBI_NO_SKIP") == "1"


def _refuse_skip(report: Any) -> None:
    if NO_SKIP and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"BENBI_NO_SKIP=1, and this was skipped: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
