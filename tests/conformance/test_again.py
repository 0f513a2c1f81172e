"""Retry by hand: budgets are raised, counters never fall, and only what ended is retried."""

from __future__ import annotations

import pytest

from benbi.errors import NotPermitted
from tests.conformance.test_cancel import brought_to
from tests.support.rig import Rig, failure


@pytest.mark.parametrize("state", ["failed", "canceled", "skipped"])
def test_what_ended_without_a_result_can_be_retried(rig: Rig, state: str) -> None:
    job_id = brought_to(rig, state)
    before = rig.job(job_id)
    rig.again(job_id)
    job = rig.job(job_id)
    assert (job.state, job.reason, job.error, job.finished_at) == ("pending", "by_hand", None, None)
    assert (job.attempt, job.failures) == (before.attempt, before.failures)
    assert not job.cancel_requested
    assert rig.last(job_id) == ("pending", "by_hand")
    assert job.seq == before.seq + 1
    assert rig.complete(rig.claim_one()) == "completed"


@pytest.mark.parametrize(
    "state", ["pending", "scheduled", "running", "retrying", "input_required", "completed"]
)
def test_nothing_else_can(rig: Rig, state: str) -> None:
    job_id = brought_to(rig, state)
    before, log = rig.job(job_id), rig.types(job_id)
    with pytest.raises(NotPermitted, match=state):
        rig.again(job_id)
    assert (rig.job(job_id), rig.types(job_id)) == (before, log)


def test_a_retry_adds_the_budgets_of_the_task(rig: Rig) -> None:
    job_id = rig.put(max_attempts=2)
    worker = rig.worker()
    for _ in range(2):
        rig.finish(rig.claim_one(worker), failure())
        rig.clock.tick(3600)
        rig.due()
    assert rig.state(job_id) == "failed"
    rig.again(job_id, attempts=2, losses=4)
    job = rig.job(job_id)
    assert (job.failures, job.max_attempts, job.losses, job.max_losses) == (2, 4, 0, 4)
    assert rig.finish(rig.claim_one(worker), failure()) == "retrying"
    rig.clock.tick(3600)
    rig.due()
    assert rig.finish(rig.claim_one(worker), failure()) == "failed"
    assert rig.job(job_id).attempt == 4


def test_a_job_that_killed_its_workers_has_new_losses_to_spend(rig: Rig) -> None:
    job_id = rig.put(max_losses=1)
    worker = rig.worker()
    rig.claim_one(worker)
    rig.bury(worker)
    assert rig.state(job_id) == "failed"
    rig.again(job_id, losses=1)
    job = rig.job(job_id)
    assert (job.losses, job.max_losses) == (1, 2)
    assert rig.claim_one().losses == 1


def test_an_expired_job_does_not_expire_at_once_again(rig: Rig) -> None:
    job_id = rig.put(expires_in=60_000_000)
    rig.clock.tick(60)
    rig.expire()
    rig.again(job_id)
    assert rig.expire() == 0
    assert rig.complete(rig.claim_one()) == "completed"


def test_fresh_starts_the_next_generation(rig: Rig) -> None:
    claim = rig.running()
    rig.write(claim, progress=(7, 10, "seven"))
    rig.finish(claim, failure("bug"))
    rig.again(claim.job_id)
    assert rig.job(claim.job_id).generation == 1
    rig.cancel(claim.job_id)
    rig.again(claim.job_id, fresh=True)
    job = rig.job(claim.job_id)
    assert (job.generation, job.attempt, job.progress) == (2, 1, None)
    again = rig.claim_one()
    assert (again.generation, again.attempt, again.first_attempt) == (2, 2, 2)


def test_twice_by_hand_is_once(rig: Rig) -> None:
    job_id = brought_to(rig, "failed")
    rig.again(job_id)
    with pytest.raises(NotPermitted):
        rig.again(job_id)
    assert rig.types(job_id).count("pending") == 1


def test_the_key_still_finds_the_retried_job(rig: Rig) -> None:
    job_id = rig.put(key="k")
    rig.finish(rig.claim_one(), failure("bug"))
    rig.again(job_id)
    assert rig.put(key="k") == job_id


def test_each_generation_has_one_final_event(rig: Rig) -> None:
    job_id = rig.put()
    worker = rig.worker()
    for _ in range(3):
        rig.finish(rig.claim_one(worker), failure("bug"))
        rig.again(job_id, fresh=True)
    rig.complete(rig.claim_one(worker))
    finals = [type for type in rig.types(job_id) if type in ("failed", "completed")]
    assert finals == ["failed"] * 3 + ["completed"]
    assert rig.job(job_id).generation == 4
