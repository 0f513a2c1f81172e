"""The Tasks extension and the tools in FastMCP's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from fastmcp.server.dependencies import get_context
from fastmcp.server.extensions import MethodBinding, ServerExtension
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import CallToolRequestParams, CallToolResult
from pydantic import PrivateAttr

from benbi.errors import ConfigurationError
from benbi.server.mcp.envelope import refusal
from benbi.server.mcp.extension import DurableTasks, reporter
from benbi.server.mcp.parts import pieces
from benbi.server.mcp.wire import TASKS, Created

if TYPE_CHECKING:
    from collections.abc import Sequence

    import mcp_types
    from fastmcp import FastMCP
    from fastmcp.server.context import Context
    from fastmcp.server.extensions import ToolCallContinuation, ToolCallOutcome
    from fastmcp.utilities.versions import VersionSpec

    from benbi.app import Benbi
    from benbi.server.mcp.door import Door


def add_to(server: FastMCP[Any], app: Benbi, prefix: str) -> None:
    """Adds the tools, the extension and the push to a FastMCP server."""
    made = pieces(app, prefix)
    try:
        server.add_extension(FastMCPTasks(made.door, DurableTasks(made.door, made.tasks)))
    except ValueError as error:
        raise ConfigurationError(
            f"{error} A server has one Tasks extension: leave the other one out"
        ) from error
    server.add_provider(DurableTools(made.door))
    # FastMCP has no public way to serve subscriptions/listen; without it clients poll.
    chain: list[Any] | None = getattr(getattr(server, "_mcp_server", None), "middleware", None)
    if chain is not None:
        chain.append(made.listening)


class FastMCPTasks(ServerExtension):
    """The Tasks extension: calls that declare it become tasks."""

    identifier = TASKS

    def __init__(self, door: Door, durable: DurableTasks) -> None:
        self._door = door
        self._durable = durable

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding(bound.method, bound.params_type, bound.handler, bound.protocol_versions)
            for bound in self._durable.methods()
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        request = context.request_context
        if request is None:
            # Called in Python, not by a client.
            return await call_next()
        offer = await self._door.offers.find(params.name)
        if offer is not None:
            created = await self._durable.create(offer, params.arguments or {}, request)
            if created is not None:
                return _outcome(created)
        outcome = await call_next()
        meta = outcome.meta if isinstance(outcome, ToolResult) else None
        taken_over = await self._durable.taken_over(meta, request)
        return outcome if taken_over is None else _outcome(taken_over)


class DurableTools(Provider):
    """The durable tools and the job tools, as the catalogue has them at each look."""

    def __init__(self, door: Door) -> None:
        super().__init__()
        self._door = door

    async def _list_tools(self) -> Sequence[Tool]:
        return [DurableTool.of(self._door, tool) for tool in await self._door.tools()]

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        found = (tool for tool in await self._door.tools() if tool.name == name)
        tool = next(found, None)
        return None if tool is None else DurableTool.of(self._door, tool)


class DurableTool(Tool):
    """One of the door's tools; a plain call of it."""

    _door: Door = PrivateAttr()

    @classmethod
    def of(cls, door: Door, tool: mcp_types.Tool) -> Self:
        made = cls(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            parameters=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=tool.annotations,
        )
        made._door = door
        return made

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        request = get_context().request_context
        report = None if request is None else reporter(request)
        result = await self._door.call(self.name, arguments, report)
        if result is None:
            result = refusal(f"{self.name} is not on offer any more")
        return ToolResult.from_mcp_result(result)


def _outcome(answer: dict[str, Any] | CallToolResult) -> ToolCallOutcome:
    if isinstance(answer, CallToolResult):
        return ToolResult.from_mcp_result(answer)
    return Created(answer)
