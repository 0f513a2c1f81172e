"""Runs a command and holds its seconds to .ci/budget.toml.

    scripts/budget.py NAME -- command argument ...     one part of a run
    scripts/budget.py --whole                          the parts that were run, together

One part may borrow from another: over its share it is named, and what it took is kept in the file
that ``BUDGET_SPENT`` names. Only the whole has to keep within the sum of all shares: it is told
when it does not, and exits with 1 when it is over by half, which no noise explains. A part that
has taken three times its share is stuck and is ended, with all that it started. The shares are
seconds of a machine as fast as the file says; a slower one gets more.
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
STUCK = 3  # times its share
# One machine took 14, 20 and 36 s for the same checks within a day: neighbours, not us.
NOISE = 1.5

BUDGET = Path(__file__).resolve().parent.parent / ".ci" / "budget.toml"


def budgets() -> dict[str, float]:
    """Seconds by name, suites and stages alike."""
    with BUDGET.open("rb") as file:
        table = tomllib.load(file)
    return {name: seconds for part in ("suites", "stages") for name, seconds in table[part].items()}


def slowness() -> float:
    """How much longer this machine takes than the one that the shares were measured on, from 1."""
    with BUDGET.open("rb") as file:
        usual = tomllib.load(file)["machine"]["milliseconds"] / 1000
    return max(1.0, min(_work() for _ in range(5)) / usual)


def _work() -> float:
    began = time.perf_counter()
    table: dict[int, str] = {}
    for number in range(200_000):
        table[number & 1023] = str(number)
    return time.perf_counter() - began


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


def part(name: str, command: list[str]) -> int:
    share = budgets().get(name)
    if share is None:
        print(f"budget: {name!r} has no seconds in .ci/budget.toml", file=sys.stderr)
        return 2
    code, seconds = run(command, STUCK * share)
    if spent := os.environ.get("BUDGET_SPENT"):
        with Path(spent).open("a", encoding="utf-8") as file:
            file.write(f"{name} {seconds:.1f}\n")
    over = ": over its share" if seconds > share else ""
    print(f"budget: {name} took {seconds:.1f} s of {share:g}{over}", flush=True)
    if code == 124:
        print(f"budget: {name} was ended at {STUCK} times its share", file=sys.stderr)
    return code


def whole() -> int:
    lines = Path(os.environ["BUDGET_SPENT"]).read_text("utf-8").splitlines()
    spent = sum(float(line.split()[1]) for line in lines)
    allowed = sum(budgets().values()) * slowness()
    print(f"budget: the whole took {spent:.0f} s of {allowed:.0f}", flush=True)
    if spent > allowed:
        print("budget: the whole went over its budget", file=sys.stderr)
    return 1 if spent > NOISE * allowed else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--whole"]:
        return whole()
    if len(arguments) < 3 or arguments[1] != "--":
        print(__doc__, file=sys.stderr)
        return 2
    return part(arguments[0], arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
