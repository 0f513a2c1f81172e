"""An MCP client that speaks the Tasks extension, and one for each protocol revision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
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

TASKS = "io.modelcontextprotocol/tasks"
OVER = ("completed", "failed", "cancelled")
LEGACY = "2025-11-25"
MODERN = "2026-07-28"


class Task(BaseModel):
    """A task as it came over the wire."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    task_id: str = Field(alias="taskId")
    status: str
    status_message: str | None = Field(None, alias="statusMessage")
    created_at: str = Field(alias="createdAt")
    last_updated_at: str = Field(alias="lastUpdatedAt")
    ttl_ms: int | None = Field(alias="ttlMs")
    poll_interval_ms: int | None = Field(None, alias="pollIntervalMs")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    # A claim model may not name this field on the wire, so it stays among the extras.

    @property
    def input_requests(self) -> dict[str, Any]:
        return (self.model_extra or {}).get("inputRequests", {})


class Created(Task, Result):
    result_type: Literal["task"] = Field("task", alias="resultType")


class Got(Task, Result):
    pass


class TaskParams(RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


class GetTask(Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class CancelTask(Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class UpdateTask(Request[UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams
    name_param = "taskId"


@dataclass
class TasksExtension(ClientExtension):
    """Collects what is pushed; ``on_push`` is told of each."""

    identifier = TASKS
    pushed: list[Task] = field(default_factory=list[Task])
    on_push: Callable[[Task], None] = lambda _: None

    def claims(self) -> tuple[ResultClaim[Any], ...]:
        return (ResultClaim(result_type="task", model=Created, resolve=self._resolve),)

    def notifications(self) -> tuple[NotificationBinding[Any], ...]:
        return (
            NotificationBinding(
                method="notifications/tasks", params_type=Task, handler=self._pushed
            ),
        )

    async def _pushed(self, task: Task) -> None:
        self.pushed.append(task)
        self.on_push(task)

    async def _resolve(self, task: Created, context: ClaimContext) -> CallToolResult:
        while True:
            request = GetTask(params=TaskParams(taskId=task.task_id))
            found = await context.session.send_request(request, Got)
            if found.status in OVER:
                return CallToolResult.model_validate(found.result)
            await asyncio.sleep(0.05)


async def start(client: Client, name: str, arguments: dict[str, Any]) -> Task:
    """Calls a tool and returns the task it became."""
    created = await client.session.call_tool(name, arguments, allow_claimed=True)
    assert isinstance(created, Created), created
    return created


async def get(client: Client, task_id: str) -> Task:
    return await client.session.send_request(GetTask(params=TaskParams(taskId=task_id)), Got)


async def cancel(client: Client, task_id: str) -> Result:
    return await client.session.send_request(CancelTask(params=TaskParams(taskId=task_id)), Result)


async def update(client: Client, task_id: str, responses: dict[str, Any]) -> Result:
    params = UpdateParams(taskId=task_id, inputResponses=responses)
    return await client.session.send_request(UpdateTask(params=params), Result)


async def listen(client: Client, *task_ids: str, **more: Any) -> Result:
    """Listens to tasks; returns when the server ends the stream."""
    wanted = SubscriptionFilter.model_validate({"taskIds": list(task_ids), **more})
    params = SubscriptionsListenRequestParams(notifications=wanted)
    return await client.session.send_request(SubscriptionsListenRequest(params=params), Result)


async def over(client: Client, task_id: str, seconds: float = 15.0) -> Task:
    """The task once it is over."""
    return await reached(client, task_id, OVER, seconds)


async def reached(
    client: Client, task_id: str, statuses: tuple[str, ...], seconds: float = 15.0
) -> Task:
    """The task once it is in one of the statuses."""
    async with asyncio.timeout(seconds):
        while (task := await get(client, task_id)).status not in statuses:
            await asyncio.sleep(0.05)
        return task


def accept(**content: Any) -> dict[str, Any]:
    """The response of a person who filled in the form."""
    return {"action": "accept", "content": content}
