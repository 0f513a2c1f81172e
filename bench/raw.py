"""The ceilings: what SQLite alone can do, with the same durability."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS work (n INTEGER PRIMARY KEY, state TEXT NOT NULL, body TEXT)"
    )
    connection.execute("CREATE INDEX IF NOT EXISTS work_ready ON work (n) WHERE state = 'pending'")
    return connection


def inserts(folder: Path, count: int) -> float:
    """Durable single-row inserts per second, one at a time."""
    connection = connect(folder / "raw.db")
    began = time.perf_counter()
    for number in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO work (state, body) VALUES ('pending', ?)", (str(number),))
        connection.execute("COMMIT")
    return count / (time.perf_counter() - began)


def claim_and_finish(folder: Path, count: int, batch: int = 32) -> float:
    """Rows per second that are claimed and finished by ``batch``, without any engine."""
    connection = connect(folder / "raw-claim.db")
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(
        "INSERT INTO work (state, body) VALUES ('pending', ?)", ((str(n),) for n in range(count))
    )
    connection.execute("COMMIT")
    began = time.perf_counter()
    while True:
        connection.execute("BEGIN IMMEDIATE")
        claimed = connection.execute(
            "UPDATE work SET state = 'running' WHERE n IN "
            "(SELECT n FROM work WHERE state = 'pending' ORDER BY n LIMIT ?) RETURNING n",
            (batch,),
        ).fetchall()
        connection.execute("COMMIT")
        if not claimed:
            return count / (time.perf_counter() - began)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("UPDATE work SET state = 'completed' WHERE n = ?", claimed)
        connection.execute("COMMIT")
