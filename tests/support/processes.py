"""Processes that tests start and look for."""

from __future__ import annotations

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """True while it runs: one that has ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def pids_in(folder: Path) -> set[int]:
    """The numbers that jobs have left as the names of files."""
    return {int(path.name) for path in folder.iterdir()}


def leave_pid(folder: str, pid: int) -> None:
    """Leaves a number for ``pids_in``."""
    Path(folder, str(pid)).touch()
