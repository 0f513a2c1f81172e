"""Finish: decide proposes, the store disposes; each ending is told, and charges what it should."""

from __future__ import annotations

from typing import Any

import pytest

from benbi.job import as_datetime
from benbi.outcome import (
    Canceled,
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    Suspended,
)
from benbi.retry import Retry
from benbi.store.lifecycle import Told
from tests.support.rig import SECOND, Rig, asked, failure, step


def test_completed_keeps_the_result(rig: Rig) -> None:
    claim = rig.running()
    rig.clock.tick(3)
    assert rig.complete(claim, {"gifts": [1, 2]}) == "completed"
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.error, job.failures) == ("completed", None, None, 0)
    assert job.finished_at == as_datetime(rig.clock.now)
    assert rig.result(claim.job_id) == {"gifts": [1, 2]}
    assert rig.types(claim.job_id) == ["created", "started", "completed"]


def test_a_result_of_null_is_a_result(rig: Rig) -> None:
    claim = rig.running()
    rig.complete(claim, None)
    assert rig.rows("result_of", n=claim.n) == []
    assert rig.result(claim.job_id) is None
    assert rig.state(claim.job_id) == "completed"


@pytest.mark.parametrize("kind", ["permanent", "bug"])
def test_a_failure_for_good_is_charged_and_kept(rig: Rig, kind: str) -> None:
    claim = rig.running()
    assert rig.finish(claim, failure(kind)) == "failed"
    job = rig.job(claim.job_id)
    assert (job.failures, job.losses, job.reason) == (1, 0, kind)
    assert job.error is not None
    assert (job.error.message, job.error.kind, job.error.rule) == ("no luck", kind, "a rule")
    assert rig.result(claim.job_id) is None
    assert rig.events(claim.job_id)[-1].data["message"] == "no luck"


def test_a_loss_of_a_claim_is_charged_and_told(rig: Rig) -> None:
    """As by a burial, where a process died that ran the body for its worker."""
    job_id = rig.put(max_losses=3, max_attempts=1)
    worker = rig.worker()
    for losses, expected in enumerate(["pending", "retrying", "failed"], 1):
        assert rig.finish(rig.claim_one(worker), Lost("a child died")) == expected
        job = rig.job(job_id)
        assert (job.losses, job.failures, job.reason) == (losses, 0, "lost")
        assert rig.events(job_id)[-1].data["message"] == "a child died"
        rig.clock.tick(60)
        rig.due()
    assert job.error is not None and job.error.kind == "lost"


def test_a_cancel_wins_over_a_loss(rig: Rig) -> None:
    claim = rig.running()
    rig.cancel(claim.job_id)
    assert rig.finish(claim, Lost("a child died")) == "canceled"
    assert rig.job(claim.job_id).losses == 0


def test_a_failure_is_retried_until_the_budget_is_used(rig: Rig) -> None:
    job_id = rig.put(max_attempts=3)
    worker = rig.worker()
    for expected in ["retrying", "retrying", "failed"]:
        assert rig.finish(rig.claim_one(worker), failure()) == expected
        rig.clock.tick(3600)
        rig.due()
    job = rig.job(job_id)
    assert (job.failures, job.attempt, job.reason) == (3, 3, "attempts_used")


def test_a_retry_is_due_after_its_back_off(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, failure(), policy=Retry(attempts=3, first=10, jitter=0))
    job = rig.job(claim.job_id)
    assert job.run_at == as_datetime(rig.clock.now + 10 * SECOND)
    assert job.finished_at is None
    assert job.error is not None and job.error.message == "no luck", "the last try is shown"
    rig.clock.tick(9.9)
    assert rig.due() == 0
    rig.clock.tick(0.1)
    assert rig.due() == 1


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        (Released("drain"), "pending", "drain"),
        (Snoozed(5, "later"), "scheduled", "later"),
        (Suspended(asks=True), "input_required", "asked"),
        (Suspended(asks=False, wake_in=5), "scheduled", "sleeping"),
        (Skipped("nothing new"), "skipped", "nothing new"),
        (Canceled(), "canceled", "requested"),
    ],
)
def test_what_is_no_failure_charges_nothing(
    rig: Rig, outcome: Outcome, state: str, reason: str
) -> None:
    claim = rig.running(max_attempts=1, max_losses=1)
    assert rig.finish(claim, outcome, asks=[asked()]) == state
    job = rig.job(claim.job_id)
    assert (job.failures, job.losses, job.reason) == (0, 0, reason)
    assert rig.last(claim.job_id) == (state, reason)
    assert (job.finished_at is None) == (state not in ("skipped", "canceled"))


@pytest.mark.parametrize("outcome", [Released("drain"), Snoozed(0), failure()])
def test_attempt_never_falls(rig: Rig, outcome: Outcome) -> None:
    worker = rig.worker()
    job_id = rig.put()
    for attempt in (1, 2, 3):
        claim = rig.claim_one(worker)
        assert (claim.attempt, rig.job(job_id).attempt) == (attempt, attempt)
        rig.finish(claim, outcome, policy=Retry(attempts=9, first=0, jitter=0))
        rig.clock.tick(60)
        rig.due()


def test_a_finish_carries_what_was_still_to_be_told(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(
        claim, Completed("1"), Told("progress", None, '{"done": 1}'), Told("partial", None, "2")
    )
    events = rig.events(claim.job_id)
    assert [event.type for event in events[2:]] == ["progress", "partial", "completed"]
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]


LIVE: list[tuple[Outcome, dict[str, Any]]] = [
    (failure(), {}),
    (Released("drain"), {}),
    (Snoozed(5), {}),
    (Suspended(asks=True), {"asks": [asked()]}),
    (Suspended(asks=False, wake_in=5), {"steps": [step("sleep", result=1)]}),
]


@pytest.mark.parametrize(("outcome", "brings"), LIVE)
def test_a_cancel_that_came_meanwhile_wins_over_every_live_state(
    rig: Rig, outcome: Outcome, brings: dict[str, Any]
) -> None:
    claim = rig.running()
    rig.cancel(claim.job_id)
    assert rig.finish(claim, outcome, **brings) == "canceled"
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.failures) == ("canceled", "requested", 0)
    assert job.finished_at == as_datetime(rig.clock.now)
    assert rig.types(claim.job_id) == ["created", "started", "cancel_requested", "canceled"]
    assert rig.rows("open_questions_of", n=claim.n, generation=1) == [], "nobody is asked"
    rig.clock.tick(3600)
    assert rig.due() == 0
    assert rig.claim(rig.worker(), 10) == []


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Completed('"done"'), "completed"),
        (failure("permanent"), "failed"),
        (Skipped("unneeded"), "skipped"),
    ],
)
def test_what_ended_before_the_cancel_was_seen_stands(
    rig: Rig, outcome: Outcome, state: str
) -> None:
    claim = rig.running()
    rig.cancel(claim.job_id)
    assert rig.finish(claim, outcome) == state
    if state == "completed":
        assert rig.result(claim.job_id) == "done"
    if state == "failed":
        assert rig.job(claim.job_id).error is not None


def test_a_finish_before_its_workers_burial_stands(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    rig.complete(claim, "first")
    assert rig.bury(worker) == []
    assert (rig.state(claim.job_id), rig.result(claim.job_id)) == ("completed", "first")


def test_a_strict_policy_does_not_retry_the_unknown(rig: Rig) -> None:
    claim = rig.running()
    assert rig.finish(claim, failure("unknown"), policy=Retry(unknown=False)) == "failed"


def test_the_other_side_may_name_the_pause(rig: Rig) -> None:
    claim = rig.running()
    error = failure().error
    rig.finish(claim, Failed(error, retry_after=120), policy=Retry(first=1, jitter=0))
    run_at = rig.job(claim.job_id).run_at
    assert run_at >= (as_datetime(rig.clock.now + 120 * SECOND) or run_at)
