"""The demo's processes: started in groups of their own, read while they talk, ended for certain."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

READY_SECONDS = 60.0


class Died(RuntimeError):
    """A process ended before it was ready; the message has its last lines."""


class Process:
    """One child process. ``lines`` holds what it said, which its log file keeps too."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, ready: str, log: Path
    ) -> None:
        self.name = name
        self.log = log
        self.lines: list[str] = []
        self._process = process
        self._ready_text = ready
        self._ready = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls,
        name: str,
        command: list[str],
        *,
        ready: str,
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
    ) -> Process:
        """Starts it in ``folder`` and waits until it says a line with ``ready`` in it."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        started = cls(name, process, ready, log)
        try:
            await started._until_ready()
        except BaseException:
            await started.end()
            raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    async def kill(self) -> int:
        """SIGKILL: no goodbye, no clean-up. Returns what the system says it died of (-9)."""
        os.kill(self.pid, signal.SIGKILL)
        return await self._process.wait()

    async def end(self) -> None:
        """Ends the whole group, whatever state it is in."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading

    async def _until_ready(self) -> None:
        async with asyncio.timeout(READY_SECONDS):
            await self._ready.wait()
        if not any(self._ready_text in line for line in self.lines):
            said = "\n".join(self.lines[-8:]) or "nothing"
            raise Died(f"{self.name} did not start. It said:\n{said}")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with self.log.open("a", encoding="utf-8") as log:
            async for line in self._process.stdout:
                text = line.decode(errors="replace").rstrip()
                self.lines.append(text)
                log.write(text + "\n")
                log.flush()
                if self._ready_text in text:
                    self._ready.set()
        # It will say no more: whoever waits for it has to know.
        self._ready.set()


def benbi(*arguments: str) -> list[str]:
    """The ``benbi`` command of this very Python."""
    return [sys.executable, "-m", "benbi", *arguments]


def free_port() -> int:
    """A port of the loopback address that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
