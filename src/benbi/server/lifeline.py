"""``python -m benbi.server.lifeline work module:app``: the command line, tied to a parent.

Standard input is the line: when the process at its other end closes it or dies, however
suddenly, this process is asked to stop, as by SIGTERM, and drains. Works on every platform,
and in a session of its own, which a host's signals to the parent's group do not reach.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from typing import Final

_PIECE: Final = 4_096


def main() -> None:
    # Tasks that read standard input must find it empty, not eat the line.
    line = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_hold, args=(line,), name="benbi-lifeline", daemon=True).start()
    sys.argv[0] = "benbi"
    runpy.run_module("benbi", run_name="__main__")


def _hold(line: int) -> None:
    try:
        while os.read(line, _PIECE):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
