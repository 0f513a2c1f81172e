"""Retention: whole jobs, counted from their end; live jobs never."""

from __future__ import annotations

import pytest

from benbi.errors import JobNotFound
from benbi.outcome import Suspended
from benbi.store.lifecycle import Told
from benbi.store.moves import STRETCH
from tests.conformance.test_cancel import brought_to
from tests.support.rig import DAY, SECOND, Rig, asked, step

PARTS = ["events", "steps", "questions", "progress", "arguments", "results"]


def gone(rig: Rig, job_id: str) -> bool:
    try:
        rig.job(job_id)
    except JobNotFound:
        return True
    return False


def ended(rig: Rig, state: str) -> str:
    """A job that ended in that state, and a newer one after it."""
    job_id = brought_to(rig, state)
    rig.put()
    return job_id


@pytest.mark.parametrize("state", ["completed", "canceled", "skipped"])
def test_what_ended_well_is_kept_for_a_week(rig: Rig, state: str) -> None:
    job_id = ended(rig, state)
    rig.clock.tick(7 * 86400 - 1)
    assert rig.prune() == 0
    rig.clock.tick(1)
    assert rig.prune() == 1
    assert gone(rig, job_id)


def test_dead_letters_are_kept_longer(rig: Rig) -> None:
    job_id = ended(rig, "failed")
    rig.clock.tick(30 * 86400 - 1)
    assert rig.prune() == 0
    rig.clock.tick(1)
    assert rig.prune() == 1
    assert gone(rig, job_id)


@pytest.mark.parametrize("state", ["pending", "scheduled", "running", "retrying", "input_required"])
def test_a_live_job_is_never_removed(rig: Rig, state: str) -> None:
    job_id = ended(rig, state)
    rig.clock.tick(1000 * 86400)
    assert rig.prune(keep_failed=0, keep_other=0) == 0
    assert rig.state(job_id) == state


def test_retention_counts_from_the_end(rig: Rig) -> None:
    claim = rig.running()
    rig.clock.tick(100 * 86400)
    rig.complete(claim, "late but whole")
    rig.put()
    rig.clock.tick(6 * 86400)
    assert rig.prune() == 0
    assert rig.result(claim.job_id) == "late but whole"


def test_a_task_may_keep_its_jobs_longer_or_shorter(rig: Rig) -> None:
    ids = []
    for keep in (60 * SECOND, 365 * DAY):
        claim = rig.running(keep=keep)
        rig.complete(claim)
        ids.append(claim.job_id)
    rig.put()
    rig.clock.tick(60)
    assert rig.prune() == 1
    rig.clock.tick(300 * 86400)
    assert rig.prune() == 0
    assert [gone(rig, job_id) for job_id in ids] == [True, False]


def test_a_job_goes_whole(rig: Rig) -> None:
    worker = rig.worker()
    claim = rig.running(worker, arguments={"a": 1}, key="k")
    rig.write(claim, Told("partial", None, "1"), steps=[step()], progress=(1, 2, "half"))
    rig.finish(claim, Suspended(asks=True), asks=[asked()])
    rig.answer(claim.job_id, "colour", "red")
    rig.complete(rig.claim_one(worker), "result")
    neighbour = rig.running(worker, arguments={"b": 2})
    before = counts(rig)
    assert before == dict.fromkeys(PARTS, 0) | before
    rig.clock.tick(8 * 86400)
    assert rig.prune() == 1
    left = counts(rig)
    assert left == {
        "events": 2,
        "steps": 0,
        "questions": 0,
        "progress": 0,
        "arguments": 1,
        "results": 0,
    }
    assert rig.state(neighbour.job_id) == "running"
    assert rig.put(key="k", arguments={"other": 1}) != claim.job_id, "its key is free again"


def counts(rig: Rig) -> dict[str, int]:
    """Rows of each part, whichever job they belong to."""

    return {part: rig.count(part) for part in PARTS}


def test_many_are_removed_in_stretches_and_none_is_passed_over(rig: Rig) -> None:
    rows = [rig.new(keep=0) for _ in range(STRETCH + 30)]
    ids = rig.put_rows(*rows)
    rig.put()
    for job_id in ids[::2]:
        rig.cancel(job_id)
    rig.put()
    rig.clock.tick(1)
    assert rig.prune() == len(ids[::2])
    assert [gone(rig, job_id) for job_id in ids[:4]] == [True, False, True, False]
    assert not gone(rig, ids[-1])


def test_a_retried_job_is_live_again(rig: Rig) -> None:
    job_id = brought_to(rig, "failed")
    rig.clock.tick(29 * 86400)
    rig.again(job_id)
    rig.clock.tick(29 * 86400)
    assert rig.prune() == 0
    rig.complete(rig.claim_one())
    rig.put()
    rig.clock.tick(6 * 86400)
    assert rig.prune() == 0, "counted from its new end"


def test_no_number_comes_again(rig: Rig) -> None:
    """Whatever retention removes: a stale claim or cursor must never fit something newer."""
    newest = brought_to(rig, "completed")
    before = rig.found(newest).n
    rig.clock.tick(100 * 86400)
    rig.prune()
    assert rig.found(rig.put()).n > before


def test_a_parent_of_a_live_child_stays(rig: Rig) -> None:
    parent = brought_to(rig, "completed")
    child = rig.put()
    numbers = f"{rig.found(parent).n}, {rig.found(child).n}"
    rig.script(f"INSERT INTO {{edges}} (parent_n, child_n, outcome) VALUES ({numbers}, 'ok');")
    rig.clock.tick(100 * 86400)
    assert rig.prune() == 0
    rig.complete(rig.claim_one())
    rig.put()
    assert rig.prune() == 1, "the parent; the child has its own week"
    assert gone(rig, parent) and not gone(rig, child)
