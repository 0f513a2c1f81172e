"""A PostgreSQL of a test's own, which it may restart, overload and fill. It keeps what it accepts.

``disk``: the tablespace ``small`` lies on a file system of so many MiB, which the server's
processes alone see: they run in namespaces of their own, which needs no root where the kernel
lets everybody make them.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from scripts.services import free_port, make_data, programs, run, unprivileged_user

CONNECTIONS = 100
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = {connections}
"""
# In namespaces where it is root it mounts, in others below them it is somebody again.
MOUNT = """
mount -t tmpfs -o size="$0",mode=0700 tmpfs "$1" && shift &&
exec unshare --user --map-user=1000 --map-group=1000 "$@"
"""
SMALL_DISK = (
    *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c"),
    MOUNT,
)


class Server:
    """Runs from ``start`` to ``stop``. ``url`` names its database postgres."""

    def __init__(self, found: Path, folder: Path, disk: int | None = None) -> None:
        self._programs = found
        self._data = folder / "data"
        self._small = folder / "small"
        self._disk = disk
        make_data(found, self._data)
        port = free_port()
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(port=port, connections=CONNECTIONS))
        self.url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        self.port = port

    def start(self) -> None:
        command = [*self._control, "-w", "-l", self._data / "log", "start"]
        if self._disk is None:
            run(*command)
            return
        self._small.mkdir(mode=0o700)
        _give(self._small)
        run(*SMALL_DISK, f"{self._disk}m", self._small, *command)
        with self.connect() as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{self._small}'")

    def stop(self, how: str = "fast") -> None:
        run(*self._control, "-m", how, "-w", "stop")

    def restart(self, how: str) -> None:
        """``how``: as pg_ctl's mode. It is up again when this returns."""
        run(*self._control, "-m", how, "-w", "-l", self._data / "log", "restart")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """It ends with this process, however that ends: then whoever reads from it goes on."""
        guard = subprocess.Popen(
            ["sh", "-c", 'read -r _; exec "$@"', "sh", *self._control, "-m", "immediate", "stop"],
            user=unprivileged_user(),
            cwd=self._data.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            guard.kill()
            guard.communicate()

    def connect(self, url: str | None = None) -> psycopg.Connection[tuple[object, ...]]:
        """A connection in autocommit mode, to look and to hinder with."""
        return psycopg.connect(url or self.url, autocommit=True, application_name="a test")

    @property
    def _control(self) -> list[str | Path]:
        return [self._programs / "pg_ctl", "-D", self._data]


@contextmanager
def server(disk: int | None = None) -> Iterator[Server]:
    """Runs one. Skips where there are no programs, or no small disk can be made."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL to start (make services)")
    # Not pytest's: the server's user may not look into root's folders.
    folder = Path(tempfile.mkdtemp(prefix="benbi-server-"))
    _give(folder)
    try:
        if disk is not None and not _can_have_a_small_disk(folder):
            pytest.skip("this kernel lets nobody make namespaces to mount a small disk in")
        started = Server(found, folder, disk)
        started.start()
        try:
            with started.guarded():
                yield started
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                started.stop("immediate")
    finally:
        shutil.rmtree(folder)


def _give(folder: Path) -> None:
    user = unprivileged_user()
    if user is not None:
        shutil.chown(folder, user)


def _can_have_a_small_disk(folder: Path) -> bool:
    tried = subprocess.run(
        [*SMALL_DISK, "1m", folder, "true"],
        user=unprivileged_user(),
        cwd=folder,
        capture_output=True,
    )
    return tried.returncode == 0
