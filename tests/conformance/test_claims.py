"""Claims: who gets which job, in which order, and who gets none."""

from __future__ import annotations

import pytest

from benbi.errors import ClaimLost
from benbi.outcome import Completed, Suspended
from tests.support.rig import Rig, asked, failure


def ids(rig: Rig, *rows: dict[str, object]) -> list[str]:
    return [rig.put(**row) for row in rows]


def test_a_claim_starts_an_attempt(rig: Rig) -> None:
    job_id = rig.put(arguments={"a": 1}, owner="u1", timeout=7_000_000)
    claim = rig.claim_one()
    job = rig.job(job_id)
    assert (job.state, job.attempt, job.seq) == ("running", 1, 2)
    assert (claim.job_id, claim.attempt, claim.seq, claim.owner) == (job_id, 1, 2, "u1")
    assert (claim.arguments, claim.timeout, claim.generation) == ('{"a": 1}', 7_000_000, 1)
    assert rig.types(job_id) == ["created", "started"]
    assert rig.events(job_id)[-1].attempt == 1


def test_each_job_is_claimed_once(rig: Rig) -> None:
    put = {rig.put() for _ in range(30)}
    workers = [rig.worker() for _ in range(3)]
    claimed = [claim.job_id for worker in workers for claim in rig.claim(worker, 12)]
    assert len(claimed) == 30
    assert set(claimed) == put


def test_priority_goes_first_however_many_wait_before_it(rig: Rig) -> None:
    for _ in range(60):
        rig.put()
    low, high = ids(rig, {"rank": 1}, {"rank": -1})
    worker = rig.worker()
    assert rig.claim_one(worker).job_id == high
    rest = [claim.job_id for claim in rig.claim(worker, 61)]
    assert rest[-1] == low


def test_within_a_priority_the_due_time_decides_then_the_age(rig: Rig) -> None:
    rig.clock.tick(100)
    now = rig.clock.now
    third, first, fourth, second = ids(
        rig, {"run_at": now - 5}, {"run_at": now - 9}, {"run_at": now - 5}, {"run_at": now - 7}
    )
    worker = rig.worker()
    order = [claim.job_id for claim in rig.claim(worker, 2) + rig.claim(worker, 2)]
    assert order == [first, second, third, fourth]


def test_several_queues_are_one_order(rig: Rig) -> None:
    put = []
    for place in range(20):
        put.append(rig.put(queue=f"q{place % 3}"))
        rig.clock.tick(1)
    worker = rig.worker()
    got = [claim.job_id for claim in rig.claim(worker, 7, queues=["q2", "q0", "q1"])]
    assert got == put[:7]


def test_only_the_workers_queues_and_tasks_are_claimed(rig: Rig) -> None:
    rig.put(queue="other")
    unknown = rig.put("unheard_of")
    mine = rig.put()
    worker = rig.worker()
    assert [claim.job_id for claim in rig.claim(worker, 10)] == [mine]
    assert rig.state(unknown) == "pending", "what no worker knows waits for one that does"
    assert rig.claim(worker, 10, tasks=["work", "unheard_of"])[0].job_id == unknown


def test_unknown_tasks_at_the_head_block_nobody(rig: Rig) -> None:
    for _ in range(100):
        rig.put("unheard_of", rank=-10)
    mine = rig.put()
    assert rig.claim_one().job_id == mine


@pytest.mark.parametrize("state", ["scheduled", "retrying", "input_required", "completed"])
def test_nothing_but_pending_is_claimed(rig: Rig, state: str) -> None:
    put_into(rig, state)
    assert rig.claim(rig.worker(), 10) == []


def put_into(rig: Rig, state: str) -> str:
    """A job in that state."""
    if state == "scheduled":
        return rig.put(delay=60)
    claim = rig.running()
    outcomes = {
        "retrying": failure(),
        "input_required": Suspended(asks=True),
        "completed": Completed("null"),
    }
    assert rig.finish(claim, outcomes[state], asks=[asked()]) == state
    return claim.job_id


def test_a_claim_takes_no_more_than_it_asked_for(rig: Rig) -> None:
    for _ in range(5):
        rig.put()
    worker = rig.worker()
    assert len(rig.claim(worker, 2)) == 2
    assert len(rig.claim(worker, 10)) == 3
    assert rig.claim(worker, 10) == []


def test_a_buried_worker_claims_nothing(rig: Rig) -> None:
    worker = rig.worker()
    rig.bury(worker)
    job_id = rig.put()
    with pytest.raises(ClaimLost):
        rig.claim(worker)
    assert (rig.state(job_id), rig.types(job_id)) == ("pending", ["created"])


def test_a_worker_that_signed_off_claims_nothing(rig: Rig) -> None:
    worker = rig.worker()
    rig.sign_off(worker)
    rig.put()
    with pytest.raises(ClaimLost):
        rig.claim(worker)


def lost_once(rig: Rig, count: int) -> list[str]:
    """Jobs that were running when their worker died, pending again."""
    put = [rig.put() for _ in range(count)]
    dead = rig.worker("dead")
    assert len(rig.claim(dead, count)) == count
    rig.bury(dead)
    return put


def test_of_jobs_that_lost_a_worker_one_is_claimed_at_a_time(rig: Rig) -> None:
    lost = lost_once(rig, 3)
    healthy = [rig.put() for _ in range(4)]
    worker = rig.worker()
    got = [claim.job_id for claim in rig.claim(worker, 10)]
    assert got == [lost[0], *healthy]
    assert [claim.job_id for claim in rig.claim(worker, 10)] == [lost[1]]


def test_where_one_runs_no_other_that_lost_a_worker_is_claimed(rig: Rig) -> None:
    lost_once(rig, 2)
    healthy = rig.put()
    assert [claim.job_id for claim in rig.claim(rig.worker(), 10, fragile=False)] == [healthy]


@pytest.mark.parametrize("fragile", [True, False])
def test_many_that_lost_a_worker_do_not_starve_the_healthy(rig: Rig, fragile: bool) -> None:
    lost = lost_once(rig, 60)
    healthy = [rig.put() for _ in range(5)]
    got = [claim.job_id for claim in rig.claim(rig.worker(), 4, fragile=fragile)]
    assert got == ([lost[0], *healthy[:3]] if fragile else healthy[:4])
