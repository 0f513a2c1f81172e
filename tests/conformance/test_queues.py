"""A pause: nothing is claimed from the queue, what runs goes on, and no job is touched."""

from __future__ import annotations

import json

from benbi.fleet import Queue
from benbi.job import as_datetime
from benbi.store import fleet, workers
from tests.conformance.test_cancel import brought_to
from tests.conformance.test_views import entry
from tests.support.rig import Rig


def queues(rig: Rig) -> dict[str, Queue]:
    found = rig.store.read_sync(fleet.queues, 10.0, True)
    return {queue.name: queue for queue in found}


def pause(rig: Rig, name: str = "default", by: str = "ann") -> None:
    rig.store.write_sync(fleet.pause, name, by)


def resume(rig: Rig, name: str = "default") -> None:
    rig.store.write_sync(fleet.resume, name)


def seen(rig: Rig, worker: int, *names: str) -> int:
    """Whether a worker that listens to these queues sees anything to claim."""
    (row,) = rig.rows("look", queues=json.dumps(names), tasks='["work"]', fragile=1, worker=worker)
    return row[0]


def test_a_paused_queue_gives_nothing_until_it_is_resumed(rig: Rig) -> None:
    worker = rig.worker()
    first, second = rig.put(), rig.put()
    assert seen(rig, worker, "default") == 1
    pause(rig)
    assert rig.claim(worker, 10) == []
    assert seen(rig, worker, "default") == 0, "what can not be claimed must not keep it busy"
    resume(rig)
    assert seen(rig, worker, "default") == 1
    assert [claim.job_id for claim in rig.claim(worker, 10)] == [first, second]


def test_other_queues_go_on(rig: Rig) -> None:
    worker = rig.worker()
    held, other = rig.put(), rig.put(queue="mail")
    pause(rig)
    assert seen(rig, worker, "default", "mail") == 1
    claims = rig.claim(worker, 10, queues=["default", "mail"])
    assert [claim.job_id for claim in claims] == [other]
    assert rig.state(held) == "pending"


def test_what_runs_goes_on_and_ends(rig: Rig) -> None:
    claim = rig.running()
    pause(rig)
    rig.write(claim)
    assert rig.complete(claim, 1) == "completed"


def test_a_pause_is_no_event_of_any_job(rig: Rig) -> None:
    job_id = rig.put()
    before = rig.job(job_id), rig.events(job_id)
    pause(rig)
    resume(rig)
    assert (rig.job(job_id), rig.events(job_id)) == before


def test_jobs_are_taken_and_become_due_while_their_queue_is_paused(rig: Rig) -> None:
    pause(rig)
    later = rig.put(delay=5)
    rig.clock.tick(5)
    assert rig.due() == 1
    assert rig.state(later) == "pending"
    assert rig.claim(rig.worker(), 10) == []


def test_who_paused_it_first_stays_named(rig: Rig) -> None:
    pause(rig, by="ann")
    at = as_datetime(rig.clock.now)
    rig.clock.tick(60)
    pause(rig, by="bob")
    paused = queues(rig)["default"]
    assert (paused.paused_by, paused.paused_at) == ("ann", at)


def test_resuming_an_open_queue_changes_nothing(rig: Rig) -> None:
    pause(rig, "mail")
    resume(rig, "default")
    assert queues(rig)["mail"].paused_by == "ann"


def test_a_queue_is_known_by_what_lives_in_it(rig: Rig) -> None:
    worker = rig.worker()
    for state in ("running", "retrying", "scheduled", "completed"):
        brought_to(rig, state)
    rig.clock.tick(60)
    oldest = rig.clock.now
    rig.put()
    rig.clock.tick(30)
    rig.put()
    rig.store.write_sync(workers.publish, [entry("mailer", queue="mail")])
    pause(rig, "attic")
    found = queues(rig)
    assert list(found) == ["attic", "default", "mail"]
    assert (found["attic"].paused_by, found["mail"]) == ("ann", Queue("mail"))
    default = found["default"]
    assert (default.pending, default.running, default.scheduled, default.retrying) == (2, 1, 1, 1)
    assert default.oldest_pending == as_datetime(oldest)
    # The three that brought the jobs to their states have been silent for long.
    assert default.workers == 0
    rig.beat(worker)
    assert queues(rig)["default"].workers == 1


def test_a_job_is_due_since_it_could_have_run(rig: Rig) -> None:
    rig.put(run_at=1)  # long ago: it waits since it was made
    made = rig.clock.now
    assert queues(rig)["default"].oldest_pending == as_datetime(made)


def test_a_worker_is_silent_after_half_its_timeout(rig: Rig) -> None:
    told = workers.Worker("w-1", "host", 7, 4, ["default"], ["work"], "0.1", 20_000_000)
    n = rig.store.write_sync(workers.register, told)
    rig.running(n)

    def record(beats: bool = True) -> tuple[bool, int, float]:
        found = rig.store.read_sync(fleet.workers, 10.0, beats)[n]
        return found.silent, found.running, found.heartbeat_timeout

    rig.clock.tick(10)
    assert record() == (False, 1, 20.0)
    rig.clock.tick(0.1)
    assert record() == (True, 1, 20.0)
    assert record(beats=False)[0] is False
    rig.beat(n)
    assert record() == (False, 1, 20.0)
    other = rig.worker()
    assert rig.store.read_sync(fleet.workers, 10.0, True)[other].heartbeat_timeout == 10.0
