"""The Tasks extension over an app, apart from the server framework that carries it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from benbi.errors import AnswerRefused, BenbiError, JobNotFound, NotPermitted, Refused
from benbi.server.mcp.envelope import open_questions, refusal
from benbi.server.mcp.looks import result_of
from benbi.server.mcp.owner import current_owner
from benbi.server.mcp.questions import answer_from, takes_null
from benbi.server.mcp.wire import (
    TaskParams,
    UpdateParams,
    check_name,
    declared,
    detailed,
    input_key,
    missing_capability,
    not_found,
    seed,
)

if TYPE_CHECKING:
    from datetime import datetime

    from mcp_types import CallToolResult

    from benbi.job import Job, Question
    from benbi.server.mcp.door import Door
    from benbi.server.mcp.offers import Offer
    from benbi.server.mcp.wire import RequestContext, Wire

_log: Final = logging.getLogger("benbi.mcp")
_DONE: Final = {"resultType": "complete"}


class Tasks:
    """``tasks/get``, ``tasks/update``, ``tasks/cancel``, and calls that become tasks."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._app = door.app

    async def create(self, offer: Offer, arguments: Mapping[str, Any]) -> Wire | CallToolResult:
        """The task of this call, on disk before it is answered; a refusal is a plain result."""
        try:
            job = await self._door.start(offer, arguments)
        except Refused as error:
            return refusal(str(error))
        return await self.seed(job.id)

    async def seed(self, job_id: str) -> Wire:
        """What a ``tools/call`` answers for a job that is on disk."""
        job = await self._own(job_id)
        return seed(job, updated_at=await self._updated_at(job))

    async def get(self, context: RequestContext, params: TaskParams) -> Wire:
        self._admit(context, params)
        job = await self._own(params.task_id)
        return {**_DONE, **await self.whole(context, job)}

    async def update(self, context: RequestContext, params: UpdateParams) -> Wire:
        self._admit(context, params)
        job = await self._own(params.task_id)
        asked = {input_key(job, question): question for question in open_questions(job)}
        problems: list[str] = []
        for key, response in params.input_responses.items():
            # Answered, superseded and unknown keys are to be ignored.
            if key in asked:
                problem = await self._respond(job, asked[key], response)
                problems += [f"{key}: {problem}"] if problem else []
        if problems:
            raise MCPError(code=INVALID_PARAMS, message="; ".join(problems))
        return dict(_DONE)

    async def cancel(self, context: RequestContext, params: TaskParams) -> Wire:
        self._admit(context, params)
        await self._own(params.task_id)
        await self._cancel(params.task_id, "by the client")
        return dict(_DONE)

    async def whole(self, context: RequestContext, job: Job) -> Wire:
        """The task in full, for this client."""
        capabilities = context.session.client_capabilities
        return detailed(
            job,
            updated_at=await self._updated_at(job),
            result_json=await result_of(self._app, job),
            elicits=bool(capabilities and capabilities.elicitation),
        )

    def _admit(self, context: RequestContext, params: TaskParams) -> None:
        if not declared(context):
            raise missing_capability()
        check_name(context, params.task_id)

    async def _own(self, task_id: str) -> Job:
        try:
            return await self._app.get(task_id, owner=current_owner())
        except JobNotFound:
            raise not_found() from None
        except BenbiError as error:
            raise MCPError(code=INTERNAL_ERROR, message=str(error)) from error

    async def _respond(self, job: Job, question: Question, response: Any) -> str | None:
        """Takes one elicitation's response; returns what is wrong with it."""
        fields = cast("Mapping[str, Any]", response if isinstance(response, Mapping) else {})
        match fields.get("action"):
            case "accept":
                try:
                    value = answer_from(question, fields.get("content") or {})
                except ValueError as error:
                    return str(error)
                return await self._answer(job, question, value)
            case "decline" if takes_null(question):
                return await self._answer(job, question, None)
            case "decline":
                await self._cancel(job.id, f"declined: {question.prompt}")
                return None
            case "cancel":
                # Dismissed without a choice: the question stays open, on every door.
                return None
            case action:
                return f"action must be accept, decline or cancel, not {action!r}"

    async def _answer(self, job: Job, question: Question, value: Any) -> str | None:
        owner = current_owner()
        try:
            await self._app.answer(job.id, value, question=question.key, owner=owner, by=owner)
        except (AnswerRefused, NotPermitted) as error:
            # Somebody else was first: an answered key is to be ignored.
            now = await self._own(job.id)
            still_open = question.key in {left.key for left in open_questions(now)}
            return str(error) if still_open else None
        return None

    async def _cancel(self, job_id: str, reason: str) -> None:
        try:
            await self._app.cancel(job_id, owner=current_owner(), reason=reason)
        except NotPermitted:
            # Over already: canceling is acknowledged all the same.
            _log.debug("cancel of job %s came after its end", job_id)
        except JobNotFound:
            raise not_found() from None

    async def _updated_at(self, job: Job) -> datetime:
        if job.finished_at is not None:
            return job.finished_at
        last = await self._app.events(job.id, after=job.seq - 1, limit=1, owner=current_owner())
        return last[0].at if last else job.created_at
