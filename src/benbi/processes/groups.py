"""The process groups that this process leads into the world, and who ends them when it can not."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benbi.processes import sentinel

SECONDS = 5.0


class Groups:
    """The groups that are alive. A sentinel kills them ``patience`` seconds after this process
    has died, however suddenly, unless they end by themselves before."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._alive: set[int] = set()
        self._sentinel: subprocess.Popen[bytes] | None = None

    def add(self, leader: int) -> None:
        """A process that leads a group of its own was started."""
        self._alive.add(leader)
        if self._sentinel is None or self._sentinel.poll() is not None:
            # The first time, or it was killed itself.
            self._sentinel = self._start()
            for group in self._alive:
                self._say(f"+{group}")
        else:
            self._say(f"+{leader}")

    def discard(self, leader: int) -> None:
        """The group has ended."""
        self._alive.discard(leader)
        self._say(f"-{leader}")

    def close(self) -> None:
        """Ends the sentinel, and with it, at once, what is left of the groups."""
        if self._sentinel is not None:
            with suppress(subprocess.TimeoutExpired):
                self._sentinel.communicate(timeout=self._patience + SECONDS)
            self._sentinel = None

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own: what ends its parent's group must not end it.
        command = [sys.executable, "-I", "-S", str(Path(sentinel.__file__))]
        return subprocess.Popen(
            [*command, str(os.getpid()), str(self._patience)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def _say(self, line: str) -> None:
        if self._sentinel is not None and self._sentinel.stdin is not None:
            with suppress(OSError):
                self._sentinel.stdin.write(f"{line}\n".encode())
