"""What the chapters start from: an app with a file of its own, and worker processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from benbi import Benbi

HERE = Path(__file__).parent

StartWorker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where ``Benbi()`` keeps its jobs, here and in the processes that are started."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    monkeypatch.setenv("BENBI_URL", url)
    return url


@pytest.fixture
def start_worker(url: str) -> Iterator[StartWorker]:
    """Starts ``benbi work shop:app`` with further options, as you would in a shell."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "benbi", "work", "shop:app", *options]
        started.append(subprocess.Popen(command, cwd=HERE, stdin=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
