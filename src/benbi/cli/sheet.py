"""One job, whole: its record, what went in and came out, and its story so far."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from benbi.cli import words
from benbi.cli.screen import command, event_line, style_of, styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from benbi.job import ErrorRecord, Event, Job, Question


def job_view(job: Job, arguments: Any, result: Any, events: Sequence[Event]) -> RenderableType:
    """Everything about a job; ``events`` are its newest."""
    parts: list[RenderableType] = [_head(job), _record(job)]
    parts += _section("arguments", _json(arguments))
    for question in job.questions:
        parts += _section(f"question {question.key}", _question(job, question))
    if job.error is not None:
        parts += _section("error", _error(job.error))
    if job.state == "completed":
        parts += _section("result", _json(result))
    parts += _section("events", _timeline(job, events))
    return Group(*parts)


def _head(job: Job) -> RenderableType:
    return Group(styled(job.task, "bold"), command(job.id))


def _record(job: Job) -> RenderableType:
    grid = _grid()
    grid.add_row("state", styled(words.state(job), style_of(job.state)))
    grid.add_row("attempt", words.attempt(job))
    for name, value in _facts(job):
        if value:
            grid.add_row(name, styled(value))
    return grid


def _facts(job: Job) -> Iterable[tuple[str, str]]:
    yield "progress", words.progress(job.progress)
    yield "queue", f"{job.queue}, priority {job.priority}" if job.priority else job.queue
    yield "owner", job.owner
    yield "key", job.key or ""
    yield "generation", str(job.generation) if job.generation > 1 else ""
    yield "created", f"{words.moment(job.created_at)} ({words.age(job.created_at)} ago)"
    yield "waits for", "\n".join(job.waits_for)
    if job.state in ("scheduled", "retrying"):
        yield "due", words.moment(job.run_at)
    if job.started_at:
        yield "started", words.moment(job.started_at)
    if job.finished_at:
        began = job.started_at or job.created_at
        took = words.span((job.finished_at - began).total_seconds())
        yield "finished", f"{words.moment(job.finished_at)} (after {took})"
    if job.kept_until:
        yield "kept until", words.moment(job.kept_until)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _section(title: str, lines: list[Text]) -> list[RenderableType]:
    return [Text(""), styled(title, "bold"), *map(_indented, lines)]


def _indented(line: Text) -> Text:
    # Not rich's Padding: that fills the line with spaces and breaks what is to be copied.
    return Text("  ", no_wrap=line.no_wrap, overflow=line.overflow).append_text(line)


def _json(value: Any) -> list[Text]:
    return [styled(line) for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines()]


def _question(job: Job, question: Question) -> list[Text]:
    lines = [styled(question.prompt)]
    if question.answered:
        return [*lines, styled("answered", "green")]
    lines.append(styled(f"expects {words.compact(question.schema)}", "dim"))
    if question.deadline:
        lines.append(styled(f"until {words.moment(question.deadline)}", "dim"))
    return [*lines, styled("answer with:"), command(words.answer_command(job, question))]


def _error(error: ErrorRecord) -> list[Text]:
    lines = [
        styled(f"{error.type}: {error.message}", "red"),
        styled(f"class {error.kind}: {error.rule}"),
    ]
    if error.traceback:
        lines += [styled(line, "dim") for line in error.traceback.splitlines()]
    return lines


def _timeline(job: Job, events: Sequence[Event]) -> list[Text]:
    since = ((entry.at - job.created_at).total_seconds() for entry in events)
    stamps = [f"+{words.span(max(0.0, seconds))}" for seconds in since]
    room = max(map(len, stamps), default=0)
    earlier = events[0].seq - 1 if events else 0
    lines = [styled(f"{earlier:,} earlier ones:"), command(f"benbi jobs watch {job.id}")]
    return (lines if earlier else []) + [
        event_line(f"{stamp:>{room}}", entry) for stamp, entry in zip(stamps, events, strict=True)
    ]
