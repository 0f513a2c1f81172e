"""The sentinel: outlives a process that is killed, only to end the groups it has started.

A signal at the parent's death (PR_SET_PDEATHSIG) ends one process and not what that one has
started, comes as well when the thread ends that forked, and is there on Linux only.

Run as a file, without benbi. Reads ``+123`` and ``-123`` from standard input, a line for each
group that began or ended. When its parent has died, which the end of the pipe says, or the number
of its parent where a forked process keeps the pipe open, it waits for at most the given seconds,
then kills the rest.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

PIECE = 4_096
INTERVAL = 0.02
LOOK_SECONDS = 0.5


def alive(groups: set[int]) -> set[int]:
    """The groups that still have somebody in them."""
    found: set[int] = set()
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, 0)
            found.add(group)
    return found


def next_piece(parent: int) -> bytes:
    """What the parent says next; empty when it is gone."""
    while not select.select([0], [], [], LOOK_SECONDS)[0]:
        if os.getppid() != parent:
            return b""
    return os.read(0, PIECE)


def main(parent: int, patience: float) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    rest = b""
    while piece := next_piece(parent):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    deadline = time.monotonic() + patience
    while (groups := alive(groups)) and time.monotonic() < deadline:
        time.sleep(INTERVAL)
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
