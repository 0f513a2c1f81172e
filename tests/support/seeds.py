"""Seeds of tests that leave something to chance: three in CI, twenty in ``make soak``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.skips import NO_SKIP

SOAK = os.environ.get("BENBI_SOAK") == "1"
SEEDS = [1, 2, 3] if NO_SKIP else [1]
SOAK_SEEDS = list(range(1, 21))


def seeded(test: Callable[..., Any]) -> Callable[..., Any]:
    """The test has a parameter ``seed``."""
    more = [pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK_SEEDS if seed not in SEEDS]
    return pytest.mark.parametrize("seed", [*SEEDS, *more])(test)
