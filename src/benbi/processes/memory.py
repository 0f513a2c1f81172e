"""How much memory another process holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SECONDS = 2.0


def resident_bytes(pid: int) -> int:
    """Its resident memory; 0 where that can not be read."""
    try:
        if sys.platform == "linux":
            import resource

            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * resource.getpagesize()
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return int(told.stdout) * 1024
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return 0
