"""Named points at which a test may kill the process: ``BENBI_CRASH=after:finish.commit#3``.

``before`` and ``after`` a commit (after it, the reply has not been given yet); ``#3`` is the
third time that the point is reached. Without the variable nothing is looked at.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def crash_point() -> Callable[[str], None] | None:
    """What to call at each point, by the environment; None where no crash is asked for."""
    wanted = os.environ.get("BENBI_CRASH")
    if not wanted:
        return None
    name, _, count = wanted.partition("#")
    left = int(count or 1)

    def reached(point: str) -> None:
        nonlocal left
        if point != name:
            return
        left -= 1
        if left == 0:
            sys.stderr.write(f"BENBI_CRASH at {wanted}\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
