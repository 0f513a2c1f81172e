"""The event log: gapless in a job, and over many jobs a cursor that skips nothing."""

from __future__ import annotations

from itertools import pairwise

from benbi.job import Event
from benbi.outcome import Suspended
from benbi.store import views
from benbi.store.lifecycle import Told
from tests.support.rig import Rig, asked, failure


def since(rig: Rig, cursor: int = 0, *, owner: str | None = None, limit: int = 1000) -> list[Event]:
    return rig.since(cursor, owner, limit)


def a_life(rig: Rig, owner: str = "") -> str:
    """A job that fails, asks, is answered, told things and done."""
    worker = rig.worker()
    job_id = rig.put(owner=owner)
    rig.finish(rig.claim_one(worker), failure(), Told("partial", None, "1"))
    rig.clock.tick(60)
    rig.due()
    rig.finish(rig.claim_one(worker), Suspended(asks=True), asks=[asked()])
    rig.answer(job_id, "colour", "red")
    claim = rig.claim_one(worker)
    rig.write(claim, Told("progress", None, "{}"), Told("log", None, '"x"'))
    rig.cancel(job_id)
    rig.complete(claim, 1)
    return job_id


def test_seq_is_gapless_and_agrees_with_the_record(rig: Rig) -> None:
    job_id = a_life(rig)
    events = rig.events(job_id)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert rig.job(job_id).seq == len(events)
    assert [event.type for event in events] == [
        *("created", "started", "partial", "retrying", "pending"),
        *("started", "input_required", "answered", "pending"),
        *("started", "progress", "log", "cancel_requested", "completed"),
    ]
    assert [event.attempt for event in events] == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]


def test_the_record_agrees_with_the_log_after_every_event(rig: Rig) -> None:
    """An event whose number was not taken from the row would collide with the next one."""
    claim = rig.running()
    rig.cancel(claim.job_id)
    assert rig.job(claim.job_id).seq == rig.events(claim.job_id)[-1].seq == 3
    rig.write(claim, Told("partial", None, "1"))
    assert rig.job(claim.job_id).seq == rig.events(claim.job_id)[-1].seq == 4


def test_times_never_run_backwards_against_seq(rig: Rig) -> None:
    job_id = rig.put()
    claim = rig.claim_one()
    rig.clock.tick(-3600)
    rig.write(claim, Told("partial", None, "1"))
    rig.complete(claim)
    events = rig.events(job_id)
    assert all(first.at <= second.at for first, second in pairwise(events))


def test_who_knows_the_last_seq_misses_nothing_and_sees_nothing_twice(rig: Rig) -> None:
    job_id = a_life(rig)
    n, whole = rig.found(job_id).n, rig.events(job_id)
    for after in range(len(whole) + 1):
        assert rig.store.read_sync(views.events, job_id, n, after, 1000) == whole[after:]
    page, seen = 3, list[Event]()
    while found := rig.store.read_sync(views.events, job_id, n, len(seen), page):
        seen += found
    assert seen == whole


def test_a_stream_over_many_jobs_has_each_event_once_and_in_order(rig: Rig) -> None:
    jobs = [a_life(rig) for _ in range(3)]
    whole = since(rig)
    assert len(whole) == sum(len(rig.events(job_id)) for job_id in jobs)
    cursors = [event.cursor for event in whole]
    assert cursors == sorted(set(cursors))
    for job_id in jobs:
        own = [event.seq for event in whole if event.job_id == job_id]
        assert own == list(range(1, len(own) + 1))


def test_a_stream_resumes_by_its_cursor_wherever_it_was_cut(rig: Rig) -> None:
    """Events of one transaction have one time, and jobs count each for themselves: neither is a
    cursor."""
    claims = [rig.running(), rig.running()]
    expected = [f"{claim.job_id}/{seq}" for claim in claims for seq in (1, 2)]
    for turn in range(4):
        claim = claims[turn % 2]
        rig.write(claim, *[Told("partial", None, str(n)) for n in range(3)])
        first = 3 + 3 * (turn // 2)
        expected += [f"{claim.job_id}/{seq}" for seq in range(first, first + 3)]
    for page in (1, 2, 3, 5, 100):
        seen: list[str] = []
        cursor = 0
        while found := since(rig, cursor, limit=page):
            seen += [event.event_id for event in found]
            cursor = found[-1].cursor
        assert seen == expected


def test_what_commits_after_the_cursor_was_read_is_after_the_cursor(rig: Rig) -> None:
    first, second = rig.running(), rig.running()
    rig.write(second, Told("partial", None, "1"))
    cursor = since(rig)[-1].cursor
    rig.write(first, Told("partial", None, "2"))
    assert [(event.job_id, event.data) for event in since(rig, cursor)] == [(first.job_id, 2)]


def test_a_stream_belongs_to_an_owner(rig: Rig) -> None:
    mine, other = a_life(rig, "u1"), a_life(rig, "u2")
    assert {event.job_id for event in since(rig, owner="u1")} == {mine}
    assert {event.job_id for event in since(rig, owner="u2")} == {other}
    assert since(rig, owner="") == []
    assert {event.job_id for event in since(rig)} == {mine, other}


def test_a_cursor_stays_good_when_the_jobs_before_it_are_gone(rig: Rig) -> None:
    for _ in range(2):
        a_life(rig)
    cursor = since(rig)[-1].cursor
    rig.clock.tick(8 * 86400)
    assert rig.prune() > 0
    assert since(rig, cursor) == []
    job_id = rig.put()
    (event,) = since(rig, cursor)
    assert (event.job_id, event.type) == (job_id, "created")
    assert event.cursor > cursor, "a position is never used again"


def test_creation_is_an_event_like_any_other(rig: Rig) -> None:
    job_id = rig.put()
    (event,) = since(rig)
    assert (event.job_id, event.seq, event.type, event.attempt) == (job_id, 1, "created", 0)
