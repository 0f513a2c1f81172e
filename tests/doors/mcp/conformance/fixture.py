"""The server that the official suite expects: its tools, as tasks of an app and one inline.

benbi work fixture.py:app          the worker
python fixture.py PORT             the server
"""

from __future__ import annotations

import asyncio
import sys

from mcp.server.mcpserver import Context as ToolContext
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from pydantic import BaseModel

import benbi.mcp
from benbi import Benbi, Context, Tool

app = Benbi()
server = MCPServer("fixture", **benbi.mcp.parts(app, prefix="fixture"))

# Each call of the suite is meant to be a task of its own.
OPTIONAL = Tool(same_call_within=None)
REQUIRED = Tool(same_call_within=None, required=True)


class Confirmation(BaseModel):
    confirm: bool


class Name(BaseModel):
    name: str


@app.task(tool=OPTIONAL)
async def slow_compute(ctx: Context, seconds: float, label: str = "") -> str:
    pieces = 10
    for piece in range(pieces):
        await ctx.progress(piece, pieces, "computing")
        await asyncio.sleep(seconds / pieces)
    return f"computed {label}"


@app.task(tool=REQUIRED, retry=1)
async def failing_job() -> str:
    await asyncio.sleep(1)
    raise ValueError("this job always fails")


@app.task(tool=OPTIONAL, retry=1)
async def protocol_error_job() -> str:
    raise MCPError(code=-32_603, message="this job always panics")


@app.task(tool=OPTIONAL)
async def confirm_delete(ctx: Context, filename: str) -> str:
    answer = await ctx.ask(f"Delete {filename}?", Confirmation)
    return f"deleted {filename}" if answer.confirm else f"kept {filename}"


@app.task(tool=OPTIONAL)
async def multi_input(ctx: Context) -> str:
    async with asyncio.TaskGroup() as group:
        name = group.create_task(ctx.ask("Who are you?", Name, key="name"))
        sure = group.create_task(ctx.ask("Are you sure?", Confirmation, key="sure"))
    return f"{name.result().name}: {sure.result().confirm}"


@app.task
async def greet_later(name: str) -> str:
    return f"Hello, {name}!"


@server.tool()
def greet(name: str) -> str:
    return f"Hello, {name}!"


@server.tool()
async def test_tool_with_task(ctx: ToolContext) -> CallToolResult | InputRequiredResult:
    """Asks before it hands over to a job."""
    answer = (ctx.input_responses or {}).get("user_name")
    if not isinstance(answer, ElicitResult) or not answer.content:
        asked = ElicitRequestFormParams(
            message="What is your name?", requested_schema=Name.model_json_schema()
        )
        return InputRequiredResult(input_requests={"user_name": ElicitRequest(params=asked)})
    return benbi.mcp.hand_over(await greet_later.enqueue(str(answer.content["name"])))


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]))
