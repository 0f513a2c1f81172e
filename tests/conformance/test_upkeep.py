"""Upkeep: what is due is promoted, what has outlived its time is ended; nothing before its time."""

from __future__ import annotations

from collections import Counter

import pytest

from benbi.job import as_datetime
from benbi.outcome import Suspended
from benbi.store.moves import STRETCH
from tests.support.rig import SECOND, Rig, asked, failure


def test_a_scheduled_job_is_promoted_when_its_time_has_come(rig: Rig) -> None:
    job_id = rig.put(delay=10)
    rig.clock.tick(9.999)
    assert rig.due() == 0
    assert rig.state(job_id) == "scheduled"
    rig.clock.tick(0.001)
    assert rig.due() == 1
    assert rig.last(job_id) == ("pending", "due")
    assert rig.due() == 0


def test_a_retrying_job_is_promoted_when_its_time_has_come(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, failure())
    rig.clock.tick(3600)
    assert rig.due() == 1
    assert rig.types(claim.job_id) == ["created", "started", "retrying", "pending"]


def test_a_delay_longer_than_any_timeout_runs_once(rig: Rig) -> None:
    job_id = rig.put(delay=90 * 86400, timeout=SECOND)
    for _ in range(100):
        rig.clock.tick(86400)
        rig.due()
        rig.expire()
        rig.stop_overrun()
    assert rig.types(job_id) == ["created", "pending"]


def test_many_due_jobs_are_promoted_in_stretches(rig: Rig) -> None:
    rig.put_rows(*[rig.new(delay=1) for _ in range(STRETCH + 20)])
    rig.clock.tick(1)
    assert [rig.due(), rig.due(), rig.due()] == [STRETCH, 20, 0]


def test_the_longest_overdue_are_promoted_first(rig: Rig) -> None:
    late = rig.put_rows(*[rig.new(delay=9) for _ in range(STRETCH)])
    (early,) = rig.put_rows(rig.new(delay=1))
    rig.clock.tick(10)
    rig.due()
    assert rig.state(early) == "pending"
    assert Counter(map(rig.state, late)) == {"pending": STRETCH - 1, "scheduled": 1}


@pytest.mark.parametrize("state", ["pending", "scheduled", "input_required"])
def test_a_job_that_was_not_done_in_time_expires(rig: Rig, state: str) -> None:
    expires = {"expires_in": 60 * SECOND}
    if state == "input_required":
        job_id = rig.put(**expires)
        rig.finish(rig.claim_one(), Suspended(asks=True), asks=[asked()])
    else:
        job_id = rig.put(delay=3600 if state == "scheduled" else None, **expires)
    rig.clock.tick(59)
    assert rig.expire() == 0
    rig.clock.tick(1)
    assert rig.expire() == 1
    job = rig.job(job_id)
    assert (job.state, job.reason, job.failures) == ("failed", "expired", 0)
    assert job.error is not None and job.error.kind == "expired"
    assert rig.last(job_id) == ("failed", "expired")
    assert rig.expire() == 0


def test_a_running_job_does_not_expire(rig: Rig) -> None:
    claim = rig.running(expires_in=60 * SECOND)
    rig.clock.tick(3600)
    assert rig.expire() == 0
    assert rig.complete(claim) == "completed"


def test_a_job_without_a_timeout_runs_as_long_as_it_likes(rig: Rig) -> None:
    claim = rig.running()
    rig.clock.tick(400 * 86400)
    assert rig.stop_overrun() == []
    assert rig.complete(claim) == "completed"


def test_a_job_past_its_timeout_and_grace_is_ended_whatever_its_worker_says(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker, timeout=10 * SECOND, grace=5 * SECOND)
    rig.clock.tick(16.9)
    assert rig.stop_overrun(allowance=2) == []
    rig.clock.tick(0.1)
    assert rig.stop_overrun(allowance=2, delay=1) == [claim.n]
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.failures, job.losses) == ("retrying", "timeout", 1, 0)
    assert job.run_at == as_datetime(rig.clock.now + SECOND)
    assert rig.last(claim.job_id) == ("retrying", "timeout")
    assert rig.beat(worker) == {}, "the worker learns that it holds nothing any more"


def test_the_last_timeout_is_a_dead_letter(rig: Rig) -> None:
    claim = rig.running(timeout=10 * SECOND, grace=0, max_attempts=1)
    rig.clock.tick(11)
    rig.stop_overrun()
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.failures) == ("failed", "timeout", 1)
    assert job.error is not None and job.error.type == "TimeoutError"


def test_a_cancel_wins_over_the_timeout(rig: Rig) -> None:
    claim = rig.running(timeout=10 * SECOND, grace=5 * SECOND)
    rig.clock.tick(14)
    rig.cancel(claim.job_id)
    rig.clock.tick(2)
    assert rig.stop_overrun() == [claim.n], "its deadline has passed, the cancel's grace has not"
    job = rig.job(claim.job_id)
    assert (job.state, job.failures) == ("canceled", 0)


def test_timeouts_count_from_the_start_of_the_attempt(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker, timeout=10 * SECOND, grace=0)
    rig.clock.tick(9)
    rig.finish(claim, Suspended(asks=True), asks=[asked()])
    rig.clock.tick(86400)
    assert rig.stop_overrun() == [], "waiting for a person is no running time"
    rig.answer(claim.job_id, "colour", "red")
    again = rig.claim_one(worker)
    rig.clock.tick(9)
    assert rig.stop_overrun() == []
    rig.clock.tick(2)
    assert rig.stop_overrun() == [again.n]


def test_upkeep_is_repeatable_by_anyone(rig: Rig) -> None:
    """Two processes that saw the same thing: the second finds nothing to do."""
    claim = rig.running(timeout=SECOND, grace=0)
    scheduled = rig.put(delay=1, expires_in=SECOND)
    rig.clock.tick(2)
    first = (rig.stop_overrun(), rig.expire(), rig.due())
    assert first == ([claim.n], 1, 0)
    assert (rig.stop_overrun(), rig.expire(), rig.due()) == ([], 0, 0)
    assert rig.state(scheduled) == "failed"


def test_the_look_of_upkeep_names_what_there_is_to_do(rig: Rig) -> None:
    def neglected() -> tuple[bool, bool]:
        ((overrun, expired),) = rig.rows("neglected", now=rig.clock.now)
        return bool(overrun), bool(expired)

    rig.running(timeout=10 * SECOND, grace=0)
    rig.put(expires_in=20 * SECOND)
    assert neglected() == (False, False)
    rig.clock.tick(11)
    assert neglected() == (True, False)
    rig.stop_overrun()
    rig.clock.tick(10)
    assert neglected() == (False, True)
    rig.expire()
    assert neglected() == (False, False)
