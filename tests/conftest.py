"""What holds for every suite. The folder that a test lies in is its suite, and its mark."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.skips"]

TESTS = Path(__file__).parent
SOAK = os.environ.get("BENBI_SOAK") == "1"

# The processes that tests start need not compile the package anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Time is no property of the code on a busy machine; what CI finds, it must find again.
settings.register_profile(
    "benbi",
    deadline=None,
    derandomize=os.environ.get("CI") == "true" and not SOAK,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("benbi")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """benbi runs on asyncio alone."""
    return "asyncio"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        suite = item.path.relative_to(TESTS).parts[0]
        if not suite.endswith(".py"):
            item.add_marker(suite)
    if not SOAK:
        long = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
