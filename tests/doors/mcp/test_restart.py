"""kill -9 of server and worker: the same client objects go on, and no step runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from tests.doors.mcp.clients import TasksExtension, get, listen, start
from tests.doors.mcp.processes import SECONDS, Machine, free_port, machine
from tests.support import wait_until_async

HERE = Path(__file__).parent
WORKER = f"{HERE / 'gifts.py'}:app"
# Where each kind of server has MCP, and the prefix of its job tools.
KINDS = {
    "mcpserver": ("/mcp", "gifts"),
    "fastmcp": ("/mcp", "gifts"),
    "fastapi": ("/jobs/mcp", "benbi"),
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path) as found:
        yield found


class Server:
    """A server that is killed and started again, with a worker beside it."""

    def __init__(self, here: Machine, kind: str) -> None:
        self._here = here
        self._kind = kind
        self._port = free_port()
        path, self.prefix = KINDS[kind]
        self.url = f"http://127.0.0.1:{self._port}{path}"
        self.start()

    def start(self) -> None:
        words = (str(HERE / "servers.py"), self._kind, str(self._port))
        self.processes = [
            self._here.start_worker(WORKER),
            self._here.start_server(*words, port=self._port),
        ]

    async def restart(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(SECONDS)
        await asyncio.to_thread(self.start)


class Job:
    """A job of a client without the extension."""

    def __init__(self, client: Client, prefix: str, answer: Any) -> None:
        self._client = client
        self._prefix = prefix
        self.now = body(answer)

    async def call(self, verb: str, **arguments: Any) -> None:
        look = {"job_id": self.now["jobId"], **arguments}
        self.now = body(await self._client.call_tool(f"{self._prefix}_job_{verb}", look))

    async def until(self, words: str) -> None:
        """Looks, each time for news, until the message has the words."""
        async with asyncio.timeout(SECONDS):
            while words not in self.now["message"]:
                await self.call("status", after_seq=self.now["seq"])


def body(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def count(folder: Path, who: str) -> dict[str, Any]:
    """Arguments of a count that goes on when the file ``gate`` is there."""
    return {"numbers": 3, "gate": str(folder / "gate"), "journal": str(folder / who)}


@pytest.mark.parametrize("kind", KINDS)
async def test_clients_of_both_revisions_go_on(here: Machine, kind: str) -> None:
    server = Server(here, kind)
    extension = TasksExtension()
    async with (
        Client(server.url, extensions=[extension]) as modern,
        Client(server.url, mode="legacy") as legacy,
    ):
        task = await start(modern, "count", count(here.folder, "modern"))
        answer = await legacy.call_tool("count", count(here.folder, "legacy"))
        job = Job(legacy, server.prefix, answer)

        async def counted_one() -> bool:
            return (await get(modern, task.task_id)).status_message == "1/3 counting"

        await wait_until_async(counted_one, SECONDS)
        await job.until("1/3 counting")
        await server.restart()
        if kind != "fastapi":
            # The tools that the server had before are still its own.
            greeted = await legacy.call_tool("greet", {"name": "World"})
            assert isinstance(greeted, CallToolResult)
            assert greeted.content[0].text == "Hello, World!"  # type: ignore[union-attr]
        (here.folder / "gate").touch()
        async with asyncio.timeout(SECONDS):
            await listen(modern, task.task_id)
        done = await get(modern, task.task_id)
        assert done.result is not None, here.output()
        assert done.result["structuredContent"]["result"] == [0, 1, 2]
        assert extension.pushed[-1].status == "completed"
        await job.until("completed")
        assert job.now["result"] == [0, 1, 2]
    for who in ("modern", "legacy"):
        assert (here.folder / who).read_text().split() == ["0", "1", "2"]


async def test_what_the_crash_cuts_is_lost_and_nothing_else(here: Machine) -> None:
    server = Server(here, "mcpserver")
    extension = TasksExtension()
    async with (
        Client(server.url, extensions=[extension]) as modern,
        Client(server.url, mode="legacy") as legacy,
    ):
        task = await start(modern, "count", count(here.folder, "modern"))
        job = Job(legacy, server.prefix, await legacy.call_tool("asks", {"what": "mug"}))
        look = asyncio.create_task(job.call("status", after_seq=job.now["seq"]))
        stream = asyncio.create_task(listen(modern, task.task_id))
        await wait_until_async(lambda: bool(extension.pushed), SECONDS)
        assert not look.done()
        await server.restart()
        for waiting in (look, stream):
            with pytest.raises(MCPError):
                async with asyncio.timeout(SECONDS):
                    await waiting
        await job.call("answer", answer=True)
        await job.until("completed")
        assert job.now["result"] == "sold"
        extension.pushed.clear()
        (here.folder / "gate").touch()
        async with asyncio.timeout(SECONDS):
            await listen(modern, task.task_id)
        assert extension.pushed[-1].status == "completed"
