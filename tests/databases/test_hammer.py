"""Eight processes with four threads each on one file: no error surfaces and nothing is lost.

A minute in CI, ten in ``make soak``, a few seconds elsewhere.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benbi.store.sqlite import SqliteDatabase
from benbi.store.store import Store
from tests.support import shadow
from tests.support.skips import NO_SKIP

PROCESSES = 8
SECONDS = [60 if NO_SKIP else 8, pytest.param(600, marks=pytest.mark.soak)]
# Of what the busiest process wrote, the least busy one must have written so much.
LEAST_SHARE = 0.5


@contextmanager
def stranger(path: Path) -> Iterator[Counter[str]]:
    """A connection that waits for nobody and takes the lock for 50 to 200 ms now and then."""
    done, counts = threading.Event(), Counter[str]()

    def run() -> None:
        choice = random.Random(7)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            while not done.wait(choice.uniform(0.1, 0.4)):
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    counts["refused"] += 1
                    continue
                connection.execute("INSERT INTO strange VALUES (1)")
                done.wait(choice.uniform(0.05, 0.2))
                connection.execute("COMMIT")
                counts["commits"] += 1

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield counts
    finally:
        done.set()
        thread.join()


def hammers(path: Path, seconds: float) -> list[dict[str, Any]]:
    """What each process says that it did."""
    command = [sys.executable, "-m", "tests.databases.hammering", str(path), str(seconds)]
    processes = [
        subprocess.Popen(
            [*command, str(number)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    told = [process.communicate(timeout=seconds + 120) for process in processes]
    failed = [
        error for process, (_, error) in zip(processes, told, strict=True) if process.returncode
    ]
    assert not failed, failed[0]
    return [json.loads(output) for output, _ in told]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seconds", SECONDS)
def test_eight_processes_on_one_file_lose_nothing(
    seconds: int, tmp_path: Path, record_property: Any
) -> None:
    path = tmp_path / "jobs.db"
    store = Store(SqliteDatabase(str(path)))
    store.open()
    store.close()
    shadow.watch(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE strange (n INTEGER)")
    with stranger(path) as strange:
        reports = hammers(path, seconds)
    assert [error for report in reports for error in report["errors"]] == []
    _nothing_is_lost(path, reports)
    assert shadow.disagreements(path) == []
    assert strange["commits"] > 0
    writes = [report["counts"]["writes"] for report in reports]
    worst = max(report["worst"] for report in reports)
    told = f"writes {sorted(writes)}, worst wait {worst * 1000:.0f} ms, stranger {dict(strange)}"
    record_property("hammer", told)
    sys.stderr.write(f"\n{told}\n")
    assert min(writes) >= LEAST_SHARE * max(writes), told


def _nothing_is_lost(path: Path, reports: list[dict[str, Any]]) -> None:
    """What was accepted is there, and the ends that were accepted are the ends that are told."""
    accepted = {job_id for report in reports for job_id in report["jobs"]}
    counts = sum((Counter[str](report["counts"]) for report in reports), Counter[str]())
    with closing(sqlite3.connect(path)) as connection:

        def one(statement: str) -> int:
            return connection.execute(statement).fetchone()[0]

        assert one("SELECT count(*) FROM benbi_jobs") == len(accepted)
        assert one("SELECT count(*) FROM benbi_events WHERE type = 'created'") == len(accepted)
        assert one("SELECT count(*) FROM benbi_events WHERE type = 'started'") == counts["claims"]
        for state in ("completed", "failed"):
            ends = one(f"SELECT count(*) FROM benbi_events WHERE type = '{state}'")
            assert ends == counts[f"to {state}"], state
        assert one("SELECT count(*) FROM benbi_jobs WHERE state = 'running'") == 0
        keys = connection.execute(
            "SELECT key, count(*) FROM benbi_jobs WHERE key IS NOT NULL GROUP BY key"
        ).fetchall()
    assert keys and all(count == 1 for _, count in keys)


OPENER = """
import sys
from benbi import Benbi
app = Benbi(sys.argv[1])
@app.task
async def work() -> None: ...
sys.stdin.readline()
app.tasks["work"].enqueue_sync()
print(len(app.store.applied))
app.close_sync()
"""


def test_processes_that_start_on_a_new_file_at_once_migrate_it_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENER, str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    told = [process.communicate("go\n", timeout=60) for process in processes]
    assert [error for _, error in told if error] == []
    assert sorted(int(applied) > 0 for applied, _ in told) == [False] * 5 + [True]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM benbi_jobs").fetchone() == (6,)
