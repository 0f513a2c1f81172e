"""Servers and workers as real processes, which can be killed and started again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.polling import wait_until

SECONDS = 30.0


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def listening(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Machine:
    """A folder with a database; what is started there ends with it."""

    folder: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'jobs.db'}"

    def start(self, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        """Starts Python with these words; its output is kept in the folder."""
        log = self.folder / f"process-{len(self.running)}.log"
        kept = {name: value for name, value in os.environ.items() if name[:6] != "BENBI_"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *words],
                cwd=self.folder,
                env={**kept, "BENBI_URL": self.url, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def start_server(self, *words: str, port: int, **environment: str) -> subprocess.Popen[bytes]:
        """As ``start``; returns once something listens at ``port``."""
        process = self.start(*words, **environment)

        def there() -> bool:
            assert process.poll() is None, f"the server ended:\n{self.output()}"
            return listening(port)

        wait_until(there, SECONDS, f"a server at port {port}")
        return process

    def start_worker(self, target: str) -> subprocess.Popen[bytes]:
        return self.start("-m", "benbi", "work", target)

    def output(self) -> str:
        """All that was printed so far."""
        logs = sorted(self.folder.glob("process-*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')}" for log in logs)

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait(SECONDS)


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    found = Machine(folder)
    try:
        yield found
    finally:
        found.end()
