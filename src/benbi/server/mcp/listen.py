"""Push: ``subscriptions/listen`` with ``taskIds``, fed by the job's own event log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenResult,
)

from benbi.errors import JobNotFound
from benbi.server.mcp.owner import current_owner
from benbi.server.mcp.wire import MODERN, Note, declared, missing_capability

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.session import ServerSession
    from mcp_types import RequestId

    from benbi.app import Benbi
    from benbi.job import Job
    from benbi.server.mcp.tasks import Tasks
    from benbi.server.mcp.wire import RequestContext

MOST_TASKS: Final = 100
MOST_STREAMS: Final = 1_000
# A change wakes at once; this only bounds how long a vanished job is believed to be there.
LOOK_AGAIN: Final = 60.0


class Listening:
    """Serves the ``taskIds`` of a ``subscriptions/listen``; all else goes on to the server."""

    def __init__(self, app: Benbi, tasks: Tasks) -> None:
        self._app = app
        self._tasks = tasks
        self._streams = 0

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """The middleware."""
        wanted = _task_ids(ctx)
        if wanted is None or ctx.protocol_version not in MODERN or ctx.request_id is None:
            return await call_next(ctx)
        if not declared(ctx):
            raise missing_capability()
        if len(wanted) > MOST_TASKS:
            raise MCPError(code=INVALID_PARAMS, message=f"at most {MOST_TASKS} taskIds a stream")
        if self._streams >= MOST_STREAMS:
            raise MCPError(code=INTERNAL_ERROR, message="too many open streams; poll tasks/get")
        self._streams += 1
        try:
            return await self._serve(ctx, wanted, call_next)
        finally:
            self._streams -= 1

    async def _serve(
        self, context: RequestContext, wanted: list[str], call_next: CallNext
    ) -> HandlerResult:
        jobs = [job for task_id in dict.fromkeys(wanted) if (job := await self._find(task_id))]
        stream = _Stream(context, [job.id for job in jobs])
        async with anyio.create_task_group() as group:
            if _wants_more(context):
                # The server's own stream acknowledges for both, then both kinds go out.
                context = _with_session(context, stream)
                group.start_soon(self._follow_all, context, stream, jobs)
                result = await call_next(context)
                group.cancel_scope.cancel()
                return result
            await stream.acknowledge(None)
            await self._follow_all(context, stream, jobs)
        return SubscriptionsListenResult(_meta=stream.meta)

    async def _follow_all(self, context: RequestContext, stream: _Stream, jobs: list[Job]) -> None:
        await stream.acknowledged.wait()
        async with anyio.create_task_group() as group:
            for job in jobs:
                group.start_soon(self._follow, context, stream, job)

    async def _follow(self, context: RequestContext, stream: _Stream, job: Job) -> None:
        """Sends the task as it is, then again after each change until it is over."""
        owner = current_owner()
        sent: tuple[Any, ...] | None = None
        try:
            while True:
                seen = (job.seq, job.progress, job.cancel_requested)
                if seen != sent:
                    await stream.send("notifications/tasks", await self._tasks.whole(context, job))
                    sent = seen
                if job.final:
                    return
                job = await self._app.wait_for_change(
                    job.id, after=job.seq, timeout=LOOK_AGAIN, owner=owner
                )
        except JobNotFound:
            return

    async def _find(self, task_id: str) -> Job | None:
        try:
            return await self._app.get(task_id, owner=current_owner())
        except JobNotFound:
            return None


class _Stream:
    """The notifications of one subscription, each stamped with the subscription's id."""

    def __init__(self, context: RequestContext, task_ids: list[str]) -> None:
        self.session = context.session
        self.acknowledged = anyio.Event()
        self._request_id = cast("RequestId", context.request_id)
        self.meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: self._request_id}
        self._task_ids = task_ids

    async def acknowledge(self, honored: dict[str, Any] | None) -> None:
        notifications = {**(honored or {}), "taskIds": self._task_ids}
        await self.send(
            "notifications/subscriptions/acknowledged", {"notifications": notifications}
        )
        self.acknowledged.set()

    async def send(self, method: str, params: dict[str, Any]) -> None:
        note = Note(method=method, params={**params, "_meta": self.meta})
        # Without the related request it would leave on another channel.
        await self.session.send_notification(cast("Any", note), related_request_id=self._request_id)


class _Acknowledging:
    """A session whose acknowledgement of a subscription names the tasks too."""

    def __init__(self, session: ServerSession, stream: _Stream) -> None:
        self._session = session
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: Any, related_request_id: RequestId | None = None
    ) -> None:
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            honored = notification.params.notifications
            await self._stream.acknowledge(honored.model_dump(by_alias=True, exclude_none=True))
            return
        await self._session.send_notification(notification, related_request_id)


def _with_session(context: RequestContext, stream: _Stream) -> RequestContext:
    return replace(context, session=cast("Any", _Acknowledging(context.session, stream)))


def _filter(context: RequestContext) -> dict[str, Any]:
    found = (context.params or {}).get("notifications")
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _task_ids(context: RequestContext) -> list[str] | None:
    """The tasks that the request asks for, None where it is another request."""
    if context.method != "subscriptions/listen":
        return None
    found = _filter(context).get("taskIds")
    if not isinstance(found, list) or not found:
        return None
    listed = cast("list[Any]", found)
    if not all(isinstance(item, str) for item in listed):
        raise MCPError(code=INVALID_PARAMS, message="taskIds must be strings")
    return cast("list[str]", listed)


def _wants_more(context: RequestContext) -> bool:
    """True where the stream carries other notifications than those of tasks."""
    return any(value for key, value in _filter(context).items() if key != "taskIds")
