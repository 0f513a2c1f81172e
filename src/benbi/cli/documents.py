"""What ``--json`` prints: one document on stdout, or one a line for ``jobs watch`` and ``logs``.

The field names are those of ``Job``, ``Question``, ``Progress``, ``ErrorRecord``, ``Event`` and
``Schedule``; times are ISO 8601 in UTC. Fields may be added, the names stay.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benbi.job import Event, Job, Schedule


def job_document(job: Job) -> dict[str, Any]:
    """A job as the JSON object that every command shows it as."""
    return asdict(job)


def event_document(event: Event) -> dict[str, Any]:
    """An event as a JSON object, with the fields that it has over HTTP."""
    fields = asdict(event)
    # For streams over many jobs; here there is one.
    del fields["cursor"]
    return fields


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """A schedule as a JSON object."""
    return asdict(schedule)


def parsed(text: str | None) -> Any:
    """The value of a stored JSON text; None where nothing is stored."""
    return None if text is None else json.loads(text)


def write(document: Any) -> None:
    """Prints one JSON document on one line."""
    # Escapes where the terminal's encoding could not carry the characters themselves.
    narrow = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(document, ensure_ascii=narrow, default=_plain), flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} has no JSON form")
