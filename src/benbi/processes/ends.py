"""How a process ended, in words, and the end of a whole group of them."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from functools import cache
from uuid import uuid4


def in_words(code: int) -> str:
    """What an exit code says, as in "the process …": a negative one is that of a signal."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed by {name}"


def kill_group(leader: int, number: int = 9) -> bool:
    """Sends a signal to the group that this process leads; False where none of it is left."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        # macOS says the latter of a group in which nobody is alive.
        return False
    return True


def end_own_group() -> None:
    """Kills this process and whatever it has started, if it leads its group."""
    if os.getpgrp() == os.getpid():
        with suppress(OSError):
            os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def process_mark() -> str:
    """What the ids of all workers in this process begin with; no other process has the same.

    Host and process number alone may be those of another container on the same file.
    """
    return _mark_of(os.getpid())


@cache
def _mark_of(pid: int) -> str:
    return f"{socket.gethostname()}-{pid}-{uuid4().hex[:8]}-"
