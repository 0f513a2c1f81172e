"""Enqueue: accepted once, whole, and under its key."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from benbi.errors import IdempotencyConflict, JobNotFound
from benbi.job import as_datetime
from benbi.store import views
from benbi.store.database import Transaction
from tests.support import wait_until
from tests.support.rig import SECOND, Rig


def test_an_accepted_job_is_pending_and_told(rig: Rig) -> None:
    job_id = rig.put(arguments={"a": 1}, owner="u1", rank=-5)
    job = rig.job(job_id)
    assert (job.state, job.attempt, job.failures, job.losses) == ("pending", 0, 0, 0)
    assert (job.owner, job.priority, job.seq, job.generation) == ("u1", 5, 1, 1)
    assert job.created_at == job.run_at == as_datetime(rig.clock.now)
    assert rig.types(job_id) == ["created"]
    assert rig.store.read_sync(views.arguments, rig.found(job_id).n) == '{"a": 1}'


def test_jobs_of_one_call_keep_what_tells_them_apart(rig: Rig) -> None:
    """Those that are alike are stored as one, and only those; their order is that of the calls."""
    told = [
        {"owner": "u1"},
        {"owner": "u2"},
        {"owner": "u2"},
        {"queue": "mail"},
        {"rank": -3},
        {"delay": 5.0},
        {"max_attempts": 7},
        {"timeout": 9 * SECOND},
        {"owner": "u1"},
    ]
    ids = rig.put_rows(*(rig.new(arguments=n, **fields) for n, fields in enumerate(told)))
    jobs = [rig.job(job_id) for job_id in ids]
    assert [job.owner for job in jobs] == ["u1", "u2", "u2", "", "", "", "", "", "u1"]
    assert [job.queue for job in jobs] == ["default"] * 3 + ["mail"] + ["default"] * 5
    assert [job.priority for job in jobs] == [0, 0, 0, 0, 3, 0, 0, 0, 0]
    assert [job.state for job in jobs] == ["pending"] * 5 + ["scheduled"] + ["pending"] * 3
    assert [job.max_attempts for job in jobs] == [3] * 6 + [7, 3, 3]
    numbers = [rig.found(job_id).n for job_id in ids]
    assert numbers == sorted(numbers)
    kept = [rig.store.read_sync(views.arguments, n) for n in numbers]
    assert kept == [str(number) for number in range(len(told))]


def test_a_repeated_call_with_others_beside_it_stores_only_these(rig: Rig) -> None:
    """A commit that was unknown is repeated in a batch with new jobs that are alike."""
    first, second, third = (rig.new(arguments=n) for n in range(3))
    rig.put_rows(second)
    ids = rig.put_rows(first, second, third)
    kept = [rig.store.read_sync(views.arguments, rig.found(job_id).n) for job_id in ids]
    assert kept == ["0", "1", "2"]
    assert [rig.types(job_id) for job_id in ids] == [["created"]] * 3


def test_ids_come_back_in_the_order_of_the_calls(rig: Rig) -> None:
    rows = [rig.new(arguments=n) for n in range(50)]
    found = rig.put_rows(*rows)
    assert found == [views.as_text(row.id) for row in rows]
    assert [rig.store.read_sync(views.arguments, rig.found(one).n) for one in found] == [
        str(n) for n in range(50)
    ]


def test_no_arguments_are_an_empty_object(rig: Rig) -> None:
    job_id = rig.put()
    assert rig.store.read_sync(views.arguments, rig.found(job_id).n) == "{}"
    assert rig.claim_one().arguments == "{}"


@pytest.mark.parametrize(
    ("fields", "state", "after"),
    [
        ({"delay": 10.0}, "scheduled", 10.0),
        ({"delay": 0.0}, "pending", 0.0),
        ({"delay": -5.0}, "pending", -5.0),
        ({"run_at": 1_800_000_000 * SECOND + 1}, "scheduled", 1e-6),
        ({"run_at": 1_800_000_000 * SECOND}, "pending", 0.0),
        ({"run_at": 1_700_000_000 * SECOND}, "pending", -1e8),
    ],
)
def test_a_time_in_the_future_schedules(
    rig: Rig, fields: dict[str, float], state: str, after: float
) -> None:
    job = rig.job(rig.put(**fields))
    assert job.state == state
    assert job.run_at == as_datetime(rig.clock.now + round(after * SECOND))


def test_the_same_row_again_stores_nothing(rig: Rig) -> None:
    row = rig.new(arguments={"a": 1})
    first, again = rig.put_rows(row), rig.put_rows(row)
    assert first == again
    assert rig.types(first[0]) == ["created"]
    assert len(rig.claim(rig.worker(), 10)) == 1


def test_a_repetition_after_the_claim_changes_nothing(rig: Rig) -> None:
    row = rig.new()
    (job_id,) = rig.put_rows(row)
    rig.claim_one()
    rig.put_rows(row)
    assert (rig.state(job_id), rig.types(job_id)) == ("running", ["created", "started"])


def test_a_key_gives_the_job_that_is_there(rig: Rig) -> None:
    first = rig.put(key="k", arguments={"a": 1})
    assert rig.put(key="k", arguments={"a": 1}) == first
    rig.complete(rig.claim_one())
    assert rig.put(key="k", arguments={"a": 1}) == first, "the key lives as long as the job"
    assert rig.types(first) == ["created", "started", "completed"]


def test_a_key_with_other_arguments_is_refused_and_names_the_job(rig: Rig) -> None:
    first = rig.put(key="k", arguments={"a": 1})
    with pytest.raises(IdempotencyConflict, match=first):
        rig.put(key="k", arguments={"a": 2})
    assert len(rig.claim(rig.worker(), 10)) == 1


def test_a_key_belongs_to_an_owner_and_a_task(rig: Rig) -> None:
    ids = {
        rig.put(key="k"),
        rig.put(key="k", owner="u1"),
        rig.put(key="k", owner="u2"),
        rig.put("other", key="k"),
    }
    assert len(ids) == 4


def test_one_key_twice_in_a_batch_is_one_job(rig: Rig) -> None:
    with held_writer(rig) as release, ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(rig.put, key="k", arguments={"a": 1}) for _ in range(4)]
        queued(rig, 4)
        release.set()
        ids = {call.result(10) for call in calls}
    assert len(ids) == 1
    assert rig.state(ids.pop()) == "pending"


def test_a_conflict_hurts_nobody_else_in_its_batch(rig: Rig) -> None:
    rig.put(key="k", arguments={"a": 1})
    with held_writer(rig) as release, ThreadPoolExecutor(3) as pool:
        good = pool.submit(rig.put, key="fine")
        bad = pool.submit(rig.put, key="k", arguments={"a": 2})
        also_good = pool.submit(rig.put, key="also fine")
        queued(rig, 3)
        release.set()
        with pytest.raises(IdempotencyConflict):
            bad.result(10)
        assert rig.state(good.result(10)) == rig.state(also_good.result(10)) == "pending"


def test_a_row_that_can_not_be_stored_hurts_nobody_else_in_its_batch(rig: Rig) -> None:
    with held_writer(rig) as release, ThreadPoolExecutor(5) as pool:
        good = [pool.submit(rig.put) for _ in range(4)]
        bad = pool.submit(rig.put_rows, rig.new()._replace(arguments='"\ud800"'))
        queued(rig, 5)
        release.set()
        with pytest.raises(UnicodeEncodeError):
            bad.result(10)
        assert {rig.state(call.result(10)) for call in good} == {"pending"}


def test_a_group_is_stored_whole_or_not_at_all(rig: Rig) -> None:
    rig.put(key="k", arguments={"a": 1})
    rows = [rig.new(), rig.new(key="k", arguments={"a": 2}), rig.new()]
    with pytest.raises(IdempotencyConflict):
        rig.put_rows(*rows)
    for row in rows:
        with pytest.raises(JobNotFound):
            rig.job(views.as_text(row.id))


def test_an_equal_live_call_is_the_same_job(rig: Rig) -> None:
    first = rig.put(arguments={"a": 1}, within=600, owner="u1")
    rig.clock.tick(599)
    assert rig.put(arguments={"a": 1}, within=600, owner="u1") == first
    claim = rig.claim_one()
    assert rig.put(arguments={"a": 1}, within=600, owner="u1") == first, "running is live"
    rig.complete(claim)
    assert rig.put(arguments={"a": 1}, within=600, owner="u1") != first, "an ended call is over"


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"a": 2}, "owner": "u1"},
        {"arguments": {"a": 1}, "owner": "u2"},
        {"arguments": {"a": 1}, "owner": "u1", "task": "other"},
    ],
)
def test_another_call_is_another_job(rig: Rig, other: dict[str, str]) -> None:
    first = rig.put(arguments={"a": 1}, within=600, owner="u1")
    assert rig.put(**{"task": "work", "within": 600, **other}) != first


def test_a_call_older_than_asked_is_another_job(rig: Rig) -> None:
    first = rig.put(arguments={"a": 1}, within=600)
    rig.clock.tick(601)
    assert rig.put(arguments={"a": 1}, within=600) != first


class held_writer:
    """The store's writer waits inside a transaction until the event is set."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._entered, self._release = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=rig.store.write_sync, args=(self._hold,))

    def _hold(self, _: Transaction) -> None:
        self._entered.set()
        self._release.wait(10)

    def __enter__(self) -> threading.Event:
        self._thread.start()
        assert self._entered.wait(10)
        return self._release

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._thread.join()


def queued(rig: Rig, items: int) -> None:
    """Waits until so many items, the one under way included, are with the store."""
    wait_until(lambda: rig.store._batcher._items == items, what=f"{items} items are queued")
