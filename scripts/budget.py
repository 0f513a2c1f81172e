"""Runs a command and holds its seconds to .ci/budget.toml.

    scripts/budget.py NAME -- command argument ...

Exits with the command's code, or 1 when the command took longer than its budget. A command
that has taken twice its budget is ended, with all that it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

LAST_WORDS = 10  # seconds

BUDGET = Path(__file__).resolve().parent.parent / ".ci" / "budget.toml"


def budgets() -> dict[str, float]:
    """Seconds by name, suites and stages alike."""
    with BUDGET.open("rb") as file:
        table = tomllib.load(file)
    return {name: seconds for part in ("suites", "stages") for name, seconds in table[part].items()}


def run(command: list[str], limit: float) -> tuple[int, float]:
    """The command's exit code, and the seconds it took; it is ended after ``limit`` seconds."""
    started = time.monotonic()
    # A session of its own, so that whatever a stuck command has started can be ended too.
    process = subprocess.Popen(command, start_new_session=True)
    try:
        code = process.wait(timeout=limit)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        end(process)
        if isinstance(reason, KeyboardInterrupt):
            raise
        code = 124
    return code, time.monotonic() - started


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command and all that it started; it may first say what it was doing."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=LAST_WORDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(arguments: list[str]) -> int:
    if len(arguments) < 3 or arguments[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    name, command = arguments[0], arguments[2:]
    allowed = budgets().get(name)
    if allowed is None:
        print(f"budget: {name!r} has no seconds in .ci/budget.toml", file=sys.stderr)
        return 2
    code, seconds = run(command, 2 * allowed)
    print(f"budget: {name} took {seconds:.1f} s of {allowed:g}", flush=True)
    if code == 124:
        print(f"budget: {name} was ended at twice its budget", file=sys.stderr)
    elif code == 0 and seconds > allowed:
        print(f"budget: {name} went over its budget", file=sys.stderr)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
