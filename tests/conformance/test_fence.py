"""The fence: who lost a claim writes nothing, and who repeats a write writes it once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benbi.errors import ClaimLost
from benbi.job import Claim
from benbi.outcome import Completed, Released, Snoozed
from benbi.store.lifecycle import Told, Write
from tests.support.rig import Rig, failure, step

PARTIAL = Told("partial", None, "1")


def rescued(rig: Rig) -> tuple[Claim, Claim]:
    """(a claim whose worker was buried, the claim that came after it)."""
    dead = rig.worker("dead")
    stale = rig.running(dead)
    rig.bury(dead)
    return stale, rig.claim_one()


def overrun(rig: Rig) -> tuple[Claim, Claim]:
    stale = rig.running(timeout=1_000_000, grace=0)
    rig.clock.tick(2)
    assert rig.stop_overrun() == [stale.n]
    rig.clock.tick(2)
    rig.due()
    return stale, rig.claim_one()


def given_back(rig: Rig) -> tuple[Claim, Claim]:
    worker = rig.worker()
    stale = rig.running(worker)
    rig.release(worker, stale)
    return stale, rig.claim_one(worker)


def finished_and_reclaimed(rig: Rig) -> tuple[Claim, Claim]:
    worker = rig.worker()
    stale = rig.running(worker)
    rig.finish(stale, Released("drain"))
    return stale, rig.claim_one(worker)


LOST = [rescued, overrun, given_back, finished_and_reclaimed]
Lost = Callable[[Rig], tuple[Claim, Claim]]


@pytest.mark.parametrize("lose", LOST)
def test_a_lost_claim_can_not_finish_the_job(rig: Rig, lose: Lost) -> None:
    stale, present = lose(rig)
    before = rig.types(stale.job_id)
    with pytest.raises(ClaimLost):
        rig.complete(stale, "late")
    assert (rig.state(stale.job_id), rig.types(stale.job_id)) == ("running", before)
    assert rig.complete(present, "in time") == "completed"
    assert rig.result(stale.job_id) == "in time"


@pytest.mark.parametrize("lose", LOST)
def test_a_lost_claim_can_not_write(rig: Rig, lose: Lost) -> None:
    stale, present = lose(rig)
    before = rig.types(stale.job_id)
    with pytest.raises(ClaimLost):
        rig.write(stale, PARTIAL, steps=[step(result="late")], progress=(1, 2, "late"))
    assert rig.types(stale.job_id) == before
    assert rig.recorded(present).steps == {}
    assert rig.job(stale.job_id).progress is None


@pytest.mark.parametrize("lose", [rescued, overrun, given_back])
def test_a_lost_claim_can_not_repeat_what_it_wrote(rig: Rig, lose: Lost) -> None:
    """Before the next claim too: the token is gone with the claim."""
    worker = rig.worker("doomed")
    claim = rig.running(worker)
    rig.write(claim, PARTIAL)
    if lose is rescued:
        rig.bury(worker)
    elif lose is given_back:
        rig.release(worker, claim)
    else:
        rig.cancel(claim.job_id)
        rig.clock.tick(5)
        assert rig.stop_overrun() == [claim.n]
    with pytest.raises(ClaimLost):
        rig.repeat(claim)


def test_a_job_that_ended_takes_no_further_writes(rig: Rig) -> None:
    claim = rig.running()
    rig.complete(claim)
    with pytest.raises(ClaimLost):
        rig.write(claim, PARTIAL)
    with pytest.raises(ClaimLost):
        rig.finish(claim, failure())
    assert rig.types(claim.job_id) == ["created", "started", "completed"]


def test_a_claim_that_went_back_takes_no_further_writes(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, Snoozed(5))
    with pytest.raises(ClaimLost):
        rig.write(claim, PARTIAL)


def test_a_repeated_write_is_recorded_once(rig: Rig) -> None:
    claim = rig.running()
    first = rig.write(claim, PARTIAL, PARTIAL, steps=[step()])
    assert rig.repeat(claim) == first
    assert rig.types(claim.job_id) == ["created", "started", "partial", "partial"]
    rig.write(claim, PARTIAL)
    assert rig.types(claim.job_id)[-1] == "partial"
    assert rig.job(claim.job_id).seq == 5


def test_an_earlier_write_that_comes_again_late_is_recorded_once(rig: Rig) -> None:
    claim = rig.running()
    rig.write(claim, PARTIAL)
    early = rig.written[claim.n, claim.token]
    rig.write(claim, Told("partial", None, "2"))
    rig.store.record(early, 0, None).result()
    assert [event.data for event in rig.events(claim.job_id)[2:]] == [1, 2]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Completed('"done"'), "completed"),
        (failure(), "retrying"),
        (failure("permanent"), "failed"),
        (Released("drain"), "pending"),
        (Snoozed(5), "scheduled"),
    ],
)
def test_a_repeated_finish_is_accepted_and_changes_nothing(
    rig: Rig, outcome: Completed, state: str
) -> None:
    claim = rig.running()
    assert rig.finish(claim, outcome, PARTIAL) == state
    before, job = rig.types(claim.job_id), rig.job(claim.job_id)
    assert rig.repeat(claim).state == state
    assert (rig.types(claim.job_id), rig.job(claim.job_id)) == (before, job)


def test_a_repeated_finish_is_refused_once_the_job_is_claimed_again(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    rig.finish(claim, Released("drain"))
    rig.claim_one(worker)
    with pytest.raises(ClaimLost):
        rig.repeat(claim)


def test_a_repeated_finish_is_refused_once_the_job_was_retried_by_hand(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, failure("permanent"))
    rig.again(claim.job_id)
    with pytest.raises(ClaimLost):
        rig.repeat(claim)
    assert rig.state(claim.job_id) == "pending"


def test_a_write_learns_of_a_cancel(rig: Rig) -> None:
    claim = rig.running()
    assert not rig.write(claim, PARTIAL).cancel_requested
    rig.cancel(claim.job_id)
    assert rig.write(claim, PARTIAL).cancel_requested


def test_writes_of_many_claims_in_one_batch_keep_apart(rig: Rig) -> None:
    worker = rig.worker()
    for _ in range(20):
        rig.put()
    claims = rig.claim(worker, 20)
    rig.cancel(claims[3].job_id)
    tickets = []
    for place, claim in enumerate(claims):
        told = [Told("partial", None, str(place))] * (place % 3)
        tickets.append(rig.store.record(Write(claim, 1, told, [], []), 0, None))
    accepted = [ticket.result() for ticket in tickets]
    assert [place for place, one in enumerate(accepted) if one.cancel_requested] == [3]
    for place, claim in enumerate(claims):
        partials = [event.data for event in rig.events(claim.job_id) if event.type == "partial"]
        assert partials == [place] * (place % 3)
