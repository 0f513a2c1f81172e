"""Steps: recorded once, found again by the next attempt of the generation, and by no other."""

from __future__ import annotations

import pytest

from benbi.outcome import Released, Suspended
from benbi.store.lifecycle import StepRecord, Told
from tests.support.rig import Rig, failure, step


def next_attempt(rig: Rig) -> None:
    rig.clock.tick(3600)
    rig.due()


def test_a_recorded_step_is_there_for_the_next_attempt(rig: Rig) -> None:
    claim = rig.running()
    record = step("load", result={"rows": [1]})
    rig.write(claim, Told("step_completed", None, '{"name": "load"}'), steps=[record])
    rig.finish(claim, failure())
    next_attempt(rig)
    recorded = rig.recorded(rig.claim_one())
    assert recorded.steps == {("step", "load", "#1"): record}


def test_step_and_event_are_one_transaction(rig: Rig) -> None:
    claim = rig.running()
    impossible = StepRecord("step", "load", "#1", b"print", "completed", 1, None, None)
    with pytest.raises(Exception, match=r"(?i)check"):
        rig.write(claim, Told("step_completed"), steps=[impossible])
    assert rig.types(claim.job_id) == ["created", "started"]
    assert rig.job(claim.job_id).seq == 2
    assert rig.recorded(claim).steps == {}


def test_uses_of_one_name_are_apart(rig: Rig) -> None:
    claim = rig.running()
    uses = [step("page", f"#{nth}", nth * 10) for nth in range(1, 4)]
    other = step("page", "by key", 99)
    for record in [*uses, other]:
        rig.write(claim, steps=[record])
    found = rig.recorded(claim).steps
    assert [found["step", "page", f"#{nth}"].result for nth in (1, 2, 3)] == ["10", "20", "30"]
    assert found["step", "page", "by key"].result == "99"


def test_failed_tries_are_kept_until_the_step_is_done(rig: Rig) -> None:
    claim = rig.running()
    rig.write(claim, Told("step_failed"), steps=[step(failed=True, tries=2)])
    (found,) = rig.recorded(claim).steps.values()
    assert (found.state, found.tries, found.result) == ("failed", 2, None)
    rig.write(claim, Told("step_completed"), steps=[step(tries=3)])
    (found,) = rig.recorded(claim).steps.values()
    assert (found.state, found.tries, found.result) == ("completed", 3, "1")


def test_a_fresh_generation_has_no_steps(rig: Rig) -> None:
    claim = rig.running()
    rig.write(claim, steps=[step()], progress=(1, 2, "half"))
    rig.write(claim, Told("partial", None, "1"), Told("progress", None, "{}"))
    rig.finish(claim, failure("bug"))
    rig.again(claim.job_id)
    kept = rig.recorded(rig.claim_one())
    assert (len(kept.steps), kept.partials, kept.progress) == (1, ("1",), {"{}"})
    rig.cancel(claim.job_id)
    rig.clock.tick(60)
    rig.stop_overrun()
    rig.again(claim.job_id, fresh=True)
    fresh = rig.claim_one()
    assert (fresh.generation, fresh.first_attempt) == (2, 3)
    found = rig.recorded(fresh)
    assert (found.steps, found.answers, found.partials, found.progress) == ({}, {}, (), set())


def test_steps_of_a_suspended_attempt_come_with_its_move(rig: Rig) -> None:
    claim = rig.running()
    wake = StepRecord("sleep", "sleep", "#1", b"", "completed", 1, str(rig.clock.now), None)
    rig.finish(claim, Suspended(asks=False, wake_in=60), steps=[wake])
    next_attempt(rig)
    assert rig.recorded(rig.claim_one()).steps == {("sleep", "sleep", "#1"): wake}


def test_what_was_told_is_found_again(rig: Rig) -> None:
    claim = rig.running()
    rig.write(claim, Told("progress", None, '{"done": 1}'), Told("partial", None, "1"))
    rig.finish(claim, Released("drain"), Told("partial", None, "2"))
    found = rig.recorded(rig.claim_one())
    assert found.partials == ("1", "2")
    assert found.progress == {'{"done": 1}'}


def test_progress_between_events_is_one_row(rig: Rig) -> None:
    claim = rig.running()
    for done in range(1, 6):
        rig.write(claim, progress=(done, 10, f"{done} of 10"))
    job = rig.job(claim.job_id)
    assert job.progress is not None
    assert (job.progress.done, job.progress.total, job.progress.message) == (5, 10, "5 of 10")
    assert rig.types(claim.job_id) == ["created", "started"], "a snapshot takes no seq"
    assert job.seq == 2


def test_the_witness_is_no_bystander(rig: Rig) -> None:
    """The triggers refuse a move that is not in MOVES, whoever makes it."""
    claim = rig.running()
    rig.complete(claim)

    with pytest.raises(Exception, match="not in MOVES"):
        rig.script("UPDATE {jobs} SET state = 'scheduled', finished_at = NULL, last_seq = 4;")
    assert rig.state(claim.job_id) == "completed"
