"""A worker process as its supervisor has it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Final

from benbi.cli import exits
from benbi.processes.ends import kill_group

_PIECE: Final = 65_536


class Child:
    """A worker in a process group of its own, and the line to it. Started by making it.

    ``mark``: what the ids of its workers begin with, once it has said so. ``worn``: why it should
    be replaced. ``ends``: the exit code that it has announced. ``killed``: its end is the
    supervisor's doing.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.mark = self.worn = ""
        self.database = ("", "")
        self.ends: int | None = None
        self.killed = self.too_large = False
        self.hung_up = False
        self.started = time.monotonic()
        self.line, there = socket.socketpair()
        with there:
            self._process = subprocess.Popen(
                # -P: a folder named benbi where it is started is not this package.
                [sys.executable, "-P", "-m", "benbi.cli.nested", settings["target"]],
                stdin=there.fileno(),
                process_group=0,
            )
        self.pid = self._process.pid
        self._rest = b""
        self.line.setblocking(False)
        self._say(json.dumps(settings))

    def hear(self) -> list[dict[str, Any]]:
        """What it has said since."""
        while not self.hung_up:
            try:
                piece = self.line.recv(_PIECE)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            self._rest += piece
            self.hung_up = not piece
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]

    def retire(self) -> None:
        """It claims nothing more and ends when what it runs has ended."""
        self._say("retire")

    def go_on(self) -> None:
        """It can not be replaced yet: it claims beyond its ``max_jobs`` meanwhile."""
        self._say("go on")

    def _say(self, line: str) -> None:
        try:
            self.line.sendall(line.encode() + b"\n")
        except OSError:
            # It has ended already.
            return

    def signal(self, number: int) -> None:
        """To the worker; a kill is for its whole group."""
        if number == signal.SIGKILL:
            kill_group(self.pid)
        else:
            self._process.send_signal(number)

    def end_group(self) -> int:
        """Kills whatever it has left behind; the number of the group."""
        kill_group(self.pid)
        return self.pid

    def done(self, code: int) -> bool:
        """True for the end of one that has drained; a task may end the process with 0, too."""
        return code == exits.DONE == self.ends

    def refused(self, code: int) -> bool:
        """True for the end of one that can not work as it is set. Once it works, such a code
        counts only where it was announced: a task may end the process with any."""
        return code == exits.USAGE and (not self.mark or self.ends == code)

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        return self._process.wait()
