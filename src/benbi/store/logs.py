"""What jobs logged, as doors and people see it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from benbi.job import LogLine, as_datetime
from benbi.store import views
from benbi.store.database import Row, Transaction

KEPT_BYTES = 64 * 1024


def logs(view: Transaction, job_id: str, attempt: int | None, owner: str | None) -> list[LogLine]:
    """The last lines of an attempt; None: of the newest that logged anything. JobNotFound."""
    n = views.find(view, job_id, owner).n
    return _last(view.rows("logs_of", n=n, attempt=attempt))


def logged_since(
    view: Transaction, job_id: str, owner: str | None, attempt: int, number: int
) -> list[LogLine]:
    """The lines after that one, of its attempt and of later ones, in order."""
    n = views.find(view, job_id, owner).n
    lines = _lines(view.rows("logged_since", n=n, attempt=attempt))
    return [line for line in lines if (line.attempt, line.number) > (attempt, number)]


def _last(rows: list[Row]) -> list[LogLine]:
    """Pieces go whole: what is left of the oldest over the limit is not shown."""
    spare = sum(len(body.encode()) for _, body in rows) - KEPT_BYTES
    if spare > 0:
        attempt, body = rows[0]
        text = body.encode()
        end = text.find(b"\n", spare - 1) + 1
        rows = [(attempt, text[end:].decode()), *rows[1:]]
    return list(_lines(rows))


def _lines(rows: Iterable[Row]) -> Iterable[LogLine]:
    for attempt, body in rows:
        for text in body.split("\n"):
            if text:
                number, at, level, logger, message = json.loads(text)
                yield LogLine(number, attempt, _time(at), level, logger, message)


def _time(micros: int) -> Any:
    return as_datetime(micros)
