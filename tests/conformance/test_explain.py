"""Why a job is not running: each state and each cause has its sentence, and owners are apart."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benbi.errors import JobNotFound
from benbi.fleet import CAUSES, Explanation
from benbi.outcome import Snoozed, Suspended
from benbi.store import fleet, workers
from benbi.store.database import Transaction
from benbi.store.explain import because, explain
from benbi.store.facts import Circumstances, Facts
from tests.conformance.test_cancel import brought_to
from tests.conformance.test_views import entry
from tests.support.rig import Rig, asked, failure

AT = r"2027-01-15 \d\d:\d\d:\d\d UTC"
ID = r"[0-9a-f-]{36}"


def told(rig: Rig, job_id: str, owner: str | None = None, *, beats: bool = True) -> Explanation:
    found = rig.store.read_sync(explain, job_id, owner, 10.0, beats)
    assert found.cause in CAUSES
    return found


def says(rig: Rig, job_id: str, cause: str, pattern: str, *, beats: bool = True) -> Explanation:
    """The explanation, after it was looked at: its cause, and its whole sentence."""
    found = told(rig, job_id, beats=beats)
    assert (found.job_id, found.cause) == (job_id, cause)
    assert re.fullmatch(pattern, found.sentence), found.sentence
    assert str(found.state) == rig.state(job_id)
    return found


def a_worker(rig: Rig, name: str = "w", *, slots: int = 10, **knows: list[str]) -> int:
    queues, tasks = knows.get("queues", ["default"]), knows.get("tasks", ["work"])
    who = workers.Worker(name, "host", 1, slots, queues, tasks, "0", 10_000_000)
    return rig.store.write_sync(workers.register, who)


def waiting(rig: Rig, *parents: str, waits_for: str = "upstream") -> str:
    """A job that waits: for other jobs where they are named, as the moves will leave it."""
    job_id = rig.put(delay=60)
    n = rig.found(job_id).n
    for parent in parents:
        rig.script(
            f"INSERT INTO {{edges}} (parent_n, child_n) VALUES ({rig.found(parent).n}, {n});"
        )

    rig.script(
        f"UPDATE {{jobs}} SET state = 'waiting', waits_for = '{waits_for}', last_seq = 2,\n"
        f"up_total = {len(parents)} WHERE n = {n};"
    )

    def tell(tx: Transaction) -> None:
        tx.many("event", [(n, 2, "waiting", waits_for, 0, tx.now, None)])

    rig.store.write_sync(tell)
    return job_id


# What has ended.


def test_a_job_that_has_ended_says_how(rig: Rig) -> None:
    done = brought_to(rig, "completed")
    says(rig, done, "completed", rf"It completed at {AT}\.")
    failed = brought_to(rig, "failed")
    says(
        rig,
        failed,
        "failed",
        rf"It failed for good \(bug\) at {AT}: ConnectionError: no luck; "
        rf"benbi jobs retry {failed} runs it again\.",
    )
    skipped = brought_to(rig, "skipped")
    again = f"; benbi jobs retry {skipped} runs it again"
    says(rig, skipped, "skipped", rf"It was skipped \(unneeded\) at {AT}{again}\.")
    canceled = brought_to(rig, "pending")
    rig.cancel(canceled, "changed\n my mind")
    says(rig, canceled, "canceled", rf"It was canceled \(changed my mind\) at {AT}; .+\.")


# What waits for time, an answer, others.


def test_a_scheduled_job_says_when_it_is_due(rig: Rig) -> None:
    job_id = rig.put(delay=90)
    found = says(rig, job_id, "scheduled", rf"It is due at {AT}, in 1 m 30 s\.")
    assert found.details["due"] == rig.job(job_id).run_at
    assert found.notes == ()


def test_a_job_that_was_put_off_says_why(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, Snoozed(30.0, "no quota"))
    says(rig, claim.job_id, "scheduled", rf"It is due at {AT}, in 30.0 s \(no quota\)\.")
    claim = rig.running()
    rig.finish(claim, Suspended(asks=False, wake_in=5.0))
    says(rig, claim.job_id, "scheduled", rf"It sleeps until {AT}, in 5.0 s\.")


def test_a_retrying_job_says_what_went_wrong(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, failure(message="no\nluck"))
    says(
        rig,
        claim.job_id,
        "retrying",
        rf"Attempt 1 ended with ConnectionError: no luck \(1 of 3 failures\); "
        rf"the next one is due at {AT}, in 10.0 s\.",
    )


def test_a_job_that_lost_workers_says_so(rig: Rig) -> None:
    job_id = rig.put()
    for _ in range(2):
        worker = rig.worker()
        rig.claim_one(worker)
        rig.bury(worker)
    says(
        rig,
        job_id,
        "retrying",
        rf"Attempt 2 ended with WorkerLost: the worker stopped beating while it ran this job "
        rf"\(2 of 3 lost workers\); the next one is due at {AT}, in 1.0 s\.",
    )


@pytest.mark.parametrize("state", ["scheduled", "retrying"])
def test_a_job_that_nobody_promoted_says_who_would(rig: Rig, state: str) -> None:
    job_id = brought_to(rig, state)
    rig.clock.tick(200)
    since = rf"It has been due since {AT} \(for \d m \d+ s\)"
    nobody = "a worker or a server makes it pending, and no live worker is registered"
    says(rig, job_id, "due", rf"{since}; {nobody}\.")
    a_worker(rig)
    says(rig, job_id, "due", rf"{since}; a live worker makes it pending within a second or so\.")


def test_a_job_that_asks_says_what(rig: Rig) -> None:
    claim = rig.running()
    rig.finish(claim, Suspended(asks=True), asks=[asked(timeout=60)])
    says(
        rig,
        claim.job_id,
        "input_required",
        rf'It asks "Which colour\?" and waits for the answer, until {AT}, in 1 m 0 s; '
        rf"benbi jobs answer {claim.job_id} gives it\.",
    )


def test_a_job_that_waits_for_others_names_them(rig: Rig) -> None:
    parents = [rig.put() for _ in range(7)]
    rig.complete(rig.claim_one())
    child = waiting(rig, *parents)
    names = ", ".join(rf"{parent} \(work, pending\)" for parent in parents[1:6])
    found = says(
        rig, child, "upstream", rf"It waits for 6 of 7 jobs before it: {names} and 1 more\."
    )
    assert [job["id"] for job in found.details["jobs"]] == parents[1:6]
    assert (found.details["unfinished"], found.details["total"]) == (6, 7)


def test_a_job_whose_upstream_has_ended_is_about_to_go_on(rig: Rig) -> None:
    parent = brought_to(rig, "completed")
    says(
        rig,
        waiting(rig, parent),
        "settling",
        r"All that it waited for has ended \(1 job\); it goes on as soon as a worker or a server "
        r"looks\.",
    )


def test_a_job_that_waits_for_a_limit_names_who_has_its_slots(rig: Rig) -> None:
    child = waiting(rig, waits_for="limit")
    says(rig, child, "limit", r"It waits for slots of a limit; slots taken: none\.")
    holder = rig.running()
    rig.script(f"INSERT INTO {{slots}} (limit_name, key, job_n) VALUES ('openai', '', {holder.n});")
    found = says(
        rig,
        child,
        "limit",
        rf"It waits for slots of a limit; slots taken: 1 of openai: "
        rf"{holder.job_id} \(work, running\)\.",
    )
    assert found.details["taken"] == {"openai": 1}


# What could run.


def test_a_paused_queue_says_who_paused_it(rig: Rig) -> None:
    a_worker(rig, queues=["the mail"])
    job_id = rig.put(queue="the mail")
    rig.store.write_sync(fleet.pause, "the mail", "ann")
    rig.clock.tick(3)
    found = says(
        rig,
        job_id,
        "queue_paused",
        rf"The queue the mail is paused, by ann since {AT} \(for 3.0 s\); "
        r"benbi queues resume 'the mail' opens it\.",
    )
    assert (found.details["paused_by"], found.notes) == ("ann", ())


def test_a_job_that_is_not_pending_has_the_pause_ahead_of_it(rig: Rig) -> None:
    job_id = rig.put(delay=60)
    rig.store.write_sync(fleet.pause, "default", "ann")
    (note,) = says(rig, job_id, "scheduled", rf"It is due at {AT}, .+").notes
    assert note.startswith("Then it will have to wait: the queue default is paused, by ann since")


def test_no_live_worker_at_all(rig: Rig) -> None:
    job_id = rig.put()
    start = "start one with benbi work"
    says(rig, job_id, "no_worker", rf"No live worker is registered: {start}\.")
    a_worker(rig)
    rig.clock.tick(6)
    found = says(
        rig, job_id, "no_worker", rf"No live worker is registered; 1 worker fell silent: {start}\."
    )
    assert found.details["silent"] == ["w"]
    says(rig, job_id, "next", r".+", beats=False)


def test_no_live_worker_listens_to_the_queue(rig: Rig) -> None:
    job_id = rig.put()
    a_worker(rig, queues=["mail", "gifts"])
    silent = a_worker(rig, "other")
    rig.clock.tick(6)
    rig.beat(silent - 1)
    found = says(
        rig,
        job_id,
        "no_worker_for_queue",
        r"No live worker listens to the queue default "
        r"\(1 live worker, listening to gifts, mail\)\.",
    )
    assert found.details["heard"] == ["gifts", "mail"]


def test_no_live_worker_of_the_queue_knows_the_task(rig: Rig) -> None:
    job_id = rig.put("renamed")
    a_worker(rig)
    nobody = "No live worker that listens to the queue default knows the task renamed"
    says(rig, job_id, "no_worker_for_task", rf"{nobody}\.")
    a_worker(rig, "other", queues=["mail"], tasks=["renamed"])
    found = says(rig, job_id, "no_worker_for_task", rf"{nobody}; one that listens to mail does\.")
    assert found.details["known_on"] == ["mail"]


def test_every_slot_is_taken(rig: Rig) -> None:
    worker = a_worker(rig, slots=1)
    a_worker(rig, "idle", queues=["mail"])
    running = rig.running(worker)
    first, second = rig.put(), rig.put()
    urgent = rig.put(rank=-1)
    taken = "No worker that could run it has a free slot "
    taken += rf"\(1 of 1 taken in 1 worker: {running.job_id} \(work, running\)\)"
    says(rig, first, "slots_taken", rf"{taken}; 1 job of its queue comes first\.")
    found = says(rig, second, "slots_taken", rf"{taken}; 2 jobs of its queue come first\.")
    assert (found.details["ahead"], found.details["slots"]) == (2, 1)
    says(rig, urgent, "slots_taken", rf"{taken}; it is the first of its queue\.")


def test_jobs_that_lost_a_worker_run_one_at_a_time(rig: Rig) -> None:
    lost = rig.worker()
    ids = [rig.put(), rig.put()]
    rig.claim(lost, 2)
    rig.bury(lost)
    worker = a_worker(rig)
    running = rig.claim_one(worker)
    (other,) = {*ids} - {running.job_id}
    says(
        rig,
        other,
        "after_a_loss",
        r"It lost a worker before \(1 of 3\), and a worker runs only one such job at a time: "
        rf"all that could are at one: {running.job_id} \(work, running\)\.",
    )
    says(rig, rig.put(), "next", r".+")
    a_worker(rig, "second")
    says(rig, other, "next", r".+")


def test_a_job_that_is_about_to_be_claimed(rig: Rig) -> None:
    a_worker(rig)
    rig.put()
    says(
        rig,
        rig.put(),
        "next",
        r"A live worker with a free slot is about to claim it; 1 job of its queue comes first\.",
    )


# What runs.


def test_a_running_job_says_where(rig: Rig) -> None:
    claim = rig.running(a_worker(rig))
    rig.clock.tick(2)
    says(
        rig, claim.job_id, "running", rf"It runs: attempt 1 on worker w, since {AT} \(for 2.0 s\)\."
    )


def test_a_running_job_that_was_asked_to_stop(rig: Rig) -> None:
    claim = rig.running(a_worker(rig))
    rig.cancel(claim.job_id)
    says(
        rig,
        claim.job_id,
        "cancel_requested",
        rf"It runs on worker w, and was asked to stop at {AT}; what runs on after {AT} is "
        r"abandoned, and the job is canceled\.",
    )


def test_a_silent_worker_and_when_it_is_rescued(rig: Rig) -> None:
    claim = rig.running(a_worker(rig))
    rig.clock.tick(7)
    silent = "Its worker w has not beaten for 7.0 s and may be lost"
    nobody = r"no live worker is registered to rescue it \(a server would, too\): start one"
    found = says(rig, claim.job_id, "worker_lost", rf"{silent}; {nobody}\.")
    assert found.details["rescue_in"] is None
    other = a_worker(rig, "other")
    found = says(rig, claim.job_id, "worker_lost", rf"{silent}; rescue in at most 5.0 s\.")
    assert (found.details["rescue_in"], found.details["worker"]) == (5.0, "w")
    rig.clock.tick(8)
    rig.beat(other)
    late = r"Its worker w has not beaten for 15.0 s and may be lost; rescue overdue by 3.0 s\."
    says(rig, claim.job_id, "worker_lost", late)
    says(rig, claim.job_id, "running", r"It runs: .+", beats=False)


# What else matters.


def test_a_job_that_expires_says_when(rig: Rig) -> None:
    (note,) = told(rig, rig.put(expires_in=60_000_000)).notes
    assert re.fullmatch(rf"It fails as expired at {AT}, in 1 m 0 s, unless it runs by then\.", note)


def test_arguments_that_the_published_task_refuses_are_told(rig: Rig) -> None:
    a_worker(rig)
    good, bad = rig.put(arguments={"a": 1}), rig.put(arguments={"b": 1})
    schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    published = entry("work", arguments_schema=json.dumps(schema), code_version="f00")
    rig.store.write_sync(workers.publish, [published])
    assert told(rig, good).notes == ()
    found = says(rig, bad, "next", r".+")  # the claim asks for the name of a task alone
    (note,) = found.notes
    assert re.fullmatch(
        rf"Its arguments do not fit the task as it was last published \(code f00, {AT}\): "
        r".*\bb\b.*; a worker with that code will fail it\.",
        note,
    )
    claim = rig.claim_one()
    assert (claim.job_id, told(rig, good).notes) == (good, ())


def test_a_state_of_newer_code_is_named(rig: Rig) -> None:
    job = replace(rig.job(rig.put()), state="parked")
    around = Circumstances(1, 0, 0, None, None, None, None, None, 0, 0)

    def explained(view: Transaction) -> str:
        cause, sentence, _ = because(Facts(view, job, around, None, {}))
        assert cause == "unknown_state"
        return sentence

    sentence = rig.store.read_sync(explained)
    assert sentence.startswith("It is parked, a state of newer code")


# Owners.


def test_a_foreign_job_is_not_explained(rig: Rig) -> None:
    job_id = rig.put(owner="u1")
    with pytest.raises(JobNotFound):
        told(rig, job_id, "u2")
    assert told(rig, job_id, "u1").cause == "no_worker"


def test_an_owner_is_told_nothing_of_others(rig: Rig) -> None:
    worker = a_worker(rig, "secret-worker", slots=2, queues=["default", "secret-queue"])
    foreign, own = rig.running(worker, owner="u2"), rig.running(worker, owner="u1")
    job_id = rig.put(owner="u1")
    busy = told(rig, job_id, "u1")
    assert [job["id"] for job in busy.details["jobs"]] == [own.job_id]
    assert f"{own.job_id} (work, running) and 1 more" in busy.sentence
    told_of = [busy, told(rig, own.job_id, "u1")]
    rig.store.write_sync(fleet.pause, "default", "secret-person")
    told_of.append(told(rig, job_id, "u1"))
    assert told_of[-1].cause == "queue_paused"
    rig.store.write_sync(fleet.resume, "default")
    for place in ({"queue": "nowhere"}, {"task": "unknown"}):
        told_of.append(told(rig, rig.put(**place, owner="u1"), "u1"))
    rig.clock.tick(7)
    told_of += [told(rig, job_id, "u1"), told(rig, own.job_id, "u1")]
    assert len({found.cause for found in told_of}) == 7
    everything = " ".join(f"{found.sentence} {found.notes} {found.details}" for found in told_of)
    assert "secret" not in everything
    assert foreign.job_id not in everything


def test_each_cause_has_its_sentence_above() -> None:
    tests = Path(__file__).read_text("utf-8")
    assert not [cause for cause in CAUSES if f'"{cause}"' not in tests]
