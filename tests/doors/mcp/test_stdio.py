"""``benbi mcp`` as a host starts it: bare environment, folder ``/``, a worker beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import CallToolResult

import benbi.mcp
from benbi import Benbi, State
from tests.doors.mcp.clients import TasksExtension, over, reached, start
from tests.doors.mcp.processes import SECONDS
from tests.support import wait_until, wait_until_async
from tests.support.working import state_reached

GIFTS = Path(__file__).with_name("gifts.py")
TARGET = f"{GIFTS}:app"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def app(url: str) -> Benbi:
    """The database of the server, seen from outside."""
    return Benbi(url)


@pytest.fixture(autouse=True)
def nobody_stays(url: str) -> Iterator[None]:
    yield
    wait_until(lambda: not workers(url), SECONDS, "every worker has ended")


def host(url: str, *options: str) -> StdioServerParameters:
    """What the host's configuration file says."""
    entry = benbi.mcp.host_config(TARGET, "gifts", url=url, options=options)["mcpServers"]["gifts"]
    # Hosts start servers in a folder of their own choice.
    return StdioServerParameters(
        command=entry["command"], args=entry["args"], env=entry["env"], cwd="/"
    )


def workers(url: str) -> list[int]:
    """The worker processes on this database."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, NotADirectoryError):
            continue
        if b"work" in command and f"BENBI_URL={url}".encode() in environment:
            found.append(int(folder.name))
    return found


def waiting(tmp_path: Path) -> dict[str, Any]:
    journal = str(tmp_path / "journal")
    return {"numbers": 3, "gate": str(tmp_path / "gate"), "journal": journal}


pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


async def test_a_host_calls_a_tool_and_the_worker_beside_it_runs_the_job(url: str) -> None:
    async with Client(host(url), extensions=[TasksExtension()]) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "gifts_job_status" in names or "benbi_job_status" in names
        task = await start(client, "find_gifts", {"household": 17})
        done = await over(client, task.task_id, SECONDS)
        assert done.status == "completed"


async def test_an_older_host_does_the_same_with_plain_tools(url: str) -> None:
    async with Client(host(url), mode="legacy") as client:
        found = await client.call_tool("shouts", {"text": "tea"})
        assert isinstance(found, CallToolResult)
        assert found.structured_content["result"] == "TEA"


async def test_the_worker_is_let_go_when_the_host_leaves(
    app: Benbi, url: str, tmp_path: Path
) -> None:
    async with Client(host(url), extensions=[TasksExtension()]) as client:
        task = await start(client, "count", waiting(tmp_path))
        await until_counting(app, task.task_id)
        assert len(workers(url)) == 1
    # It drains: the job goes on when the host comes back.
    (tmp_path / "gate").touch()
    async with Client(host(url), extensions=[TasksExtension()]) as client:
        assert (await over(client, task.task_id, SECONDS)).status == "completed"
    assert (tmp_path / "journal").read_text().split() == ["0", "1", "2"]


async def test_the_worker_stops_when_the_server_is_killed(
    app: Benbi, url: str, tmp_path: Path
) -> None:
    parameters = host(url)
    server = subprocess.Popen(
        [parameters.command, *parameters.args],
        env={"PATH": os.environ["PATH"], **(parameters.env or {})},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: workers(url), SECONDS, "a worker")
        server.send_signal(signal.SIGKILL)
    finally:
        server.kill()
        server.communicate(timeout=SECONDS)
    wait_until(lambda: not workers(url), SECONDS, "the worker has ended")


async def test_keep_working_lets_the_running_job_end(app: Benbi, url: str, tmp_path: Path) -> None:
    async with Client(host(url, "--keep-working"), extensions=[TasksExtension()]) as client:
        task = await start(client, "count", waiting(tmp_path))
        await until_counting(app, task.task_id)
    assert len(workers(url)) == 1
    (tmp_path / "gate").touch()
    async with app:
        job = await state_reached(app, task.task_id, State.COMPLETED, SECONDS)
    assert job.attempt == 1


async def test_without_a_worker_jobs_wait(app: Benbi, url: str) -> None:
    async with Client(host(url, "--no-worker"), extensions=[TasksExtension()]) as client:
        task = await start(client, "shouts", {"text": "tea"})
        assert (await reached(client, task.task_id, ("working",))).status_message == "queued"
        assert workers(url) == []


async def test_a_dead_worker_is_replaced(app: Benbi, url: str) -> None:
    async with Client(host(url), extensions=[TasksExtension()]) as client:
        await wait_until_async(lambda: bool(workers(url)), SECONDS, "a worker")
        (first,) = workers(url)
        os.kill(first, signal.SIGKILL)
        task = await start(client, "shouts", {"text": "tea"})
        assert (await over(client, task.task_id, SECONDS)).status == "completed"


def test_what_a_host_needs_is_printed(url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benbi", "mcp", TARGET, "--name", "gifts", "--print-config"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "BENBI_URL": url},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)["mcpServers"]["gifts"]
    assert entry["command"] == sys.executable
    assert entry["args"][:4] == ["-m", "benbi", "mcp", TARGET]
    assert entry["cwd"] == str(tmp_path)
    assert entry["env"]["BENBI_URL"] == url


async def until_counting(app: Benbi, job_id: str) -> None:
    """Waits until the job has recorded its first step."""

    async def recorded() -> bool:
        events = await app.events(job_id)
        return any(event.type == "step_completed" for event in events)

    async with app:
        await wait_until_async(recorded, SECONDS, "the first step")
