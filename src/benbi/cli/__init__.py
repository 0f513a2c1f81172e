"""The ``benbi`` command. Exit codes stand in ``benbi.cli.exits``."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits with its code."""
    tokens = sys.argv[1:]
    if tokens == ["--version"]:
        from benbi.version import __version__

        print(f"benbi {__version__}")
        return
    from benbi.cli import exits

    exits.open_streams()
    # Only now: cyclopts and rich take longer to import than all that --version needs.
    from benbi.cli.entry import run

    code = run(tokens)
    exits.flush_stderr()
    sys.exit(code)
