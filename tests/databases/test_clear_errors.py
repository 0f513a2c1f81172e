"""A PostgreSQL that can not be used: each reason is said in one line, soon, by the command too."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from benbi import Benbi
from benbi.errors import BenbiError
from tests.support import postgresql

WITHIN = 5.0
# What starting an interpreter takes on a busy machine is not the server's time.
START = 10.0
SECRET = "s3cret-word"


@pytest.fixture
def url() -> Iterator[str]:
    with postgresql.own_database() as found:
        yield found


def changed(url: str, **parts: str | int) -> str:
    """The URL with another user, password, host, port or path."""
    known = urlsplit(url)
    user = parts.get("user", known.username)
    word = f":{parts['password']}" if "password" in parts else ""
    place = f"{parts.get('host', known.hostname)}:{parts.get('port', known.port)}"
    return known._replace(
        netloc=f"{user}{word}@{place}", path=f"/{parts.get('database', known.path[1:])}"
    ).geturl()


def refused(url: str, *says: str) -> None:
    """Both the library and the command say so, in time, without a password or a traceback."""
    began = time.monotonic()
    with pytest.raises(BenbiError) as error, Benbi(url):
        pass
    assert time.monotonic() - began < WITHIN
    told = str(error.value)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "benbi", "jobs", "list"],
        env=os.environ | {"BENBI_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert time.monotonic() - began < WITHIN + START
    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    for text in (told, line):
        for word in says:
            assert word in text
        assert SECRET not in text


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"port": 1}, "can not be reached"),
        ({"host": "no-such-host.invalid"}, "can not be reached"),
        ({"database": "no_such_database"}, "no_such_database"),
        ({"user": "nobody_of_that_name", "password": SECRET}, "nobody_of_that_name"),
    ],
    ids=["port", "host", "database", "user"],
)
def test_a_wrong_url(url: str, wrong: dict[str, str | int], says: str) -> None:
    refused(changed(url, **wrong), says)


@pytest.mark.parametrize(
    "nonsense", ["postgresql://[", "postgresql://h/d?nonsense=1", "mysql://h/d"]
)
def test_nonsense(nonsense: str) -> None:
    refused(nonsense)


def test_a_wrong_password() -> None:
    with postgresql.own_server() as server:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("CREATE ROLE shop LOGIN PASSWORD 'right'")
            ((rules,),) = connection.execute("SHOW hba_file").fetchall()
            Path(rules).write_text("host all all 127.0.0.1/32 scram-sha-256\n", "utf-8")
            connection.execute("SELECT pg_reload_conf()")
        refused(changed(server, user="shop", password=SECRET), "password", "shop")


def test_no_right_to_make_a_schema(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS benbi_weak")
        connection.execute("CREATE ROLE benbi_weak LOGIN")
        try:
            refused(changed(url, user="benbi_weak"), "permission denied", "rights")
        finally:
            connection.execute("DROP ROLE benbi_weak")


def test_a_newer_schema(url: str) -> None:
    with Benbi(url):
        pass
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE benbi.migrations SET needs_code = 99")
    refused(url, "newer")


def test_a_standby() -> None:
    with postgresql.own_standby() as standby:
        refused(standby, "read")


def test_a_server_of_long_ago() -> None:
    with peer(old) as port:
        refused(f"postgresql://shop@127.0.0.1:{port}/shop", "PostgreSQL 13", "14 or newer")


def test_a_server_that_says_nothing() -> None:
    with peer(mute) as port:
        refused(f"postgresql://shop@127.0.0.1:{port}/shop", "can not be reached")


# Peers that speak no more than the beginning of the protocol ("Message Flow" in PostgreSQL's docs).


def old(line: socket.socket) -> None:
    """Lets anybody in, and says that it is version 13."""
    while True:
        (length, code) = struct.unpack("!II", line.recv(8))
        if code >> 16 == 3:
            break
        # No encryption of any kind.
        line.sendall(b"N")
    line.recv(length - 8)
    for kind, body in (
        (b"R", struct.pack("!I", 0)),
        (b"S", b"server_version\0" + b"13.9\0"),
        (b"S", b"client_encoding\0UTF8\0"),
        (b"K", struct.pack("!II", 1, 1)),
        (b"Z", b"I"),
    ):
        line.sendall(kind + struct.pack("!I", 4 + len(body)) + body)
    mute(line)


def mute(line: socket.socket) -> None:
    """Listens until the other side has had enough."""
    while line.recv(1024):
        pass


@contextmanager
def peer(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on a port of the loopback address that talks so to all who come."""

    def answer() -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_politely, args=(talk, line), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _politely(talk: Callable[[socket.socket], None], line: socket.socket) -> None:
    with line:
        try:
            talk(line)
        except (OSError, struct.error):
            # It hung up.
            return
