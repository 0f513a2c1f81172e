"""The tools that look at a job and change its course, for clients without the extension."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from mcp_types import Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benbi.errors import BenbiError
from benbi.job import State
from benbi.server.mcp.describe import describe
from benbi.server.mcp.envelope import (
    as_result,
    envelope_schema,
    open_questions,
    question_body,
    refusal,
)
from benbi.server.mcp.looks import seen
from benbi.server.mcp.names import job_tool
from benbi.server.mcp.owner import current_owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_types import CallToolResult

    from benbi.app import Benbi
    from benbi.job import Job
    from benbi.server.mcp.offers import Offers

# Below the 60 s after which many hosts cut a call, with room for slow ones.
LONGEST_LOOK: Final = 25.0
PAGE: Final = 100
MOST_PAGES: Final = 10

_JobId = Annotated[str, Field(description="The jobId that the tool answered with.")]


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Status(_Arguments):
    job_id: _JobId
    after_seq: Annotated[
        int | None,
        Field(
            ge=0,
            description="The seq of your last look: the answer comes when there is news, or after "
            f"{LONGEST_LOOK:g} s. Left out: at once.",
        ),
    ] = None


class _Cancel(_Arguments):
    job_id: _JobId


class _Answer(_Arguments):
    job_id: _JobId
    answer: Annotated[Any, Field(description="Fits the schema of the question.")]
    question: Annotated[
        str | None, Field(description="The key of the question, where several are open.")
    ] = None


class _List(_Arguments):
    state: Annotated[
        State | None, Field(description="Only jobs in this state; input_required: open questions.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=PAGE)] = 20
    before: Annotated[str | None, Field(description="The jobId at which the last page ended.")] = (
        None
    )


_LIST_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "jobs": {
            "type": "array",
            "description": "Newest first.",
            "items": {
                "type": "object",
                "properties": {
                    "jobId": {"type": "string"},
                    "tool": {"type": "string"},
                    "state": {"type": "string"},
                    "seq": {"type": "integer"},
                    "message": {"type": "string"},
                    "createdAt": {"type": "string", "format": "date-time"},
                    "questions": {"type": "array", "items": {"type": "object"}},
                },
                "required": ["jobId", "tool", "state", "seq", "message", "createdAt"],
            },
        },
        "before": {"type": "string", "description": "For the next page; absent on the last."},
    },
    "required": ["jobs"],
}


class _Verb(NamedTuple):
    call: Callable[[Any], Awaitable[CallToolResult]]
    arguments: type[_Arguments]
    output: dict[str, Any]
    text: str
    changes: bool


class JobTools:
    """``<prefix>_job_status``, ``_cancel``, ``_answer`` and ``_list`` over one app."""

    def __init__(self, app: Benbi, prefix: str, offers: Offers) -> None:
        self._app = app
        self._offers = offers
        status = job_tool(prefix, "status")
        self._verbs: dict[str, _Verb] = {
            status: _Verb(
                self._status,
                _Status,
                envelope_schema(),
                "How a job is doing, its partial results and, once completed, its result. "
                "Pass the last seq as after_seq to wait for news instead of asking over and over.",
                False,
            ),
            job_tool(prefix, "cancel"): _Verb(
                self._cancel,
                _Cancel,
                envelope_schema(),
                "Cancels a job. One that runs is asked to stop: its state follows a little later.",
                True,
            ),
            job_tool(prefix, "answer"): _Verb(
                self._answer,
                _Answer,
                envelope_schema(),
                "Answers the question of a job in state input_required, which then goes on. "
                f"Ask the person first. Look at the outcome with {status}.",
                True,
            ),
            job_tool(prefix, "list"): _Verb(
                self._list,
                _List,
                _LIST_SCHEMA,
                "Your jobs, newest first: find one again after a restart, or what waits for an "
                "answer.",
                False,
            ),
        }

    def tools(self) -> list[Tool]:
        return [
            Tool(
                name=name,
                description=verb.text,
                input_schema=verb.arguments.model_json_schema(),
                output_schema=verb.output,
                annotations=ToolAnnotations(read_only_hint=not verb.changes, open_world_hint=False),
            )
            for name, verb in self._verbs.items()
        ]

    def knows(self, name: str) -> bool:
        return name in self._verbs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """The answer of the job tool ``name``; what is refused is said in the result."""
        verb = self._verbs[name]
        try:
            parsed = verb.arguments.model_validate(dict(arguments))
        except ValidationError as error:
            return refusal(_problems(error))
        try:
            return await verb.call(parsed)
        except BenbiError as error:
            return refusal(str(error))

    async def _status(self, asked: _Status) -> CallToolResult:
        owner = current_owner()
        until = time.monotonic() + LONGEST_LOOK
        job = await self._app.get(asked.job_id, owner=owner)
        after = asked.after_seq
        # A change of progress alone is no news here: each look costs the model a turn.
        while after is not None and job.seq <= after and not job.final:
            left = until - time.monotonic()
            if left <= 0:
                break
            job = await self._app.wait_for_change(job.id, after=job.seq, timeout=left, owner=owner)
        return as_result(await seen(self._app, job, after=after or 0))

    async def _cancel(self, asked: _Cancel) -> CallToolResult:
        job = await self._app.cancel(asked.job_id, owner=current_owner(), reason="by the client")
        return as_result(await seen(self._app, job, after=job.seq))

    async def _answer(self, asked: _Answer) -> CallToolResult:
        owner = current_owner()
        job = await self._app.answer(
            asked.job_id, asked.answer, question=asked.question, owner=owner, by=owner
        )
        return as_result(await seen(self._app, job, after=job.seq))

    async def _list(self, asked: _List) -> CallToolResult:
        tools = {offer.entry.task: offer.name for offer in await self._offers.all()}
        jobs: list[Job] = []
        before, more = asked.before, True
        for _ in range(MOST_PAGES):
            page = await self._app.jobs(
                owner=current_owner(), state=asked.state, limit=PAGE, before=before
            )
            # Jobs of tasks that are no tools are nobody's business on this door.
            jobs += [job for job in page if job.task in tools]
            more = len(page) == PAGE
            if not more or len(jobs) > asked.limit:
                break
            before = page[-1].id
        body: dict[str, Any] = {"jobs": [_listed(job, tools) for job in jobs[: asked.limit]]}
        if len(jobs) > asked.limit:
            body["before"] = jobs[asked.limit - 1].id
        elif more and before is not None:
            body["before"] = before
        return as_result(body)


def _listed(job: Job, tools: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "jobId": job.id,
        "tool": tools[job.task],
        "state": str(job.state),
        "seq": job.seq,
        "message": describe(job),
        "createdAt": job.created_at.isoformat(),
    }
    if asked := open_questions(job):
        body["questions"] = [question_body(question) for question in asked]
    return body


def _problems(error: ValidationError) -> str:
    listed = (
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )
    return "; ".join(listed)
