"""The PostgreSQL that is measured on: each figure has a database of its own there.

``BENCH_POSTGRES`` names any database of it; without it the rows that need a server are left out.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
from psycopg.sql import SQL, Identifier

URL = os.environ.get("BENCH_POSTGRES", "")


def on_fresh(figure: Callable[[str], float]) -> float:
    """A figure on a database that is made for it; its commits must be durable."""
    name = f"benbi_bench_{secrets.token_hex(4)}"
    with psycopg.connect(URL, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            ((value,),) = connection.execute("SELECT current_setting(%s)", [setting]).fetchall()
            if value != "on":
                raise RuntimeError(f"the server has {setting} {value}: not durable, no anchor")
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            return figure(urlsplit(URL)._replace(path=f"/{name}").geturl())
        finally:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@contextmanager
def snapshot(url: str) -> Generator[None]:
    """A session that holds what it can see, and a number that no vacuum may pass."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT pg_current_xact_id()")
        yield


def pad(url: str, finished: int, scheduled: int) -> None:
    """Rows of jobs that are over or not due yet."""
    with psycopg.connect(url, autocommit=True) as connection:
        for state, count, end in (("completed", finished, 1), ("scheduled", scheduled, None)):
            connection.execute(
                "INSERT INTO benbi.jobs (id, task, queue, state, run_at, max_attempts, max_losses,"
                " grace, created_at, last_seq, finished_at) SELECT gen_random_uuid(), 'nothing',"
                " 'default', %s, 9000000000000000, 3, 3, 1, 1, 3, %s::bigint"
                " FROM generate_series(1, %s)",
                (state, end, count),
            )
        connection.execute("VACUUM ANALYZE benbi.jobs")


def inserts(url: str, count: int) -> float:
    """Durable single-row inserts per second, one at a time, without any engine."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE work (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " state text, body text)"
        )
        began = time.perf_counter()
        for number in range(count):
            connection.execute(
                "INSERT INTO work (state, body) VALUES ('pending', %s)", (str(number),)
            )
        return count / (time.perf_counter() - began)
