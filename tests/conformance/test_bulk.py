"""Cancel and retry of all jobs that filters choose, page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benbi.bulk import Bulk
from benbi.errors import Refused
from benbi.job import Job, NewJob
from benbi.store import bulk, upstream
from benbi.store.bulk import Ended
from benbi.store.store import Store
from tests.conformance.test_cancel import brought_to
from tests.support.rig import Rig, failure

# Pages and cascades are short here, so that few jobs make several of them.
PAGE = 20
EDGES = 100

LIVE = ["waiting", "scheduled", "pending", "running", "retrying", "input_required"]


class Verbs(Bulk):
    """The verbs on the store of a rig."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig

    @property
    def store(self) -> Store:
        return self._rig.store

    def budgets(self, job: Job | Ended) -> tuple[int, int]:
        return (5, 7) if job.task == "work" else (job.max_attempts, job.max_losses)


@pytest.fixture
def verbs(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Verbs:
    monkeypatch.setattr(bulk, "PAGE", PAGE)
    monkeypatch.setattr(upstream, "STRETCH", EDGES)
    return Verbs(rig)


def put_many(rig: Rig, count: int, task: str = "work", **fields: Any) -> list[str]:
    return rig.put_rows(*(rig.new(task, **fields) for _ in range(count)))


def chained(rig: Rig, count: int) -> list[str]:
    """Jobs that wait for each other, one after the other."""
    rows: list[NewJob] = []
    for _ in range(count):
        rows.append(rig.new()._replace(after=tuple(row.id for row in rows[-1:])))
    return rig.put_rows(*rows)


def in_between(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]
) -> list[tuple[Any, ...]]:
    """``act`` comes between the read of each page and its transaction. The pages, as they are
    taken."""
    write, pages = rig.store.write_sync, []

    def watched(move: Any, *args: Any, **kwargs: Any) -> Any:
        if move in (bulk.cancel, bulk.again):
            pages.append(args)
            act()
        return write(move, *args, **kwargs)

    monkeypatch.setattr(rig.store, "write_sync", watched)
    return pages


def standings(rig: Rig, ids: Sequence[str]) -> set[tuple[str, str | None]]:
    return {(str(job.state), job.reason) for job in map(rig.job, ids)}


# Cancel.


@pytest.mark.parametrize("state", LIVE)
def test_what_has_not_ended_is_canceled(rig: Rig, verbs: Verbs, state: str) -> None:
    other = rig.put(queue="other")
    job_id = rig.put(after=[other]) if state == "waiting" else brought_to(rig, state)
    assert verbs.cancel_many_sync(queue="default", dry_run=True) == 1
    assert rig.state(job_id) == state
    assert verbs.cancel_many_sync(queue="default", reason="closing down") == 1
    if state == "running":
        assert rig.last(job_id) == ("cancel_requested", "closing down")
        assert verbs.cancel_many_sync(queue="default", dry_run=True) == 0
        assert verbs.cancel_many_sync(queue="default") == 0, "asked already"
    else:
        assert rig.last(job_id) == ("canceled", "closing down")
    assert rig.state(other) == "pending"


def test_what_has_ended_is_left_alone(rig: Rig, verbs: Verbs) -> None:
    ended = [brought_to(rig, state) for state in ("completed", "failed", "canceled", "skipped")]
    before = [rig.job(job_id) for job_id in ended]
    assert verbs.cancel_many_sync(task="work", dry_run=True) == 0
    assert verbs.cancel_many_sync(task="work") == 0
    assert [rig.job(job_id) for job_id in ended] == before


def test_the_filters_are_those_of_the_list(rig: Rig, verbs: Verbs) -> None:
    rows = [{}, {"owner": "u1"}, {"queue": "gifts"}, {"owner": "u1", "queue": "gifts"}]
    ids = [rig.put(task, **fields) for fields in rows for task in ("work", "other")]
    ids.append(rig.put(delay=60, owner="u2"))
    for filters, count in (
        ({"owner": "u1", "task": "other", "queue": "gifts"}, 1),
        ({"owner": "u1"}, 3),
        ({"state": "scheduled"}, 1),
        ({"queue": "gifts", "task": "work"}, 1),
        ({"owner": "", "task": "other"}, 2),
        ({"owner": "nobody"}, 0),
        ({"state": "pending"}, 1),
    ):
        assert verbs.cancel_many_sync(**filters, dry_run=True) == count, filters
        assert verbs.cancel_many_sync(**filters) == count, filters
    assert standings(rig, ids) == {("canceled", "requested")}


@pytest.mark.parametrize("asked", [{}, {"dry_run": True}, {"owner": None, "task": None}])
def test_no_filter_at_all_is_refused(rig: Rig, verbs: Verbs, asked: dict[str, Any]) -> None:
    job_id = rig.put()
    for verb in (verbs.cancel_many_sync, verbs.retry_many_sync):
        with pytest.raises(Refused, match="task="):
            verb(**asked)
    assert rig.types(job_id) == ["created"]


def test_the_children_of_canceled_parents_are_told(rig: Rig, verbs: Verbs) -> None:
    parents = put_many(rig, PAGE + 5, "parent")
    rows = [rig.new(after=[parent]) for parent in parents]
    rows += [rig.new()._replace(after=(row.id,)) for row in rows]
    children = rig.put_rows(*rows)
    cleanup = rig.put(after=parents, when="all_done")
    assert verbs.cancel_many_sync(task="parent") == len(parents)
    assert standings(rig, parents) == {("canceled", "requested")}
    assert standings(rig, children) == {("failed", "upstream_failed")}
    assert {rig.last(child) for child in children} == {("failed", "upstream_failed")}
    assert rig.last(cleanup) == ("pending", "upstream")


def test_many_children_are_told_in_several_transactions(rig: Rig, verbs: Verbs) -> None:
    """A page holds the write lock for no more edges than one canceled job does."""
    parents = put_many(rig, 4, "parent")
    children = [child for parent in parents for child in put_many(rig, 30, after=[parent])]
    assert verbs.cancel_many_sync(task="parent") == 4
    told = [child for child in children if rig.state(child) == "failed"]
    assert len(told) == EDGES
    rig.settle()
    assert standings(rig, children) == {("failed", "upstream_failed")}


def test_what_waits_for_another_of_them_does_not_fail_with_it(rig: Rig, verbs: Verbs) -> None:
    chain = chained(rig, PAGE + 5)
    assert verbs.cancel_many_sync(task="work") == len(chain)
    assert standings(rig, chain) == {("canceled", "requested")}
    assert {tuple(rig.types(job_id)) for job_id in chain} == {("created", "canceled")}


def test_what_left_the_state_meanwhile_is_left_alone(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = put_many(rig, 4)
    worker = rig.worker()
    in_between(rig, monkeypatch, lambda: rig.claim(worker, 2))
    assert verbs.cancel_many_sync(state="pending") == 2
    assert [rig.job(job_id).cancel_requested for job_id in ids] == [False] * 4
    assert [rig.state(job_id) for job_id in ids] == ["running"] * 2 + ["canceled"] * 2


def test_jobs_come_and_end_meanwhile(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = put_many(rig, 5 * PAGE)
    worker, new, done, gone = rig.worker(), list[str](), list[str](), list[str]()

    def meanwhile() -> None:
        new.extend(put_many(rig, PAGE))
        for claim in rig.claim(worker, 3):
            rig.complete(claim)
            done.append(claim.job_id)
        # The newest one left is of the page that was just read.
        left = [job_id for job_id in ids if rig.state(job_id) == "pending"]
        gone.append(left[-1])
        rig.cancel(left[-1], "by somebody")

    pages = in_between(rig, monkeypatch, meanwhile)
    changed = verbs.cancel_many_sync(task="work")
    taken = [n for page in pages for n in page[0]]
    assert taken == sorted(set(taken), reverse=True), "nothing is selected twice"
    assert max(map(len, (page[0] for page in pages))) == PAGE
    assert len(pages) == 5, "it ends, however many come"
    ended = set(done) | set(gone)
    assert changed == len(ids) - len(ended)
    left = [job_id for job_id in ids if job_id not in ended]
    assert standings(rig, left) == {("canceled", "requested")}
    assert standings(rig, done) == {("completed", None)}
    assert standings(rig, gone) == {("canceled", "by somebody")}
    assert standings(rig, new) == {("pending", None)}
    assert verbs.cancel_many_sync(task="work", dry_run=True) == len(new)


def test_what_was_removed_meanwhile_is_passed_over(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [*put_many(rig, 3), rig.put("other")]
    for job_id in ids[:3]:
        rig.cancel(job_id)
    rig.clock.tick(8 * 86400)
    rig.put("other")
    in_between(rig, monkeypatch, rig.prune)
    assert verbs.retry_many_sync(task="work") == 0


# Retry.


@pytest.mark.parametrize("state", ["failed", "canceled", "skipped"])
def test_what_ended_without_a_result_runs_again(rig: Rig, verbs: Verbs, state: str) -> None:
    ended = [brought_to(rig, state) for _ in range(3)]
    left = [brought_to(rig, "completed"), rig.put("other"), brought_to(rig, "running")]
    logs = [rig.types(job_id) for job_id in left]
    assert verbs.retry_many_sync(queue="default", dry_run=True) == 3
    assert verbs.retry_many_sync(queue="default") == 3
    assert {rig.last(job_id) for job_id in ended} == {("pending", "by_hand")}
    job = rig.job(ended[0])
    assert (job.max_attempts, job.max_losses) == (job.failures + 5, job.losses + 7)
    assert [rig.types(job_id) for job_id in left] == logs
    assert verbs.retry_many_sync(queue="default") == 0


def test_fresh_forgets_the_steps_of_all(rig: Rig, verbs: Verbs) -> None:
    ended = [brought_to(rig, "failed") for _ in range(3)]
    assert verbs.retry_many_sync(state="failed", fresh=True) == 3
    assert {rig.job(job_id).generation for job_id in ended} == {2}


def test_what_failed_with_its_upstream_waits_for_it_again(rig: Rig, verbs: Verbs) -> None:
    chain = chained(rig, PAGE + 5)
    rig.finish(rig.claim_one(), failure("bug"))
    assert standings(rig, chain[1:]) == {("failed", "upstream_failed")}
    assert verbs.retry_many_sync(state="failed", dry_run=True) == len(chain)
    assert verbs.retry_many_sync(state="failed") == 1, "the others follow it"
    assert standings(rig, chain[:1]) == {("pending", "by_hand")}
    assert standings(rig, chain[1:]) == {("waiting", "by_hand")}
    assert {rig.types(job_id)[-1] for job_id in chain[1:]} == {"waiting"}
    rig.complete(rig.claim_one())
    assert rig.state(chain[1]) == "pending"


def test_a_page_counts_what_waits_again_by_it(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one transaction could hold the write lock for any number of children."""
    parents = put_many(rig, 3)
    children = [child for parent in parents for child in put_many(rig, PAGE, after=[parent])]
    for claim in rig.claim(rig.worker(), 3):
        rig.finish(claim, failure("bug"))
    pages = in_between(rig, monkeypatch, lambda: None)
    assert verbs.retry_many_sync(state="failed") == 3
    assert len(pages) == 3
    assert standings(rig, children) == {("waiting", "by_hand")}


def test_what_fails_again_at_once_is_retried_once(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = put_many(rig, 3 * PAGE)
    worker = rig.worker()

    def fail() -> None:
        for claim in rig.claim(worker, 5):
            rig.finish(claim, failure("bug"))

    for _ in range(len(ids) // 5):
        fail()
    later: list[str] = []

    def meanwhile() -> None:
        fail()
        if len(later) < PAGE:
            later.append(rig.put())
            rig.cancel(later[-1])

    pages = in_between(rig, monkeypatch, meanwhile)
    assert verbs.retry_many_sync(task="work") == len(ids)
    taken = [job.n for page in pages for job in page[0]]
    assert taken == sorted(set(taken))
    assert {rig.types(job_id).count("pending") for job_id in ids} == {1}
    assert standings(rig, later) == {("canceled", "requested")}, "they came too late"


def test_what_somebody_else_retried_is_not_counted(
    rig: Rig, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [brought_to(rig, "failed") for _ in range(3)]
    pages = in_between(rig, monkeypatch, lambda: rig.again(ids[1]))
    assert verbs.retry_many_sync(task="work") == 2
    assert len(pages) == 1
    assert {rig.types(job_id).count("pending") for job_id in ids} == {1}
