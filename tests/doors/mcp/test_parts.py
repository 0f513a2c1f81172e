"""The parts fit into a server that is there already: what it had stays, what it hides is told."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.client import Client
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

import benbi.mcp
from benbi import Benbi, ConfigurationError, Tool
from tests.doors.mcp.clients import TasksExtension, cancel, get, over, start
from tests.doors.mcp.gifts import register
from tests.support import wait_until_async
from tests.support.working import working


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return Benbi(str(tmp_path / "jobs.db"))


def body(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


JOB_TOOLS = ["benbi_job_status", "benbi_job_cancel", "benbi_job_answer", "benbi_job_list"]


async def test_extensions_and_middleware_of_ones_own_stay(app: Benbi) -> None:
    class Mine(Extension):
        identifier = "test.example/mine"

    seen: list[str] = []

    async def mine(ctx: Any, call_next: Any) -> Any:
        seen.append(ctx.method)
        return await call_next(ctx)

    parts = benbi.mcp.parts(app, extensions=[Mine()], middleware=[mine])
    server = MCPServer("mine", **parts)

    @server.tool()
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    async with app, Client(server) as client:
        assert await names(client) == ["greet", *JOB_TOOLS]
        greeted = await client.call_tool("greet", {"name": "World"})
        assert body(greeted) == {"result": "Hello, World!"}
    assert {"tools/list", "tools/call"} <= set(seen)


async def test_tasks_may_be_registered_after_the_server_was_made(app: Benbi) -> None:
    server = MCPServer("mine", **benbi.mcp.parts(app))
    async with app, Client(server) as client:
        assert await names(client) == JOB_TOOLS

        @app.task(tool=True)
        async def later() -> str:
            return "done"

        assert await names(client) == ["later", *JOB_TOOLS]
        async with working(app):
            assert body(await client.call_tool("later", {}))["result"] == "done"


async def test_a_tool_of_the_same_name_is_hidden_and_told(
    app: Benbi, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("mine", **benbi.mcp.parts(app))

    @server.tool(name="shouts")
    def _shouts(text: str) -> str:
        raise AssertionError("the durable one is called")

    register(app)
    async with app, working(app), Client(server) as client:
        with caplog.at_level(logging.WARNING, "benbi.mcp"):
            for _ in range(2):
                assert (await names(client)).count("shouts") == 1
        assert [record.message for record in caplog.records if "shouts" in record.message] == [
            "tool shouts is the server's own and durable: the durable one is called"
        ]
        assert body(await client.call_tool("shouts", {"text": "tea"}))["result"] == "TEA"


@asynccontextmanager
async def handing_over(app: Benbi, **options: Any) -> AsyncIterator[Client]:
    @app.task
    async def make_report(month: str) -> str:
        return f"report of {month}"

    server = MCPServer("mine", **benbi.mcp.parts(app))

    @server.tool()
    async def report(month: str, owner: str = "") -> CallToolResult:
        handle = await make_report.options(owner=owner).enqueue(month)
        return benbi.mcp.hand_over(handle)

    async with app, working(app), Client(server, **options) as client:
        yield client


async def test_a_tool_of_ones_own_hands_over_to_a_job(app: Benbi) -> None:
    async with handing_over(app) as client:
        found = body(await client.call_tool("report", {"month": "May"}))
        assert (found["state"], found["result"]) == ("completed", "report of May")
        # Its task is no tool, but the job answers to its id.
        look = await client.call_tool("benbi_job_status", {"job_id": found["jobId"]})
        assert body(look)["result"] == "report of May"


async def test_what_was_handed_over_is_a_task_for_who_declares_it(app: Benbi) -> None:
    async with handing_over(app, extensions=[TasksExtension()]) as client:
        task = await start(client, "report", {"month": "May"})
        done = await over(client, task.task_id)
        assert done.result is not None
        assert done.result["content"][0]["text"] == "report of May"


@pytest.mark.parametrize("options", [{}, {"extensions": [TasksExtension()]}])
async def test_only_the_callers_own_job_can_be_handed_over(
    app: Benbi, options: dict[str, Any]
) -> None:
    async with handing_over(app, **options) as client:
        refused = await client.call_tool("report", {"month": "May", "owner": "somebody"})
        assert isinstance(refused, CallToolResult)
        assert refused.is_error


async def test_a_doorway_offers_what_workers_have_published(app: Benbi, tmp_path: Path) -> None:
    elsewhere = register(Benbi(str(tmp_path / "jobs.db")))
    server = MCPServer("mine", **benbi.mcp.parts(app))
    async with app, Client(server, mode="legacy") as client:
        assert await names(client) == JOB_TOOLS
        unknown = await client.call_tool("shouts", {"text": "tea"})
        assert isinstance(unknown, CallToolResult)
        assert unknown.is_error

        async def published() -> bool:
            return "shouts" in await names(client)

        async with elsewhere, working(elsewhere):
            await wait_until_async(published, what="a worker has published its tasks")
            assert "hidden" not in await names(client)
            # Checked against the published schema: there is no code here.
            refused = await client.call_tool("shouts", {"text": 7})
            assert isinstance(refused, CallToolResult)
            assert refused.is_error
            assert body(await client.call_tool("shouts", {"text": "tea"}))["result"] == "TEA"


async def test_fastmcp_gets_the_same_tools_and_says_what_it_can_not(app: Benbi) -> None:
    register(app)
    server = benbi.mcp.attach(app, FastMCP("Gift Genius"))
    listed = {tool.name for tool in await server.list_tools()}
    assert {"find_gifts", "Gift_Genius_job_status"} <= listed
    with pytest.raises(ConfigurationError, match="one Tasks extension"):
        benbi.mcp.attach(app, server)


async def test_a_call_in_python_goes_the_plain_way(app: Benbi) -> None:
    server = benbi.mcp.attach(app, FastMCP("gifts"))

    @app.task(tool=Tool(wait=10))
    async def add(a: int, b: int) -> int:
        return a + b

    async with app, working(app):
        result = await server.call_tool("add", {"a": 1, "b": 2})
        assert result.structured_content is not None
        assert result.structured_content["result"] == 3


async def test_any_replica_answers_and_cancels(app: Benbi, tmp_path: Path) -> None:
    register(app)
    other = register(Benbi(str(tmp_path / "jobs.db")))
    one, another = (MCPServer("mine", **benbi.mcp.parts(replica)) for replica in (app, other))
    gate = {"gate": str(tmp_path / "gate")}
    async with (
        app,
        other,
        working(app),
        Client(one, extensions=[TasksExtension()]) as here,
        Client(another, extensions=[TasksExtension()]) as there,
    ):
        task = await start(here, "waits", gate)
        assert (await start(there, "waits", gate)).task_id == task.task_id
        assert (await get(there, task.task_id)).status == "working"
        await cancel(there, task.task_id)
        assert (await over(here, task.task_id)).status == "cancelled"


def test_a_server_of_ours_leaves_logging_as_it_is() -> None:
    code = """
import logging
import benbi.mcp
from benbi import Benbi
benbi.mcp.server(Benbi(":memory:"))
root = logging.getLogger()
print(root.handlers, root.level == logging.WARNING)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == "[] True\n"
