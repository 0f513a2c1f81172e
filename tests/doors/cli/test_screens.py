"""Jobs on a screen: words, widths, colours, and text that must not steer the terminal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from benbi.cli import words
from benbi.cli.exits import visible
from benbi.cli.sheet import job_view
from benbi.cli.table import jobs_view
from benbi.job import ErrorRecord, Event, Job, Progress, Question, State

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
JOB = Job(
    id="0197a2b3-4c5d-7e6f-8a9b-0c1d2e3f4a5b",
    task="deep_gift_analysis",
    queue="gifts",
    owner="u1",
    state=State.RUNNING,
    reason=None,
    priority=0,
    attempt=2,
    failures=1,
    max_attempts=3,
    losses=0,
    max_losses=3,
    generation=1,
    seq=7,
    key=None,
    cancel_requested=False,
    created_at=NOW,
    run_at=NOW,
    started_at=NOW + timedelta(seconds=1),
    finished_at=None,
    kept_until=None,
    progress=Progress(12, 30, "chunk 12 of 30"),
)


def printed(view: RenderableType, width: int, **options: Any) -> str:
    out = StringIO()
    Console(file=out, width=width, highlight=False, markup=False, **options).print(view)
    return out.getvalue()


def event(kind: str, data: Any = None, reason: str | None = None) -> Event:
    return Event(JOB.id, 3, kind, reason, 2, NOW + timedelta(seconds=5), data)


@pytest.mark.parametrize("width", [20, 40, 80, 119, 120, 160])
def test_a_list_fits_every_width_and_keeps_what_counts(width: int) -> None:
    text = printed(jobs_view([JOB, JOB], width), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "running" in text
    if width >= len(JOB.id):
        assert text.count(JOB.id) == 2
    if width >= 60:
        assert "40% chunk 12 of" in text


@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_one_job_fits_every_width(width: int) -> None:
    error = ErrorRecord("ValueError", "x" * 200, "bug", "bugs fail at once", "Traceback\n  here")
    job = replace(JOB, state=State.FAILED, error=error, finished_at=NOW + timedelta(seconds=9))
    events = [event("partial", {"gifts": ["a" * 200]})]
    text = printed(job_view(job, {"a": "b" * 200}, None, events), width)
    # An id stays in one piece, to be copied.
    lines = [line for line in text.splitlines() if JOB.id not in line]
    assert max(map(len, lines)) <= width


def test_the_id_stays_whole_in_a_table() -> None:
    long = replace(JOB, task="t" * 200, owner="o" * 200)
    assert JOB.id in printed(jobs_view([long], 120), 120)


def test_control_characters_and_markup_do_not_reach_the_terminal() -> None:
    evil = "\x1b[2J\x07[red]boo[/red]"
    job = replace(JOB, task=evil, owner=evil, reason=evil, progress=Progress(1, 2, evil))
    events = [event("partial", evil), event("progress", {"done": 1, "total": 2, "message": evil})]
    text = printed(jobs_view([job], 160), 160) + printed(jobs_view([job], 60), 60)
    text += printed(job_view(job, evil, evil, events), 300)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]boo[/red]" in text


def test_letters_of_all_scripts_stay() -> None:
    for text in ("bền bỉ", "naïve\u00a0: 1\u202f000", "می\u200cخواهم", "日本語", "👩\u200d🔧"):
        assert visible(text) == text
    assert visible("\u202eright to left") == "\\u202eright to left"
    assert visible("half a pair: \ud83d") == "half a pair: \\ud83d"


def test_an_open_question_says_how_to_answer_it() -> None:
    first = Question("budget", "Over budget?", {"type": "boolean"}, None)
    other = Question("name", "Which name?", {"type": "string"}, None)
    one = replace(JOB, state=State.INPUT_REQUIRED, questions=(first,))
    text = printed(job_view(one, {}, None, []), 120)
    assert f"benbi jobs answer {JOB.id} VALUE\n" in text
    assert '{"type": "boolean"}' in text
    two = replace(one, questions=(first, other))
    text = printed(job_view(two, {}, None, []), 120)
    assert f"benbi jobs answer {JOB.id} VALUE --question budget" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (90000, "1d")]
)
def test_ages(seconds: int, text: str) -> None:
    assert words.age(NOW, NOW + timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.312, "312 ms"),
        (12.44, "12.4 s"),
        (200, "3 m 20 s"),
        (7500, "2 h 5 m"),
        (180000, "2 d 2 h"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


def test_states_and_attempts_in_words() -> None:
    assert words.state(replace(JOB, state=State.FAILED, reason="lost")) == "failed (lost)"
    assert words.state(replace(JOB, cancel_requested=True)) == "running, cancel requested"
    assert words.attempt(replace(JOB, losses=2)) == "2, 1 of 3 failed, 2 of 3 lost"


def test_progress_in_words() -> None:
    assert words.progress(JOB.progress) == "40% chunk 12 of 30"
    assert words.progress(Progress(1200, None, "rows")) == "1,200 rows"
    assert words.progress(None) == ""


def test_a_state_of_newer_code_is_shown_as_it_came() -> None:
    assert "parked" in printed(jobs_view([replace(JOB, state="parked")], 120), 120)
