"""The real ``benbi`` command, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.polling import wait_until

SECONDS = 30.0
LAUNCHER = Path(__file__).with_name("launcher.py")


class Launcher:
    """The process that forks commands; see launcher.py."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=SECONDS)


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Started:
    """A command under way; what it prints is collected in files."""

    launcher: Launcher
    pid: int
    out: Path
    err: Path
    code: int | None = None

    def until(self, text: str) -> str:
        """Waits until it has printed ``text`` and returns all that it printed."""

        def printed() -> str:
            ended = self.poll() is not None
            both = self.out.read_text() + self.err.read_text()
            assert text in both or not ended, f"ended without {text!r}: {both}"
            return both if text in both else ""

        return wait_until(printed, SECONDS, f"{text!r} on the output")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def poll(self, seconds: float = 0) -> int | None:
        """The exit code; None while it runs."""
        if self.code is None:
            self.code = self.launcher.ask({"wait": self.pid, "seconds": seconds})
        return self.code

    def wait(self) -> int:
        """The exit code."""
        code = self.poll(SECONDS)
        assert code is not None, f"still running: {self.err.read_text()}"
        return code


@dataclass
class Command:
    """``benbi`` in ``folder``, on the database of that folder."""

    launcher: Launcher
    folder: Path
    started: list[Started] = field(default_factory=list[Started])

    def run(self, *words: str, stdin: str = "", **environment: str) -> Done:
        """Runs a command to its end."""
        found = self.start(*words, stdin=stdin, **environment)
        code = found.wait()
        return Done(code, found.out.read_text(), found.err.read_text())

    def read(self, *words: str) -> Any:
        """The JSON document that a command prints with ``--json``; it must end well."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def enqueue(self, *words: str) -> str:
        """Creates a job and returns its id."""
        done = self.run("enqueue", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self, *words: str, stdin: str = "", code: str = "", **environment: str) -> Started:
        """Starts a command, or ``code`` in its place, and does not wait for its end."""
        place = self.folder / f".command-{len(self.started)}"
        place.with_suffix(".in").write_text(stdin)
        out, err = place.with_suffix(".out"), place.with_suffix(".err")
        pid = self.launcher.ask(
            {
                "start": {
                    "words": words,
                    "code": code,
                    "folder": str(self.folder),
                    "environment": self.environment(environment),
                    "stdin": str(place.with_suffix(".in")),
                    "stdout": str(out),
                    "stderr": str(err),
                }
            }
        )
        found = Started(self.launcher, pid, out, err)
        self.started.append(found)
        # The child makes them, perhaps after this.
        out.touch()
        err.touch()
        return found

    def alone(self, *words: str, **environment: str) -> Done:
        """Runs a command in a fresh interpreter, as a shell would."""
        done = subprocess.run(
            [sys.executable, "-m", "benbi", *words],
            cwd=self.folder,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def environment(self, more: dict[str, str]) -> dict[str, str]:
        """The variables of a command: ours without what would change its output."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("BENBI_") and name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
        }
        return {**kept, "BENBI_URL": str(self.folder / "jobs.db"), **more}

    def end(self) -> None:
        """Ends whatever still runs."""
        for found in self.started:
            if found.poll() is None:
                found.send(signal.SIGKILL)
                found.wait()
