"""One line says what a job is doing, and when another look is worth its while."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from benbi.job import ErrorRecord, Job, Progress, Question, State
from benbi.server.mcp.describe import describe, poll_after

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
JOB = Job(
    id="01a22d48-63b7-77a1-a83a-9f096f2062c6",
    task="analyse",
    queue="default",
    owner="",
    state=State.PENDING,
    reason=None,
    priority=0,
    attempt=0,
    failures=0,
    max_attempts=5,
    losses=0,
    max_losses=3,
    generation=1,
    seq=1,
    key=None,
    cancel_requested=False,
    created_at=NOW,
    run_at=NOW,
    started_at=None,
    finished_at=None,
    kept_until=None,
)
REFUSED = ErrorRecord("ConnectError", "refused", "transient", "connection errors are retried")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "queued"),
        ({"attempt": 1}, "queued again after attempt 1"),
        ({"state": State.RUNNING}, "running"),
        ({"state": State.RUNNING, "progress": Progress(3, 8, "loading")}, "3/8 loading"),
        ({"state": State.RUNNING, "progress": Progress(3, None, "")}, "3"),
        (
            {"state": State.RUNNING, "failures": 1, "progress": Progress(0.5, 1, "")},
            "attempt 2 of 5: 0.5/1",
        ),
        (
            {"state": State.RETRYING, "failures": 2, "run_at": NOW + timedelta(seconds=8)},
            "attempt 2 of 5, retry in 8 s",
        ),
        (
            {"state": State.RETRYING, "failures": 1, "error": REFUSED},
            "attempt 1 of 5, retry in 0 s (ConnectError: refused)",
        ),
        ({"state": State.SCHEDULED, "run_at": NOW + timedelta(minutes=1)}, "runs in 60 s"),
        ({"state": State.RUNNING, "cancel_requested": True}, "being canceled"),
        ({"state": State.FAILED, "error": REFUSED}, "ConnectError: refused"),
        ({"state": State.CANCELED, "reason": "by the client"}, "canceled: by the client"),
        ({"state": State.COMPLETED, "cancel_requested": True}, "completed"),
        ({"state": "hibernating"}, "hibernating"),
    ],
)
def test_a_job_in_words(changes: dict[str, Any], words: str) -> None:
    assert describe(replace(JOB, **changes), now=NOW) == words


def test_open_questions_are_told() -> None:
    asked = replace(
        JOB,
        state=State.INPUT_REQUIRED,
        questions=(
            Question("a", "Sell?", {}, None, answered=True),
            Question("b", "Why?", {}, None),
        ),
    )
    assert describe(asked) == "asks: Why?"


@pytest.mark.parametrize(
    ("changes", "milliseconds"),
    [
        ({}, 1_000),
        ({"state": State.RETRYING, "run_at": NOW + timedelta(seconds=8)}, 8_000),
        ({"state": State.RETRYING, "run_at": NOW - timedelta(seconds=8)}, 1_000),
        ({"state": State.SCHEDULED, "run_at": NOW + timedelta(days=1)}, 30_000),
        ({"state": State.COMPLETED}, None),
    ],
)
def test_when_to_look_again(changes: dict[str, Any], milliseconds: int | None) -> None:
    assert poll_after(replace(JOB, **changes), now=NOW) == milliseconds
