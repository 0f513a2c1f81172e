"""``benbi work``: worker processes; the first signal drains them, the second stops them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from benbi.cli.options import (
    AT_LEAST_ONE,
    DEFAULT,
    FLAG,
    Common,
    ModuleApp,
    loaded,
    names,
    seconds,
    size,
)
from benbi.cli.shift import Level, Shift, log_to_stderr, work_shift
from benbi.errors import ConfigurationError

Queues = Annotated[
    str | None, Parameter(help="Only these queues: gifts,mail. Default: those of its tasks.")
]
Slots = Annotated[
    int | None, Parameter(validator=AT_LEAST_ONE, help="So many jobs at the same time.")
]
Grace = Annotated[str, Parameter(help="How long running jobs may go on after a signal: 30, 2m.")]
LogLevel = Annotated[Level, Parameter(help="What is logged on stderr.")]
# Each takes a descriptor of the supervisor, and tens of MiB.
MOST_PROCESSES: Final = 500

Processes = Annotated[
    int | None,
    Parameter(
        validator=Number(gte=1, lte=MOST_PROCESSES),
        help="So many worker processes, each with its own slots, started again when they die.",
    ),
]
MaxJobs = Annotated[
    int | None,
    Parameter(
        validator=AT_LEAST_ONE, help="Replace a process that has run so many jobs by a new one."
    ),
]
MaxMemory = Annotated[
    str | None, Parameter(help="Replace a process that holds more memory than this: 512M, 2G.")
]
Once = Annotated[bool, FLAG, Parameter(help="End when there is nothing left to claim.")]
Reload = Annotated[
    bool, FLAG, Parameter(help="Start anew when a Python file changes: for development.")
]


def work(
    target: ModuleApp,
    /,
    *,
    queues: Queues = None,
    slots: Slots = None,
    grace: Grace = "30",
    processes: Processes = None,
    max_jobs: MaxJobs = None,
    max_memory: MaxMemory = None,
    once: Once = False,
    reload: Reload = False,
    log_level: LogLevel = "info",
    common: Common = DEFAULT,
) -> int:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C drains: no new jobs; running ones get the grace, the rest goes back to
    the queue. A second signal stops at once; what ran then is run again by another worker.
    """
    log_to_stderr(log_level)
    chosen, patience = names(queues), seconds(grace)
    if processes is None and max_jobs is None and max_memory is None and not reload:
        app = loaded(target, common).app
        return work_shift(Shift(app, chosen, slots, patience, once, common))
    if sys.platform == "win32":
        raise ConfigurationError("several or replaced worker processes need Linux or macOS")
    from benbi.cli.supervisor import Plan, Supervisor

    settings = {
        "target": target,
        "url": common.url,
        "queues": chosen,
        "slots": slots,
        "grace": patience,
        "once": once,
        "max_jobs": max_jobs,
        "log_level": log_level,
        "as_json": common.as_json,
        "debug": common.debug,
    }
    memory = None if max_memory is None else _memory(max_memory)
    watched = _watched_folders(target) if reload else ()
    return Supervisor(Plan(settings, processes or 1, patience, memory, once, watched)).run()


def _memory(text: str) -> int:
    """Raises ConfigurationError for less than a process holds before it has imported any tasks."""
    from benbi.processes.memory import resident_bytes

    most, least = size(text), resident_bytes(os.getpid())
    if most < least:
        raise ConfigurationError(
            f"--max-memory {text} is {most:,} bytes, and a worker holds at least "
            f"{least / 2**20:.0f} MiB before it runs anything; write 512M or 2G"
        )
    return most


def _watched_folders(target: str) -> tuple[Path, ...]:
    """Where the code lies, as far as that can be told without importing it."""
    place = Path(target.partition(":")[0])
    return tuple({Path.cwd(), place.resolve().parent} if place.parent.parts else {Path.cwd()})
