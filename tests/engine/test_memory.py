"""A worker's memory has a ceiling, however many jobs it has run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 1.1  # times what it holds after the first thousand


@pytest.mark.parametrize("jobs", [8_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_worker_does_not_grow_with_the_jobs_that_it_has_run(jobs: int, tmp_path: Path) -> None:
    # A process of its own: what other tests left in this one would hide the growth.
    measure = (
        "import sys; from bench.ours import growth\n"
        "print(growth(sys.argv[1], 1_000, int(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", measure, str(tmp_path / "jobs.db"), str(jobs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(done.stdout) <= MOST
