"""A PgBouncer of the tests' own before their PostgreSQL, in transaction mode.

So few connections to the server that those of one app share them.
"""

from __future__ import annotations

import atexit
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import pytest

from scripts.services import free_port, pgbouncer_program, postgresql_url, unprivileged_user
from tests.support.polling import wait_until

CONNECTIONS = 3
CONFIGURATION = """\
[databases]
* = {server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {connections}
max_client_conn = 200
query_wait_timeout = {patience}
logfile = {folder}/log
"""


@cache
def pooled_server() -> str:
    """The URL of one for all tests of this process, and gone with it. Skips without PgBouncer."""
    running = pooler()
    atexit.register(running.__exit__, None, None, None)
    return running.__enter__().url


def pooled(url: str, server: str | None = None) -> str:
    """The same database behind a pooler: ``server``, else that of this process."""
    there = urlsplit(server or pooled_server())
    return urlsplit(url)._replace(netloc=there.netloc).geturl()


class Pooler(NamedTuple):
    """One that runs: where, and the file in which it tells what it does."""

    url: str
    log: Path


@contextmanager
def pooler(mode: str = "transaction", patience: int = 20) -> Iterator[Pooler]:
    """Runs one. ``mode``: as PgBouncer's ``pool_mode``; ``patience``: seconds for which a client
    waits for a connection to the server."""
    program, user = pgbouncer_program(), unprivileged_user()
    if program is None:
        pytest.skip("no PgBouncer to test behind (make services)")
    folder = Path(tempfile.mkdtemp(prefix="benbi-pgbouncer-"))
    port = free_port()
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        CONFIGURATION.format(
            server=_words(urlsplit(postgresql_url())),
            port=port,
            mode=mode,
            # Each client of a session has a connection to itself.
            connections=CONNECTIONS if mode == "transaction" else 40,
            patience=patience,
            folder=folder,
        ),
        "utf-8",
    )
    if user is not None:
        for path in (folder, settings):
            shutil.chown(path, user)
    process = subprocess.Popen([program, "-q", settings], cwd=folder, user=user)
    try:
        wait_until(lambda: process.poll() is not None or _answers(port), 20.0, "PgBouncer listens")
        assert process.poll() is None, "PgBouncer did not start"
        yield Pooler(f"postgresql://postgres@127.0.0.1:{port}/postgres", folder / "log")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def _words(server: SplitResult) -> str:
    """A server as PgBouncer's settings name it."""
    named = {
        "host": server.hostname,
        "port": server.port or 5432,
        "user": server.username,
        "password": server.password,
    }
    return " ".join(f"{name}={value}" for name, value in named.items() if value)


def _answers(port: int) -> bool:
    with closing(socket.socket()) as door:
        return door.connect_ex(("127.0.0.1", port)) == 0
