"""Jobs and events in words: plain strings, the same on a terminal and in a pipe."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from benbi.cli.exits import one_line
from benbi.sentence import span as span

if TYPE_CHECKING:
    from benbi.job import Event, Job, Progress, Question

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def age(since: datetime, now: datetime | None = None) -> str:
    """How long ago, in one unit: ``42s``, ``7m``, ``3h``, ``12d``."""
    seconds = max(0, int(((now or datetime.now(UTC)) - since).total_seconds()))
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "0s"


def moment(at: datetime) -> str:
    """A point in time on this machine's clock, to the second."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"


def clock(at: datetime) -> str:
    """The time of day on this machine's clock, to the millisecond."""
    local = at.astimezone()
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}"


def state(job: Job) -> str:
    """The state with its reason, and what is on its way: ``failed (lost)``."""
    words = str(job.state)
    if job.reason:
        words += f" ({one_line(job.reason)})"
    return f"{words}, cancel requested" if job.cancel_requested and not job.final else words


def attempt(job: Job) -> str:
    """The attempt, and how much of each budget is used: ``3, 2 of 3 failed, 1 of 3 lost``."""
    parts = [str(job.attempt)]
    if job.failures:
        parts.append(f"{job.failures} of {job.max_attempts} failed")
    if job.losses:
        parts.append(f"{job.losses} of {job.max_losses} lost")
    return ", ".join(parts)


def number(value: float) -> str:
    """A number without a needless fraction: ``3``, ``2.5``."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def progress(value: Progress | None) -> str:
    """``45% chunk 12 of 30``, or the count alone where the total is unknown."""
    if value is None:
        return ""
    share = f"{value.done / value.total:.0%}" if value.total else number(value.done)
    return one_line(f"{share} {value.message}")


def event(entry: Event) -> str:
    """What an event says beside its type, on one line."""
    parts = [f"attempt {entry.attempt}"] if entry.type == "started" else []
    match entry.data:
        case {"done": done, "total": total, "message": message} if entry.type == "progress":
            count = number(done) + (f"/{number(total)}" if total else "")
            return one_line(f"{count} {message}")
        case {"name": name, "use": use, **failure} if entry.type.startswith("step_"):
            parts.append(name if use == "#1" else f"{name} {use}")
            parts += _failure(failure)
        case {"name": name, "size": size} if entry.type == "artifact_saved":
            parts.append(f"{name} ({number(size)} bytes)")
        case {"type": _, "message": _, "kind": _} as failure:
            parts += [entry.reason or "", *_failure(failure)]
        case None:
            parts.append(entry.reason or "")
        case data:
            parts += [entry.reason or "", data if isinstance(data, str) else compact(data)]
    return one_line(" · ".join(part for part in parts if part))


def _failure(data: dict[str, Any]) -> list[str]:
    """An error in the data of an event, without its traceback."""
    if "type" not in data:
        return []
    parts = [f"try {data['try']}"] if "try" in data else []
    parts.append(f"{data['type']}: {data.get('message', '')}")
    if data.get("retry_in") is not None:
        parts.append(f"next try in {span(data['retry_in'])}")
    return parts


def answer_command(job: Job, question: Question) -> str:
    """The command that answers ``question``; VALUE stands for the answer."""
    several = sum(not other.answered for other in job.questions) > 1
    named = f" --question {shlex.quote(question.key)}" if several else ""
    return f"benbi jobs answer {job.id} VALUE{named}"


def compact(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
