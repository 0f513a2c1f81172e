"""A job as a task of the extension ``io.modelcontextprotocol/tasks`` (SEP-2663).

The only module that knows the extension's words: experimental on the wire, so kept small.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, RootModel

from benbi.job import State
from benbi.server.mcp.describe import describe, poll_after, told
from benbi.server.mcp.envelope import final_result, open_questions
from benbi.server.mcp.questions import elicitation

if TYPE_CHECKING:
    from datetime import datetime

    from mcp.server.session import ServerSession

    from benbi.job import Job, Question

TASKS: Final = "io.modelcontextprotocol/tasks"
MODERN: Final = frozenset(MODERN_PROTOCOL_VERSIONS)

# Not the tool's doing: the call itself came to nothing, which is a protocol error.
_PROTOCOL_KINDS: Final = frozenset({"lost", "expired"})
_PROTOCOL_TYPES: Final = frozenset({"MCPError", "McpError"})

RequestContext = ServerRequestContext[Any, Any]
Wire = dict[str, Any]


class TaskParams(RequestParams):
    """Parameters of ``tasks/get`` and ``tasks/cancel``."""

    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Parameters of ``tasks/update``."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


class Note(BaseModel):
    """A notification of the extension. A plain dict keeps ``"ttlMs": null``, as the wire needs."""

    method: str
    params: dict[str, Any]


class Created(RootModel[dict[str, Any]]):
    """A result for frameworks that take none but models; keeps ``null`` likewise."""


class Caller(Protocol):
    """What every framework's request context has: who asks, and in which revision."""

    @property
    def session(self) -> ServerSession: ...

    @property
    def protocol_version(self) -> str: ...


def declared(context: Caller) -> bool:
    """True where this very request declares the extension: opting in is per request."""
    capabilities = context.session.client_capabilities
    extensions = capabilities.extensions if capabilities else None
    return context.protocol_version in MODERN and TASKS in (extensions or {})


def missing_capability() -> MCPError:
    """The error for a request that needs the extension and does not declare it."""
    return MCPError(
        code=MISSING_REQUIRED_CLIENT_CAPABILITY,
        message=f"this needs the extension {TASKS}: declare it in the request's capabilities",
        data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
    )


def not_found() -> MCPError:
    """Missing and foreign tasks look alike."""
    return MCPError(code=INVALID_PARAMS, message="Task not found")


def check_name(context: RequestContext, task_id: str) -> None:
    """Refuses a request whose ``Mcp-Name`` header names another task than its body.

    Raises:
        MCPError: HeaderMismatch. There is no header on stdio and in-process.
    """
    headers = getattr(context.request, "headers", None)
    name = headers.get(MCP_NAME_HEADER) if headers is not None else None
    if name is not None and decode_header_value(name) != task_id:
        raise MCPError(code=HEADER_MISMATCH, message="Mcp-Name does not match params.taskId")


def seed(job: Job, *, updated_at: datetime) -> Wire:
    """The result of a ``tools/call`` that became a task."""
    return {"resultType": "task", **_task(job, updated_at)}


def detailed(
    job: Job,
    *,
    updated_at: datetime,
    result_json: str | None,
    elicits: bool,
) -> Wire:
    """The whole task, as ``tasks/get`` answers and ``notifications/tasks`` pushes it.

    ``elicits`` is whether the client can be asked.
    """
    body = _task(job, updated_at)
    match status_of(job):
        case "input_required" if not elicits:
            # Who can not be asked must not be handed a question; another door may answer it.
            body["status"] = "working"
        case "input_required":
            asked = open_questions(job)
            body["inputRequests"] = {input_key(job, one): elicitation(one) for one in asked}
        case "completed":
            result = final_result(job, result_json)
            body["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        case "failed":
            message = told(job.error) if job.error else describe(job)
            body["error"] = {"code": INTERNAL_ERROR, "message": message}
        case _:
            pass
    return body


def input_key(job: Job, question: Question) -> str:
    """The key of a question on the wire, where no key may be used twice in a task's life."""
    if job.generation == 1:
        return question.key
    return f"{question.key}~{job.generation}"


def status_of(job: Job) -> str:
    """The wire's word for where a job is.

    A task that raised is ``completed`` with an error result; ``failed`` is only for what the
    protocol calls an error.
    """
    match job.state:
        case State.INPUT_REQUIRED:
            return "input_required" if open_questions(job) else "working"
        case State.COMPLETED | State.SKIPPED:
            return "completed"
        case State.CANCELED:
            return "cancelled"
        case State.FAILED:
            return "failed" if _is_protocol_error(job) else "completed"
        case _:
            return "working"


def _is_protocol_error(job: Job) -> bool:
    error = job.error
    if error is None:
        return True
    return error.kind in _PROTOCOL_KINDS or error.type.rpartition(".")[2] in _PROTOCOL_TYPES


def _task(job: Job, updated_at: datetime) -> Wire:
    body: Wire = {
        "taskId": job.id,
        "status": status_of(job),
        "statusMessage": describe(job),
        "createdAt": job.created_at.isoformat(),
        "lastUpdatedAt": updated_at.isoformat(),
        "ttlMs": _ttl(job),
    }
    poll = poll_after(job)
    if poll is not None:
        body["pollIntervalMs"] = poll
    return body


def _ttl(job: Job) -> int | None:
    """Milliseconds from the task's creation until it may be gone; a live job never goes."""
    kept_until = job.kept_until
    if kept_until is None:
        return None
    return max(1, round((kept_until - job.created_at).total_seconds() * 1_000))
