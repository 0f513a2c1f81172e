"""The read side: pages, filters, owners, the catalogue, and what an idle worker looks at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benbi.errors import JobNotFound
from benbi.job import Job, as_datetime
from benbi.store import views, workers
from tests.conformance.test_cancel import brought_to
from tests.support.rig import SECOND, Rig, failure


def listed(rig: Rig, **asked: Any) -> list[Job]:
    names = ("owner", "state", "task", "queue", "before")
    return rig.store.read_sync(
        views.jobs, *(asked.get(name) for name in names), asked.get("limit", 50)
    )


def test_jobs_are_listed_newest_first_in_pages(rig: Rig) -> None:
    put = [rig.put() for _ in range(7)]
    seen: list[str] = []
    while page := listed(rig, limit=3, before=seen[-1] if seen else None):
        rig.put()  # what comes in meanwhile moves no page
        seen += [job.id for job in page]
        if len(seen) >= 7:
            break
    assert seen == put[::-1]


def test_jobs_are_found_by_what_they_are(rig: Rig) -> None:
    mine = rig.put(owner="u1", queue="gifts")
    other = rig.put("other", owner="u2")
    done = brought_to(rig, "completed") if rig.cancel(mine) is None else ""
    assert [job.id for job in listed(rig, owner="u1")] == [mine]
    assert [job.id for job in listed(rig, task="other")] == [other]
    assert [job.id for job in listed(rig, queue="gifts")] == [mine]
    assert [job.id for job in listed(rig, state="completed")] == [done]
    assert [job.id for job in listed(rig, state="canceled", owner="u2")] == []


def test_foreign_and_missing_look_alike(rig: Rig) -> None:
    job_id = rig.put(owner="u1")
    missing = "01890a5d-ac96-774b-bcce-b302099a8057"
    told = []
    for asked_for in (job_id, missing):
        with pytest.raises(JobNotFound) as refusal:
            rig.job(asked_for, owner="u2")
        told.append(str(refusal.value).replace(asked_for, "…"))
    assert told[0] == told[1]
    assert rig.job(job_id, owner="u1") == rig.job(job_id)
    with pytest.raises(JobNotFound):
        rig.job(job_id, owner="")


def test_a_listed_job_is_the_job(rig: Rig) -> None:
    claim = rig.running(owner="u1", key="k", rank=-3)
    rig.write(claim, progress=(1, 4, "history loaded"))
    (job,) = listed(rig)
    assert job == rig.job(claim.job_id)
    assert (job.key, job.priority) == ("k", 3)
    rig.finish(claim, failure("bug"))
    assert listed(rig)[0].error == rig.job(claim.job_id).error


def entry(task: str, **other: Any) -> dict[str, Any]:
    made = {
        "task": task,
        "queue": "default",
        "doc": "Does it.",
        "arguments_schema": json.dumps({"type": "object"}),
        "result_schema": json.dumps({}),
        "tool": None,
        "defaults": json.dumps({"max_attempts": 3}),
        "code_version": "1",
    }
    return made | other


def test_the_catalogue_says_what_workers_can_run(rig: Rig) -> None:
    rig.store.write_sync(workers.publish, [entry("b"), entry("a", tool='{"wait": 20}')])
    first, second = rig.store.read_sync(views.catalogue)
    assert (first.task, second.task) == ("a", "b")
    assert (first.tool, second.tool) == ({"wait": 20}, None)
    assert first.arguments_schema == {"type": "object"}
    assert first.last_seen == as_datetime(rig.clock.now)


def test_publishing_again_replaces_the_entry(rig: Rig) -> None:
    rig.store.write_sync(workers.publish, [entry("a"), entry("b")])
    rig.clock.tick(10)
    rig.store.write_sync(workers.publish, [entry("a", queue="slow", code_version="2")])
    first, second = rig.store.read_sync(views.catalogue)
    assert (first.queue, first.code_version) == ("slow", "2")
    assert first.last_seen > second.last_seen


def test_a_worker_looks_before_it_claims(rig: Rig) -> None:
    worker = rig.worker()

    def look() -> tuple[Any, ...]:
        (row,) = rig.rows("look", queues='["default"]', tasks='["work"]', fragile=1, worker=worker)
        return row

    assert look() == (0, 0, None)
    rig.put(queue="other")
    rig.put("other")
    assert look() == (0, 0, None), "nothing for this worker"
    rig.put(delay=60)
    assert look() == (0, 0, rig.clock.now + 60 * SECOND)
    claim = rig.running(worker)
    rig.put()
    rig.cancel(claim.job_id)
    assert look()[:2] == (1, 1)
