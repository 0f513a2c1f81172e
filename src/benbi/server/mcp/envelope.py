"""The one answer that every durable tool and every job tool gives, and its schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from mcp_types import CallToolResult, TextContent

from benbi.job import State
from benbi.server.mcp.describe import describe, poll_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benbi.job import Event, Job, Question

Schema = dict[str, Any]

# Partial results that one answer carries at most; older ones are left out, and it says so.
MAX_PARTIALS = 20
MAX_PARTIAL_BYTES = 65_536

_QUESTION: Schema = {
    "type": "object",
    "description": "What the job asks before it goes on; answer it with the job_answer tool.",
    "properties": {
        "key": {"type": "string", "description": "Names the question when several are open."},
        "prompt": {"type": "string"},
        "schema": {"type": "object", "description": "The JSON schema of the answer."},
    },
    "required": ["key", "prompt", "schema"],
}
_FIELDS: Schema = {
    "jobId": {"type": "string", "description": "Names the job, for as long as it is kept."},
    "state": {
        "type": "string",
        "description": (
            "Still going: waiting, scheduled, pending, running, retrying, input_required. "
            "Over: completed, failed, canceled, skipped."
        ),
    },
    "seq": {
        "type": "integer",
        "description": "The number of the job's last event: the after_seq of the next look.",
    },
    "message": {"type": "string", "description": "What the job is doing, or how it ended."},
    "partials": {
        "type": "array",
        "description": "Partial results published since after_seq, oldest first.",
        "items": {},
    },
    "question": _QUESTION,
    "pollAfterMs": {
        "type": "integer",
        "description": "Look again after so many milliseconds; absent once the job is over.",
    },
}
_REQUIRED = ["jobId", "state", "seq", "message"]


def envelope_schema(result: Schema | None = None) -> Schema:
    """The output schema of a tool whose result has the schema ``result`` (None: any)."""
    inner = dict(result or {})
    definitions = inner.pop("$defs", None)
    inner["description"] = inner.get("description") or "The result, once state is completed."
    schema: Schema = {
        "type": "object",
        "properties": {**_FIELDS, "result": inner},
        "required": _REQUIRED,
    }
    # References point at the root of the schema they stand in.
    return schema if definitions is None else {**schema, "$defs": definitions}


def envelope(
    job: Job, *, result_json: str | None = None, events: Sequence[Event] = ()
) -> dict[str, Any]:
    """The envelope of a job; ``result_json`` is the text of a completed job's result."""
    message = describe(job)
    partials, left_out = _partials(events)
    if left_out:
        message += f" ({left_out} earlier partial results left out)"
    body: dict[str, Any] = {
        "jobId": job.id,
        "state": str(job.state),
        "seq": job.seq,
        "message": message,
    }
    if job.state == State.COMPLETED:
        body["result"] = None if result_json is None else json.loads(result_json)
    if partials:
        body["partials"] = partials
    if asked := open_questions(job):
        body["question"] = question_body(asked[0])
        if len(asked) > 1:
            body["message"] += f" ({len(asked)} questions are open)"
    poll = poll_after(job)
    if poll is not None:
        body["pollAfterMs"] = poll
    return body


def open_questions(job: Job) -> list[Question]:
    """The questions that nobody has answered yet, in the order they were asked."""
    return [question for question in job.questions if not question.answered]


def question_body(question: Question) -> dict[str, Any]:
    return {"key": question.key, "prompt": question.prompt, "schema": question.schema}


def as_result(body: dict[str, Any], *, failed: bool = False) -> CallToolResult:
    """A body as a tool's answer: structured, and as text for hosts that read only text."""
    text = json.dumps(body, ensure_ascii=False)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=body, is_error=failed
    )


def refusal(message: str) -> CallToolResult:
    """A refusal that the model reads and can act on."""
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)


def final_result(job: Job, result_json: str | None) -> CallToolResult:
    """What the tool call of a job that is over comes to: a failed job is an error result.

    The text is the result or the error alone: who reads it knows the job already.
    """
    body = envelope(job, result_json=result_json)
    if job.state == State.COMPLETED:
        result = body["result"]
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    else:
        text = cast("str", body["message"])
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=body,
        is_error=job.state == State.FAILED,
    )


def _partials(events: Sequence[Event]) -> tuple[list[Any], int]:
    """The newest partial results within the limits, oldest first, and how many had to stay out."""
    published = [event.data for event in events if event.type == "partial"]
    taken: list[Any] = []
    size = 0
    for value in reversed(published):
        size += len(json.dumps(value))
        if len(taken) == MAX_PARTIALS or (taken and size > MAX_PARTIAL_BYTES):
            break
        taken.append(value)
    taken.reverse()
    return taken, len(published) - len(taken)
