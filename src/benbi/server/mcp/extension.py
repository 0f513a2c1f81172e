"""The Tasks extension and the tools for MCPServer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.extension import Extension, MethodBinding
from mcp_types import CallToolRequestParams, CallToolResult
from mcp_types.methods import serialize_server_result

from benbi.errors import BenbiError, JobNotFound
from benbi.server.mcp.envelope import refusal
from benbi.server.mcp.owner import current_owner
from benbi.server.mcp.wire import (
    MODERN,
    TASKS,
    TaskParams,
    UpdateParams,
    declared,
    missing_capability,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp.server.context import CallNext, HandlerResult

    from benbi.job import Job
    from benbi.server.mcp.door import Door, Report
    from benbi.server.mcp.offers import Offer
    from benbi.server.mcp.tasks import Tasks
    from benbi.server.mcp.wire import Caller, RequestContext

_log: Final = logging.getLogger("benbi.mcp")
# In the _meta of a plain result: the job that the tool handed its work over to.
HANDED_OVER: Final = "benbi/handedOver"


class DurableTasks(Extension):
    """Answers the calls of an app's durable tools: with a task, or with an envelope in time."""

    identifier = TASKS

    def __init__(self, door: Door, tasks: Tasks) -> None:
        self._door = door
        self._tasks = tasks

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._tasks.get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self._tasks.update, MODERN),
            MethodBinding("tasks/cancel", TaskParams, self._tasks.cancel, MODERN),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: RequestContext, call_next: CallNext
    ) -> HandlerResult:
        arguments = params.arguments or {}
        offer = await self._door.offers.find(params.name)
        if offer is not None and (created := await self.create(offer, arguments, ctx)) is not None:
            return created
        ours = await self._door.call(params.name, arguments, reporter(ctx))
        if ours is not None:
            return ours
        result = await call_next(ctx)
        meta = result.meta if isinstance(result, CallToolResult) else None
        taken_over = await self.taken_over(meta, ctx)
        return result if taken_over is None else taken_over

    async def create(
        self, offer: Offer, arguments: dict[str, Any], context: Caller
    ) -> dict[str, Any] | CallToolResult | None:
        """The task of a call that declares the extension, None for one that does not."""
        if declared(context):
            return await self._tasks.create(offer, arguments)
        if offer.required:
            raise missing_capability()
        return None

    async def taken_over(
        self, meta: Mapping[str, Any] | None, context: Caller
    ) -> dict[str, Any] | CallToolResult | None:
        """The job's own answer, where the ``_meta`` of a tool's result hands over to a job."""
        handed: dict[str, Any] | None = (meta or {}).get(HANDED_OVER)
        if handed is None:
            return None
        job_id, wait = handed["jobId"], handed["wait"]
        try:
            await self._door.app.get(job_id, owner=current_owner())
            if declared(context):
                return await self._tasks.seed(job_id)
            return await self._door.answer(job_id, wait=wait, report=reporter(context))
        except JobNotFound:
            _log.error("job %s is not the caller's; enqueue with owner=current_owner()", job_id)
            return refusal("the job of this call belongs to somebody else")
        except BenbiError as error:
            return refusal(str(error))


class ListedTools:
    """Middleware: adds the durable tools and the job tools to the server's own list."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._told: set[str] = set()

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        first_page = not (ctx.params or {}).get("cursor")
        if ctx.method != "tools/list" or not first_page or not isinstance(result, dict):
            return result
        tools = [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True)
            for tool in await self._door.tools()
        ]
        # What the client's revision does not know of a tool is left out, as for the server's own.
        ours = serialize_server_result(
            "tools/list", ctx.protocol_version, {**result, "tools": tools}
        )["tools"]
        names = {tool["name"] for tool in ours}
        theirs: list[dict[str, Any]] = []
        for tool in cast("list[dict[str, Any]]", result.get("tools", [])):
            if tool["name"] in names:
                self._tell(tool["name"])
            else:
                theirs.append(tool)
        return {**result, "tools": theirs + ours}

    def _tell(self, name: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _log.warning("tool %s is the server's own and durable: the durable one is called", name)


def reporter(context: Caller) -> Report:
    """Tells a waiting client of the job's progress, where the client asked for that."""
    told = float("-inf")

    async def report(job: Job) -> None:
        nonlocal told
        progress = job.progress
        # The protocol wants it to grow; a second attempt starts again from below.
        if progress is not None and progress.done > told:
            told = progress.done
            await context.session.report_progress(told, progress.total, progress.message or None)

    return report
