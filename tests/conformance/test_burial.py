"""Burial and reconciliation: a dead worker's jobs go on, a living worker's are left alone."""

from __future__ import annotations

from benbi.job import as_datetime
from benbi.store import workers
from benbi.store.workers import LOSS_DELAY, Worker
from tests.support.rig import SECOND, Rig


def lose_again(rig: Rig, job_id: str) -> str:
    """Claims the job with a new worker that dies; the state it arrives in."""
    rig.clock.tick(60)
    rig.due()
    worker = rig.worker("dead")
    assert rig.claim_one(worker).job_id == job_id
    rig.bury(worker)
    return rig.state(job_id)


def test_a_dead_workers_jobs_are_pending_at_once(rig: Rig) -> None:
    worker = rig.worker()
    claims = [rig.running(worker) for _ in range(3)]
    assert sorted(rig.bury(worker) or []) == [claim.n for claim in claims]
    for claim in claims:
        job = rig.job(claim.job_id)
        assert (job.state, job.reason, job.losses, job.failures) == ("pending", "lost", 1, 0)
        assert rig.types(claim.job_id) == ["created", "started", "pending"]
    assert len(rig.claim(rig.worker(), 1)) == 1


def test_the_workers_of_a_process_are_buried_by_its_mark(rig: Rig) -> None:
    """And not those of another process whose mark begins alike."""
    ids = ["host-1-ab-1", "host-1-ab-2", "host-12-ab-1", "host-1-abc"]
    numbers = [
        rig.store.write_sync(
            workers.register, Worker(name, "host", 1, 1, ["default"], ["work"], "")
        )
        for name in ids
    ]
    claims = [rig.running(number) for number in numbers]
    buried = rig.store.write_sync(workers.bury_process, "host-1-ab-", "it was killed by SIGSEGV")
    assert sorted(buried) == [claim.n for claim in claims[:2]]
    assert [rig.state(claim.job_id) for claim in claims] == ["pending"] * 2 + ["running"] * 2
    event = rig.events(claims[0].job_id)[-1]
    assert (event.reason, event.data["message"]) == ("lost", "it was killed by SIGSEGV")
    assert rig.store.write_sync(workers.bury_process, "host-1-ab-", "again") == []


def test_a_process_that_was_ended_on_purpose_costs_its_jobs_nothing(rig: Rig) -> None:
    told = Worker("host-1-ab-1", "host", 1, 1, ["default"], ["work"], "")
    claim = rig.running(rig.store.write_sync(workers.register, told))
    assert rig.store.write_sync(workers.release_process, "host-1-ab-", "drain") == [claim.n]
    assert rig.last(claim.job_id) == ("pending", "drain")
    assert rig.job(claim.job_id).losses == 0


def test_losses_are_a_budget_of_their_own(rig: Rig) -> None:
    job_id = rig.put(max_losses=3, max_attempts=1)
    assert lose_again(rig, job_id) == "pending"
    assert lose_again(rig, job_id) == "retrying"
    assert rig.job(job_id).run_at == as_datetime(rig.clock.now + LOSS_DELAY)
    assert lose_again(rig, job_id) == "failed"
    job = rig.job(job_id)
    assert (job.reason, job.losses, job.failures, job.attempt) == ("lost", 3, 0, 3)
    assert job.error is not None
    assert (job.error.type, job.error.kind) == ("WorkerLost", "lost")
    assert rig.types(job_id)[-1] == "failed"


def test_a_deploy_day_crash_of_a_one_attempt_job_is_no_dead_letter(rig: Rig) -> None:
    job_id = rig.put(max_attempts=1)
    assert lose_again(rig, job_id) == "pending"
    assert rig.complete(rig.claim_one()) == "completed"


def test_a_worker_that_beat_meanwhile_is_not_buried(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    seen = rig.beat_no(worker)
    rig.beat(worker)
    assert rig.bury(worker, seen) is None
    assert rig.state(claim.job_id) == "running"
    assert rig.beat_no(worker) is not None, "its row stays"
    assert rig.complete(claim) == "completed"


def test_time_alone_buries_nobody(rig: Rig) -> None:
    """A beat is a counter: that the database's clock jumped says nothing."""
    worker = rig.worker()
    rig.running(worker)
    rig.beat(worker)
    seen = rig.beat_no(worker)
    rig.clock.tick(365 * 86400)
    assert rig.beat_no(worker) == seen
    rig.beat(worker)
    assert rig.bury(worker, seen) is None


def test_a_burial_touches_no_other_workers_jobs(rig: Rig) -> None:
    dead, alive = rig.worker("dead"), rig.worker("alive")
    rig.running(dead)
    claim = rig.running(alive)
    rig.bury(dead)
    assert rig.state(claim.job_id) == "running"
    assert set(rig.beat(alive) or {}) == {claim.n}


def test_a_second_burial_finds_nobody(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    assert rig.bury(worker, 0) == [claim.n]
    assert rig.bury(worker, 0) is None
    assert rig.job(claim.job_id).losses == 1


def test_the_buried_learns_it_by_its_next_beat(rig: Rig) -> None:
    worker = rig.worker()
    rig.bury(worker)
    assert rig.beat(worker) is None


def test_a_cancel_wins_over_the_rescue(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    rig.cancel(claim.job_id)
    rig.bury(worker)
    assert rig.last(claim.job_id) == ("canceled", "requested")
    job = rig.job(claim.job_id)
    assert (job.finished_at, job.losses) == (as_datetime(rig.clock.now), 0)


def test_a_beat_says_what_the_worker_holds(rig: Rig) -> None:
    worker = rig.worker()
    claims = {(claim := rig.running(worker)).n: claim.token for _ in range(3)}
    done = rig.running(worker)
    rig.complete(done)
    held = rig.beat(worker)
    assert held is not None
    assert {n: row.token for n, row in held.items()} == claims


def test_a_claim_that_nobody_holds_goes_back_uncharged(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker, max_attempts=1, max_losses=1)
    assert rig.release(worker, claim) == [claim.n]
    job = rig.job(claim.job_id)
    assert (job.state, job.reason, job.failures, job.losses) == ("pending", "unheld", 0, 0)
    assert rig.last(claim.job_id) == ("pending", "unheld")
    assert rig.release(worker, claim) == [], "once"


def test_only_the_named_claim_goes_back(rig: Rig) -> None:
    worker, other = rig.worker(), rig.worker()
    claim = rig.running(worker)
    assert rig.release(other, claim) == []
    assert rig.release(worker, claim._replace(token=claim.token + 1)) == []
    assert rig.state(claim.job_id) == "running"


def test_a_cancel_wins_over_giving_back(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker)
    rig.cancel(claim.job_id)
    rig.release(worker, claim)
    assert rig.last(claim.job_id) == ("canceled", "requested")


def test_signing_off_gives_everything_back_uncharged(rig: Rig) -> None:
    worker = rig.worker()
    claims = [rig.running(worker) for _ in range(2)]
    rig.cancel(claims[1].job_id)
    assert sorted(rig.sign_off(worker)) == [claim.n for claim in claims]
    assert rig.beat(worker) is None
    first, second = (rig.job(claim.job_id) for claim in claims)
    assert (first.state, first.reason, first.losses, first.failures) == ("pending", "drain", 0, 0)
    assert second.state == "canceled"


def test_a_workers_number_is_never_used_again(rig: Rig) -> None:
    """Whoever comes back under an old name or number must not pass for the dead."""
    numbers = []
    for _ in range(3):
        told = Worker("same-host-1", "host", 1, 1, ["default"], ["work"], "0")
        worker = rig.store.write_sync(workers.register, told)
        numbers.append(worker)
        rig.bury(worker)
    assert len(set(numbers)) == 3


def test_registering_again_after_an_unknown_commit_is_the_same_worker(rig: Rig) -> None:
    told = Worker("host-1-abcd", "host", 1, 1, ["default"], ["work"], "0")
    first = rig.store.write_sync(workers.register, told)
    assert rig.store.write_sync(workers.register, told) == first


def test_rescue_does_not_wait_for_a_timeout_of_hours(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker, timeout=6 * 3600 * SECOND)
    rig.clock.tick(1)
    rig.bury(worker)
    assert rig.state(claim.job_id) == "pending"
