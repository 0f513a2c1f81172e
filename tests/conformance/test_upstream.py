"""Jobs that wait for other jobs: released, failed or skipped in the transaction that ends them."""

from __future__ import annotations

from uuid import UUID

import pytest

from benbi.errors import JobNotFound, NotPermitted
from benbi.job import NewRun, new_id
from benbi.outcome import Completed, Released, Skipped, Suspended
from benbi.store import upstream
from benbi.store.database import Transaction
from tests.support.rig import Rig, asked, failure, step

AWAITS = Suspended(asks=False, awaits=True)


def end(rig: Rig, job_id: str, how: str) -> None:
    """Brings a pending job to its end: ok, failed, skipped, canceled, or what else ends one."""
    if how == "canceled":
        rig.cancel(job_id)
        return
    worker = rig.worker()
    claim = next(claim for claim in rig.claim(worker, 100) if claim.job_id == job_id)
    for other in rig.rows("held", worker=worker):
        if other[0] != claim.n:
            rig.release(worker, claim._replace(n=other[0], token=other[1]))
    match how:
        case "ok":
            rig.complete(claim)
        case "skipped":
            rig.finish(claim, Skipped("no need"))
        case "failed":
            rig.finish(claim, failure("bug"))
        case "lost":
            rig.bury(worker)
        case "stopped":
            rig.cancel(job_id)
            rig.release(worker, claim)
        case "abandoned":
            rig.cancel(job_id)
            rig.clock.tick(60)
            rig.stop_overrun()
        case "overrun":
            rig.clock.tick(60)
            rig.stop_overrun()
        case _:
            raise AssertionError(how)


def test_a_job_waits_for_what_comes_first(rig: Rig) -> None:
    first = rig.put()
    second = rig.put(after=[first])
    job = rig.job(second)
    assert (job.state, job.waits_for) == ("waiting", (first,))
    assert [claim.job_id for claim in rig.claim(rig.worker(), 10)] == [first]
    assert rig.types(second) == ["created"]


def test_the_last_one_to_end_releases_it_at_once(rig: Rig) -> None:
    parents = [rig.put(), rig.put()]
    child = rig.put(after=parents)
    end(rig, parents[1], "ok")
    assert rig.state(child) == "waiting"
    end(rig, parents[0], "ok")
    assert rig.state(child) == "pending"
    assert rig.last(child) == ("pending", "upstream")
    assert rig.types(child) == ["created", "pending"]
    assert rig.job(child).waits_for == ()


ENDS = {
    "ok": "pending",
    "failed": "failed",
    "canceled": "failed",
    "skipped": "skipped",
    "lost": "failed",
    "stopped": "failed",
    "abandoned": "failed",
    "overrun": "failed",
}


@pytest.mark.parametrize(("how", "state"), ENDS.items())
def test_every_way_to_end_is_told_to_who_waits(rig: Rig, how: str, state: str) -> None:
    first = rig.put(max_losses=1, max_attempts=1, timeout=30_000_000)
    second = rig.put(after=[first])
    third = rig.put(after=[second])
    end(rig, first, how)
    assert rig.state(second) == state
    if state != "pending":
        reason = {"failed": "upstream_failed", "skipped": "trigger_rule"}[state]
        for job_id in (second, third):
            assert (rig.state(job_id), rig.job(job_id).reason) == (state, reason)
            assert rig.last(job_id) == (state, reason)


def test_a_job_that_expires_or_is_not_answered_is_told_too(rig: Rig) -> None:
    late = rig.put(expires_in=60_000_000)
    after_late = rig.put(after=[late])
    rig.clock.tick(61)
    rig.expire()
    assert rig.job(after_late).reason == "upstream_failed"
    asking = rig.running()
    after_asking = rig.put(after=[asking.job_id])
    rig.finish(asking, Suspended(asks=True), asks=[asked(timeout=5)])
    rig.clock.tick(6)
    rig.expire()
    assert rig.state(asking.job_id) == "failed"
    assert rig.job(after_asking).reason == "upstream_failed"


def test_the_error_names_the_root(rig: Rig) -> None:
    root = rig.put()
    last = root
    for _ in range(3):
        last = rig.put(after=[last])
    end(rig, root, "failed")
    error = rig.job(last).error
    assert error is not None
    assert (error.type, error.kind) == ("UpstreamFailed", "upstream_failed")
    assert root in error.message


def test_parents_that_have_ended_are_counted_at_once(rig: Rig) -> None:
    done = rig.put()
    end(rig, done, "ok")
    child = rig.put(after=[done])
    assert (rig.state(child), rig.types(child)) == ("pending", ["created", "pending"])
    failed = rig.put()
    end(rig, failed, "failed")
    assert rig.job(rig.put(after=[failed])).reason == "upstream_failed"
    assert rig.state(rig.put(after=[failed], when="always")) == "pending"
    assert rig.state(rig.put(after=[rig.put(), failed], when="one_failed")) == "pending"


def test_a_rule_that_was_fulfilled_early_does_not_fire_again(rig: Rig) -> None:
    parents = [rig.put(), rig.put()]
    child = rig.put(after=parents, when="one_success")
    end(rig, parents[0], "ok")
    assert rig.state(child) == "pending"
    end(rig, child, "ok")
    end(rig, parents[1], "failed")
    assert rig.types(child) == ["created", "pending", "started", "completed"]
    assert rig.rows("standing_upstream", ns=f"[{rig.found(child).n}]")[0][2:6] == (2, 1, 1, 0)


def test_what_is_released_before_its_time_is_scheduled(rig: Rig) -> None:
    first = rig.put()
    child = rig.put(after=[first], delay=30)
    end(rig, first, "ok")
    assert rig.state(child) == "scheduled"
    rig.clock.tick(31)
    assert rig.due() == 1


def test_a_missing_or_foreign_parent_is_refused_whole(rig: Rig) -> None:
    foreign = rig.put(owner="somebody")
    missing = rig.new().id
    before = rig.count("jobs")
    for parent in (rig.job(foreign).id, str(UUID(bytes=missing))):
        with pytest.raises(JobNotFound, match=parent):
            rig.put_rows(rig.new(run=NewRun(new_id(), "whole")), rig.new(after=[parent]))
    assert rig.count("jobs") == before
    assert rig.state(rig.put(after=[foreign], owner="somebody")) == "waiting"


def test_an_enqueue_that_is_repeated_ties_nothing_twice(rig: Rig) -> None:
    first = rig.new()
    rows = [first, rig.new()._replace(after=(first.id,))]
    ids = rig.put_rows(*rows)
    assert rig.put_rows(*rows) == ids
    end(rig, ids[0], "ok")
    assert rig.types(ids[1]) == ["created", "pending"]


def test_a_key_that_is_known_stands_for_its_job(rig: Rig) -> None:
    known = rig.put(key="k")
    same = rig.new(key="k")
    child = rig.new()._replace(after=(same.id,))
    ids = rig.put_rows(same, child)
    assert ids[0] == known
    assert rig.job(ids[1]).waits_for == (known,)


def test_cancel_reaches_a_job_that_waits(rig: Rig) -> None:
    first = rig.put()
    child = rig.put(after=[first])
    rig.cancel(child)
    end(rig, first, "ok")
    assert rig.types(child) == ["created", "canceled"]


def test_a_repeated_finish_counts_once(rig: Rig) -> None:
    claim = rig.running()
    other = rig.put()
    child = rig.put(after=[claim.job_id, other])
    rig.complete(claim)
    rig.repeat(claim)
    assert rig.state(child) == "waiting"


# Cascades.


def test_a_fan_out_beyond_one_transaction_goes_on_in_upkeep(rig: Rig) -> None:
    first = rig.put()
    children = rig.put_rows(*[rig.new(after=[first]) for _ in range(upstream.STRETCH + 300)])
    end(rig, first, "ok")
    states = [rig.state(child) for child in children]
    assert (states.count("pending"), states.count("waiting")) == (upstream.STRETCH, 300)
    rig.settle()
    assert {rig.state(child) for child in children} == {"pending"}
    assert rig.rows("unsettled", most=1) == []


def test_a_chain_that_fails_beyond_one_transaction_goes_on_in_upkeep(rig: Rig) -> None:
    rows = [rig.new()]
    for _ in range(upstream.STRETCH + 100):
        rows.append(rig.new()._replace(after=(rows[-1].id,)))
    ids = rig.put_rows(*rows)
    end(rig, ids[0], "failed")
    assert rig.state(ids[upstream.STRETCH]) == "failed"
    assert rig.state(ids[-1]) == "waiting"
    rig.settle()
    assert rig.state(ids[-1]) == "failed"
    error = rig.job(ids[-1]).error
    assert error is not None
    assert ids[0] in error.message


def test_the_net_finds_a_job_that_nobody_released(rig: Rig) -> None:
    """It takes a fault to make one: a parent that told nobody, or an edge that is gone."""
    done = rig.put()
    end(rig, done, "ok")
    untold, cut, waiting = (rig.put(after=[rig.put()]) for _ in range(3))
    done_n, untold_n, cut_n = (rig.found(job_id).n for job_id in (done, untold, cut))

    def break_ties(tx: Transaction) -> None:
        for n in (untold_n, cut_n):
            tx.rows("forget_upstream", n=n)
        upstream.attach(tx, untold_n, [done_n])
        tx.rows("await_total", n=cut_n, total=0)

    rig.store.write_sync(break_ties)
    assert rig.store.read_sync(upstream.adrift, 0) == (0, [untold_n, cut_n])
    rig.store.write_sync(upstream.rescue, [untold_n, cut_n])
    assert (rig.state(untold), rig.state(cut)) == ("pending", "pending")
    assert rig.state(waiting) == "waiting"
    assert rig.store.read_sync(upstream.adrift, 0) == (0, [])


# A retry by hand.


def test_a_retried_parent_takes_along_what_failed_with_it(rig: Rig) -> None:
    root = rig.put()
    chain = [root]
    for _ in range(3):
        chain.append(rig.put(after=[chain[-1]]))
    cleanup = rig.put(after=[root], when="all_done")
    end(rig, root, "failed")
    end(rig, cleanup, "ok")
    ran = rig.types(cleanup)
    rig.again(root)
    assert rig.state(root) == "pending"
    for job_id in chain[1:]:
        assert rig.state(job_id) == "waiting"
        assert rig.last(job_id) == ("waiting", "by_hand")
        assert rig.job(job_id).error is None
    for job_id in chain:
        end(rig, job_id, "ok")
    assert {rig.state(job_id) for job_id in chain} == {"completed"}
    assert rig.types(cleanup) == ran


def test_a_child_that_ran_has_had_its_answer(rig: Rig) -> None:
    root = rig.put()
    child = rig.put(after=[root], when="all_done")
    end(rig, root, "failed")
    end(rig, child, "ok")
    before = rig.rows("standing_upstream", ns=f"[{rig.found(child).n}]")
    rig.again(root)
    end(rig, root, "ok")
    assert rig.rows("standing_upstream", ns=f"[{rig.found(child).n}]") == before
    assert rig.types(child) == ["created", "pending", "started", "completed"]


def test_what_still_fails_by_another_parent_stays(rig: Rig) -> None:
    one, two = rig.put(), rig.put()
    child = rig.put(after=[one, two])
    end(rig, one, "failed")
    end(rig, two, "failed")
    log = rig.types(child)
    rig.again(one)
    assert rig.types(child) == log
    end(rig, one, "ok")
    rig.again(two)
    assert rig.state(child) == "waiting"
    end(rig, two, "ok")
    assert rig.state(child) == "pending"


def test_a_parent_that_waits_still_is_counted_anew(rig: Rig) -> None:
    one, two = rig.put(), rig.put()
    child = rig.put(after=[one, two], when="all_done")
    end(rig, one, "failed")
    rig.again(one)
    end(rig, two, "ok")
    assert rig.state(child) == "waiting"
    end(rig, one, "ok")
    assert rig.state(child) == "pending"


def test_a_job_retried_itself_runs_whatever_came_first(rig: Rig) -> None:
    one, two = rig.put(), rig.put()
    child = rig.put(after=[one, two])
    end(rig, one, "failed")
    rig.again(child)
    assert rig.state(child) == "pending"
    other = rig.put(after=[two])
    rig.cancel(other)
    rig.again(other)
    assert rig.state(other) == "waiting"
    end(rig, two, "ok")
    assert rig.state(other) == "pending"
    with pytest.raises(NotPermitted):
        rig.again(other)


# A running job waits.


def test_a_running_job_waits_for_another(rig: Rig) -> None:
    other = rig.put()
    worker = rig.worker()
    claim = rig.running(worker, rank=-1)
    assert rig.finish(claim, AWAITS, awaits=[other], steps=[step()]) == "waiting"
    job = rig.job(claim.job_id)
    assert (job.reason, job.waits_for, job.failures) == ("awaits", (other,), 0)
    end(rig, other, "failed")
    assert rig.last(claim.job_id) == ("pending", "upstream")
    assert rig.complete(rig.claim_one(worker)) == "completed"


def test_what_ended_before_the_suspension_is_not_waited_for(rig: Rig) -> None:
    other = rig.put()
    end(rig, other, "ok")
    claim = rig.running()
    rig.finish(claim, AWAITS, awaits=[other])
    assert rig.types(claim.job_id) == ["created", "started", "waiting", "pending"]
    gone = rig.running(rank=-1)
    rig.finish(gone, AWAITS, awaits=["00000000-0000-7000-8000-000000000000"])
    assert rig.state(gone.job_id) == "pending"


def test_a_cancel_wins_over_waiting(rig: Rig) -> None:
    other = rig.put()
    worker = rig.worker()
    claim = rig.running(worker, rank=-1)
    rig.cancel(claim.job_id)
    assert rig.finish(claim, AWAITS, awaits=[other]) == "canceled"


def test_waiting_forgets_what_was_waited_for_before(rig: Rig) -> None:
    one, two = rig.put(), rig.put()
    child = rig.put(after=[one, two], when="one_success", rank=-1)
    end(rig, one, "ok")
    claim = rig.claim_one()
    assert claim.job_id == child
    other = rig.put()
    rig.finish(claim, AWAITS, awaits=[other])
    end(rig, two, "failed")
    assert rig.state(child) == "waiting"
    end(rig, other, "ok")
    assert rig.state(child) == "pending"


def test_a_released_job_keeps_its_place_after_a_drain(rig: Rig) -> None:
    first = rig.put()
    child = rig.put(after=[first])
    end(rig, first, "ok")
    claim = rig.claim_one()
    assert rig.finish(claim, Released("drain")) == "pending"
    assert rig.finish(rig.claim_one(), Completed("1")) == "completed"
    assert rig.state(child) == "completed"


# A running job adds others.


def test_jobs_that_are_added_by_a_running_one_are_added_once(rig: Rig) -> None:
    claim = rig.running()
    rows = [rig.new(), rig.new()]
    rig.add_jobs(claim, rows)
    rig.repeat(claim)
    assert len(rig.claim(rig.worker(), 10)) == 2


def test_a_canceled_job_adds_nothing(rig: Rig) -> None:
    claim = rig.running()
    rig.cancel(claim.job_id)
    assert rig.add_jobs(claim, [rig.new()]).cancel_requested
    assert rig.claim(rig.worker(), 10) == []


# Retention.


def test_a_run_is_forgotten_with_its_last_job(rig: Rig) -> None:
    run = NewRun(new_id(), "nightly")
    ids = rig.put_rows(rig.new(run=run), rig.new(run=run))
    rig.put()
    end(rig, ids[0], "ok")
    rig.clock.tick(40 * 86400)
    rig.prune()
    assert rig.rows("run_of_id", id=run.id)
    end(rig, ids[1], "ok")
    rig.put()
    rig.cancel(rig.put())
    rig.clock.tick(40 * 86400)
    rig.prune()
    assert rig.rows("run_of_id", id=run.id) == []
