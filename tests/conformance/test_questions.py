"""Questions: born with the suspension, answered once, and the job goes on when none is open."""

from __future__ import annotations

import pytest

from benbi.errors import AnswerRefused
from benbi.job import Claim
from benbi.outcome import Released, Suspended
from tests.support.rig import Rig, asked

ASKS = Suspended(asks=True)


def asking(rig: Rig, *questions: object) -> Claim:
    claim = rig.running()
    assert rig.finish(claim, ASKS, asks=questions or [asked()]) == "input_required"  # type: ignore[arg-type]
    return claim


def test_a_question_is_there_with_the_state_that_waits_for_it(rig: Rig) -> None:
    claim = asking(rig, asked("colour", timeout=60), asked("size"))
    questions = rig.job(claim.job_id).questions
    assert [(one.key, one.prompt, one.schema) for one in questions] == [
        ("colour", "Which colour?", {"type": "string"}),
        ("size", "Which size?", {"type": "string"}),
    ]
    assert questions[0].deadline is not None and questions[1].deadline is None
    assert rig.types(claim.job_id) == ["created", "started", "input_required"]


def test_no_answer_comes_before_its_question(rig: Rig) -> None:
    claim = rig.running()
    with pytest.raises(AnswerRefused):
        rig.answer(claim.job_id, "colour", "red")
    assert rig.types(claim.job_id) == ["created", "started"]


def test_an_answer_sends_the_job_on(rig: Rig) -> None:
    claim = asking(rig)
    rig.clock.tick(3600)
    rig.answer(claim.job_id, "colour", "red", by="mai")
    events = rig.events(claim.job_id)
    assert [(event.type, event.reason) for event in events[3:]] == [
        ("answered", "colour"),
        ("pending", "answered"),
    ]
    assert events[3].data == {"question": "colour", "by": "mai"}
    assert rig.job(claim.job_id).seq == events[-1].seq
    again = rig.claim_one()
    assert rig.recorded(again).answers == {"colour": (b"print", '"red"')}


def test_the_first_answer_wins(rig: Rig) -> None:
    claim = asking(rig, asked("colour"), asked("size"))
    rig.answer(claim.job_id, "colour", "red")
    before = rig.types(claim.job_id)
    with pytest.raises(AnswerRefused):
        rig.answer(claim.job_id, "colour", "blue")
    assert rig.types(claim.job_id) == before
    rig.answer(claim.job_id, "size", "xl")
    assert rig.recorded(rig.claim_one()).answers["colour"] == (b"print", '"red"')


def test_a_second_answer_is_refused_after_the_job_went_on(rig: Rig) -> None:
    claim = asking(rig)
    rig.answer(claim.job_id, "colour", "red")
    with pytest.raises(AnswerRefused):
        rig.answer(claim.job_id, "colour", "blue")
    assert rig.recorded(rig.claim_one()).answers["colour"] == (b"print", '"red"')


def test_the_job_waits_for_all_its_questions(rig: Rig) -> None:
    claim = asking(rig, asked("colour"), asked("size"))
    rig.answer(claim.job_id, "size", "xl")
    assert rig.state(claim.job_id) == "input_required"
    assert [one.key for one in rig.job(claim.job_id).questions] == ["colour"]
    assert rig.claim(rig.worker(), 10) == []
    rig.answer(claim.job_id, "colour", "red")
    assert rig.state(claim.job_id) == "pending"


def test_a_question_that_was_answered_is_not_asked_again(rig: Rig) -> None:
    claim = asking(rig)
    rig.answer(claim.job_id, "colour", "red")
    again = rig.claim_one()
    rig.finish(again, ASKS, asks=[asked("colour"), asked("size")])
    assert [one.key for one in rig.job(claim.job_id).questions] == ["size"]
    rig.answer(claim.job_id, "size", "xl")
    assert rig.state(claim.job_id) == "pending"


def test_nobody_in_time_means_the_default(rig: Rig) -> None:
    claim = asking(rig, asked(default="grey", timeout=60))
    rig.clock.tick(59)
    assert rig.expire() == 0
    rig.clock.tick(1)
    assert rig.expire() == 1
    assert rig.last(claim.job_id) == ("pending", "answered")
    assert rig.events(claim.job_id)[-2].data == {"question": "colour", "by": "default"}
    assert rig.recorded(rig.claim_one()).answers["colour"] == (b"print", '"grey"')


def test_nobody_in_time_without_a_default_fails_the_job(rig: Rig) -> None:
    claim = asking(rig, asked(timeout=60))
    rig.clock.tick(60)
    rig.expire()
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.failures) == ("failed", "expired", 0)
    assert job.error is not None and "colour" in job.error.message


def test_a_deadline_that_passed_after_the_answer_does_nothing(rig: Rig) -> None:
    claim = asking(rig, asked(timeout=60))
    rig.answer(claim.job_id, "colour", "red")
    rig.clock.tick(61)
    assert rig.expire() == 0
    assert rig.state(claim.job_id) == "pending"


def test_the_default_of_one_question_does_not_answer_another(rig: Rig) -> None:
    claim = asking(rig, asked("colour", default="grey", timeout=60), asked("size"))
    rig.clock.tick(60)
    rig.expire()
    assert rig.state(claim.job_id) == "input_required"
    assert [one.key for one in rig.job(claim.job_id).questions] == ["size"]


def test_a_canceled_jobs_deadline_is_nobodys_business(rig: Rig) -> None:
    claim = asking(rig, asked(timeout=60))
    rig.cancel(claim.job_id)
    rig.clock.tick(61)
    assert rig.rows("neglected", now=rig.clock.now) == [(0, 0)], "upkeep has nothing to write"
    assert rig.expire() == 0
    assert rig.state(claim.job_id) == "canceled"


def test_a_job_that_has_ended_takes_no_answer(rig: Rig) -> None:
    claim = asking(rig)
    rig.cancel(claim.job_id)
    before = rig.types(claim.job_id)
    with pytest.raises(AnswerRefused):
        rig.answer(claim.job_id, "colour", "red")
    assert rig.types(claim.job_id) == before, "nothing is told after the end"


def test_questions_of_an_earlier_generation_are_closed(rig: Rig) -> None:
    claim = asking(rig)
    rig.cancel(claim.job_id)
    rig.again(claim.job_id, fresh=True)
    with pytest.raises(AnswerRefused):
        rig.answer(claim.job_id, "colour", "red")
    again = rig.claim_one()
    assert rig.recorded(again).answers == {}
    assert rig.finish(again, ASKS, asks=[asked("colour")]) == "input_required"
    assert [one.key for one in rig.job(claim.job_id).questions] == ["colour"]


def test_an_answer_that_nobody_waits_for_yet_is_kept(rig: Rig) -> None:
    """The job was canceled and retried by hand: its open question is still answerable."""
    claim = asking(rig)
    rig.cancel(claim.job_id)
    rig.again(claim.job_id)
    rig.answer(claim.job_id, "colour", "red")
    assert rig.state(claim.job_id) == "pending"
    again = rig.claim_one()
    assert rig.recorded(again).answers["colour"] == (b"print", '"red"')
    rig.finish(again, Released("drain"))


def test_an_answer_that_came_while_the_job_asked_again_is_no_dead_end(rig: Rig) -> None:
    claim = asking(rig)
    rig.cancel(claim.job_id)
    rig.again(claim.job_id)
    again = rig.claim_one()
    rig.answer(claim.job_id, "colour", "red")
    rig.finish(again, ASKS, asks=[asked()])
    assert rig.last(claim.job_id) == ("pending", "answered")
    assert rig.recorded(rig.claim_one()).answers["colour"] == (b"print", '"red"')


def test_a_question_that_is_asked_again_has_its_time_again(rig: Rig) -> None:
    claim = asking(rig, asked(timeout=60))
    rig.clock.tick(60)
    rig.expire()
    assert rig.state(claim.job_id) == "failed"
    rig.again(claim.job_id)
    rig.finish(rig.claim_one(), ASKS, asks=[asked(timeout=60)])
    rig.clock.tick(59)
    assert rig.expire() == 0
    rig.answer(claim.job_id, "colour", "red")
    assert rig.state(claim.job_id) == "pending"


def test_a_default_comes_too_late_for_a_job_that_another_question_ended(rig: Rig) -> None:
    claim = asking(rig, asked("colour", timeout=60), asked("size", default="xl", timeout=60))
    rig.clock.tick(61)
    rig.expire()
    assert rig.types(claim.job_id)[-1] == "failed"
