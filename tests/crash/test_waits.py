"""A worker dies while its job adds others, waits for them, or releases what waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import shadow

POINTS = [
    "before:write.commit",
    "after:write.commit",
    "before:finish.commit#3",
    "after:finish.commit#3",
]


@pytest.mark.parametrize("point", POINTS)
def test_what_is_added_is_added_once_and_waited_for(point: str, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    environment = os.environ | {
        "CRASH_DB": str(tmp_path / "jobs.db"),
        "CRASH_TRACES": str(traces),
        "CRASH_SLOTS": "1",
        "BENBI_URL": str(tmp_path / "jobs.db"),
    }

    def benbi(*words: str) -> str:
        command = [sys.executable, "-m", "benbi", *words]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=30
        ).stdout

    benbi("db", "migrate")
    shadow.watch(tmp_path / "jobs.db")
    job = benbi("enqueue", "fan_out", '{"numbers": [3, 4]}', "--app", "tests.crash.plant:app")
    worker = [sys.executable, "-m", "benbi", "work", "tests.crash.plant:app"]
    doomed = subprocess.run(
        worker,
        env=environment | {"BENBI_CRASH": point},
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )
    assert doomed.returncode == -signal.SIGKILL, doomed.stderr
    assert f"BENBI_CRASH at {point}" in doomed.stderr
    with subprocess.Popen(worker, env=environment, stderr=subprocess.DEVNULL) as heir:
        try:
            benbi("jobs", "watch", job.strip(), "--json")
        finally:
            heir.terminate()
            assert heir.wait(timeout=30) in (0, -signal.SIGTERM)
    shown = json.loads(benbi("jobs", "show", job.strip(), "--json"))
    assert shown["result"] == 25, shown
    listed = json.loads(benbi("jobs", "list", "--json"))["jobs"]
    assert sorted(entry["task"] for entry in listed) == ["fan_out", "squared", "squared"]
    assert shadow.disagreements(tmp_path / "jobs.db") == []
