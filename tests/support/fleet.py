"""Worker processes that a test starts, kills and ends."""

from __future__ import annotations

import importlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi

WORK = (sys.executable, "-m", "benbi", "work", "tests.crash.plant:app")
# Of a worker that is told to end.
GRACE = 3.0
# What it may take beyond it: the machine may be busy.
LATE = 25.0


@dataclass(eq=False)
class Member:
    """One worker process, and where it logs."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")


@dataclass
class Fleet:
    """Workers of plant.py on one database. ``landed`` counts kills of one that ran a job."""

    folder: Path
    environment: dict[str, str]
    members: list[Member] = field(default_factory=list)
    started: list[Member] = field(default_factory=list)
    kills: int = 0
    landed: int = 0

    def start(self, **environment: str) -> Member:
        log = self.folder / f"worker-{len(self.started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*WORK, "--grace", str(GRACE)],
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        member = Member(process, log)
        self.members.append(member)
        self.started.append(member)
        return member

    async def kill_one(self, app: Benbi, choice: random.Random) -> None:
        """Kills one worker that runs a job, if there is one, and starts another."""
        at_work = await self.at_work(app)
        self.kill(choice.choice(at_work or self.members), at_work)
        self.start()

    def kill(self, member: Member, at_work: list[Member]) -> None:
        member.process.send_signal(signal.SIGKILL)
        member.process.wait()
        self.kills += 1
        self.landed += member in at_work
        self.members.remove(member)

    async def at_work(self, app: Benbi) -> list[Member]:
        """Those that run a job."""
        busy = {worker.pid for worker in await app.workers() if worker.running}
        return [member for member in self.members if member.pid in busy]

    def end(self, *only: Member) -> list[int]:
        """Ends them, or some of them; the exit codes. Whatever the database does, they end."""
        ending = list(only or self.members)
        for member in ending:
            member.process.send_signal(signal.SIGTERM)
            self.members.remove(member)
        return [member.process.wait(timeout=GRACE + LATE) for member in ending]

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """The module of the tasks, in this process."""
        for name, value in self.environment.items():
            if name.startswith("CRASH_"):
                monkeypatch.setenv(name, value)
        # Anew for each test: its app belongs to one database.
        sys.modules.pop("tests.crash.plant", None)
        return importlib.import_module("tests.crash.plant")


@contextmanager
def fleet_on(database: str, folder: Path, slots: int, **environment: str) -> Iterator[Fleet]:
    """``environment``: what else plant.py asks for. Whoever still runs at the end is killed."""
    traces = folder / "traces"
    traces.mkdir()
    told = {"CRASH_DB": database, "CRASH_TRACES": str(traces), "CRASH_SLOTS": str(slots)}
    fleet = Fleet(folder, os.environ | told | environment)
    try:
        yield fleet
    finally:
        for member in fleet.started:
            if member.process.poll() is None:
                member.process.kill()
                member.process.wait()
