"""A worker dies at a named point; the next one goes on as if it had died anywhere else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import shadow
from tests.support.polling import wait_until

POINTS = [
    "before:claim.commit",
    "after:claim.commit",
    "before:write.commit",
    "after:write.commit#2",
    "before:finish.commit",
    "after:finish.commit",
    "before:register.commit",
    "before:sign_off.commit",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_at_a_point_costs_nothing(point: str, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    environment = os.environ | {
        "CRASH_DB": str(tmp_path / "jobs.db"),
        "CRASH_TRACES": str(traces),
        "CRASH_SLOTS": "2",
        "BENBI_URL": str(tmp_path / "jobs.db"),
    }

    def benbi(*words: str) -> str:
        command = [sys.executable, "-m", "benbi", *words]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=30
        ).stdout

    arguments = json.dumps({"number": 5, "seconds": 0.03})
    benbi("db", "migrate")
    shadow.watch(tmp_path / "jobs.db")
    job = benbi("enqueue", "grind", arguments, "--app", "tests.crash.plant:app").strip()
    worker = [sys.executable, "-m", "benbi", "work", "tests.crash.plant:app"]
    doomed = subprocess.Popen(
        worker, env=environment | {"BENBI_CRASH": point}, stderr=subprocess.PIPE, text=True
    )
    if "sign_off" in point:
        wait_until(lambda: '"completed"' in benbi("jobs", "show", job, "--json"), timeout=20)
        doomed.terminate()
    _, said = doomed.communicate(timeout=30)
    assert doomed.returncode == -signal.SIGKILL, said
    assert f"BENBI_CRASH at {point}" in said

    with subprocess.Popen(worker, env=environment, stderr=subprocess.DEVNULL) as heir:
        try:
            assert benbi("jobs", "watch", job, "--json")
        finally:
            heir.terminate()
            # Where the job had ended before, the heir may not even have begun.
            assert heir.wait(timeout=30) in (0, -signal.SIGTERM)
    shown = json.loads(benbi("jobs", "show", job, "--json"))
    assert '"completed"' in json.dumps(shown)
    assert shadow.disagreements(tmp_path / "jobs.db") == []
    starts = [
        line.split()[1] for file in traces.iterdir() for line in file.read_text().splitlines()
    ]
    # Only the step under way at the crash may have started twice.
    assert len(starts) <= 4 and set(starts) == {"square", "shift", "fold"}
