"""Somebody else's connection to the file: it knows no turnstile and waits for nobody."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def write_lock(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Holds the file's write lock for as long as the block lasts, then rolls back."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
