"""A client of the MCP Tasks extension (SEP-2663), as small as it gets.

With ``Tasks()`` among its extensions, ``Client.call_tool`` of a slow tool waits by itself; with
``allow_claimed=True`` it hands over the task at once. Nothing here knows of the server: the
task's id is all it takes to find the call again, after any restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    Request,
    RequestParams,
    Result,
    SubscriptionFilter,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
)
from pydantic import BaseModel, ConfigDict, Field

FINAL = frozenset({"completed", "failed", "cancelled"})


class Task(BaseModel):
    """A task as the server describes it."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    task_id: str = Field(alias="taskId")
    status: str
    status_message: str | None = Field(None, alias="statusMessage")
    result: dict[str, Any] | None = None


class Created(Task, Result):
    """What a tool call is answered with when it became a task."""

    result_type: Literal["task"] = Field("task", alias="resultType")


class Got(Task, Result):
    """What ``tasks/get`` is answered with."""


class _TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")


class _GetTask(Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param = "taskId"  # copied into the header Mcp-Name


class Tasks(ClientExtension):
    """Tells the server that its answer may be a task."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Created, resolve=self._resolve),)

    async def _resolve(self, task: Created, context: ClaimContext) -> CallToolResult:
        return await result(context.session, task.task_id)


async def get(session: ClientSession, task_id: str) -> Got:
    """The task as it is now."""
    return await session.send_request(_GetTask(params=_TaskParams(taskId=task_id)), Got)


async def result(session: ClientSession, task_id: str) -> CallToolResult:
    """The tool's result, once there is one."""
    while True:
        # The answer to this request ends when the task does; until then it is a stream of pushes.
        wanted = SubscriptionFilter.model_validate({"taskIds": [task_id]})
        params = SubscriptionsListenRequestParams(notifications=wanted)
        with suppress(MCPError):
            await session.send_request(SubscriptionsListenRequest(params=params), Result)
        task = await get(session, task_id)
        if task.status in FINAL:
            return CallToolResult.model_validate(task.result or {"content": [], "isError": True})
