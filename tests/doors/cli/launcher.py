"""Starts ``benbi`` commands quickly: a process that has imported everything forks for each.

Each command is a process of its own, with its own files, folder, environment, signals and exit
code; only the time for starting Python is saved. Single-threaded on purpose: forking is safe.

Reads one JSON request a line: ``{"start": …}`` forks and answers the pid, ``{"wait": pid}``
answers the exit code, or null after ``seconds``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
import traceback
from typing import Any, NoReturn

import benbi.cli.config
import benbi.cli.db
import benbi.cli.doors
import benbi.cli.enqueue
import benbi.cli.entry
import benbi.cli.fleet
import benbi.cli.jobs
import benbi.cli.live
import benbi.cli.queues
import benbi.cli.sheet
import benbi.cli.stats
import benbi.cli.table
import benbi.cli.work
import benbi.cli.workers

with contextlib.suppress(ImportError):
    import benbi.server.http.server
    import benbi.server.mcp

POLL_SECONDS = 0.005


def next_command() -> dict[str, Any] | None:
    """Answers requests; returns a command to run in each child, None in the parent at the end."""
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            pid = os.fork()
            if pid == 0:
                return request["start"]
            answer: Any = pid
        else:
            answer = wait(request["wait"], request["seconds"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return None


def wait(pid: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)


def become(command: dict[str, Any]) -> None:
    """Makes this process what the command would have been, started by itself."""
    os.setsid()
    for number, (path, flags) in enumerate(
        (
            (command["stdin"], os.O_RDONLY),
            (command["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (command["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        )
    ):
        opened = os.open(path, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    # As for a console script: its own folder in front, not the working directory.
    sys.path[0] = os.path.dirname(sys.executable)
    sys.argv = ["benbi", *command["words"]]


def end(code: int) -> NoReturn:
    """Ends as the interpreter does, but without taking apart all that was imported."""
    threading._shutdown()  # pyright: ignore
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(command: dict[str, Any]) -> int:
    """The exit code of the command."""
    become(command)
    try:
        if command["code"]:
            exec(command["code"], {})
        else:
            benbi.cli.main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else bool(ending.code)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    requested = next_command()
    if requested is not None:
        end(run(requested))
