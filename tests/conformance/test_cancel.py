"""Cancel: at once where nothing runs, asked for where something does, nothing where it ended."""

from __future__ import annotations

import pytest

from benbi.errors import JobNotFound
from benbi.outcome import Completed, Outcome, Skipped, Suspended
from tests.support.rig import Rig, asked, failure


def brought_to(rig: Rig, state: str) -> str:
    """A new job, brought to that state."""
    if state == "pending":
        return rig.put()
    if state == "scheduled":
        return rig.put(delay=60)
    claim = rig.running()
    ways: dict[str, Outcome] = {
        "retrying": failure(),
        "input_required": Suspended(asks=True),
        "completed": Completed("1"),
        "failed": failure("bug"),
        "skipped": Skipped("unneeded"),
    }
    if state in ways:
        assert rig.finish(claim, ways[state], asks=[asked()]) == state
    if state == "canceled":
        rig.cancel(claim.job_id)
        assert rig.finish(claim, failure()) == "canceled"
    return claim.job_id


@pytest.mark.parametrize("state", ["pending", "scheduled", "retrying", "input_required"])
def test_what_does_not_run_is_canceled_at_once(rig: Rig, state: str) -> None:
    job_id = brought_to(rig, state)
    rig.cancel(job_id, "changed my mind")
    job = rig.job(job_id)
    assert (job.state, job.reason) == ("canceled", "changed my mind")
    assert job.finished_at is not None
    assert rig.last(job_id) == ("canceled", "changed my mind")
    rig.clock.tick(7200)
    assert rig.due() == 0
    assert rig.claim(rig.worker(), 10) == [], "no worker was needed, and none gets it"


def test_what_runs_is_asked(rig: Rig) -> None:
    job_id = brought_to(rig, "running")
    rig.cancel(job_id, "enough")
    job = rig.job(job_id)
    assert (job.state, job.cancel_requested) == ("running", True)
    events = rig.events(job_id)
    assert (events[-1].type, events[-1].reason) == ("cancel_requested", "enough")
    assert job.seq == events[-1].seq == 3


def test_asking_twice_is_asking_once(rig: Rig) -> None:
    job_id = brought_to(rig, "running")
    rig.cancel(job_id)
    before = rig.job(job_id)
    rig.cancel(job_id)
    assert rig.job(job_id) == before


@pytest.mark.parametrize("state", ["completed", "failed", "canceled", "skipped"])
def test_what_ended_stays_as_it_is(rig: Rig, state: str) -> None:
    job_id = brought_to(rig, state)
    before, log = rig.job(job_id), rig.types(job_id)
    rig.cancel(job_id)
    assert (rig.job(job_id), rig.types(job_id)) == (before, log)


@pytest.mark.parametrize("job_id", ["01890a5d-ac96-774b-bcce-b302099a8057", "nonsense", ""])
def test_an_unknown_id_is_an_error_and_leaves_no_trace(rig: Rig, job_id: str) -> None:
    with pytest.raises(JobNotFound):
        rig.cancel(job_id)
    assert rig.rows("events_since", cursor=0, owner=None, most=10) == []
    assert rig.state(rig.put()) == "pending", "the next job is not touched by it"


def test_the_worker_is_told_by_its_beat(rig: Rig) -> None:
    worker = rig.worker()
    first, second = rig.running(worker), rig.running(worker)
    rig.cancel(second.job_id)
    held = rig.beat(worker)
    assert held is not None
    assert {n: row.cancel_requested for n, row in held.items()} == {
        first.n: False,
        second.n: True,
    }


def test_a_body_that_does_not_stop_is_ended_after_its_grace(rig: Rig) -> None:
    claim = rig.running(grace=5_000_000)
    rig.cancel(claim.job_id)
    rig.clock.tick(6.9)
    assert rig.stop_overrun(allowance=2) == []
    rig.clock.tick(0.1)
    assert rig.stop_overrun(allowance=2) == [claim.n]
    assert rig.last(claim.job_id) == ("canceled", "abandoned")
    assert rig.job(claim.job_id).failures == 0


def test_grace_counts_from_the_cancel_only(rig: Rig) -> None:
    claim = rig.running(grace=0)
    rig.clock.tick(10_000)
    assert rig.stop_overrun() == [], "no cancel, no timeout: nothing ends it"
    assert rig.state(claim.job_id) == "running"
