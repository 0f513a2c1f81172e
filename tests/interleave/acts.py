"""The moves of the store as they are played, and on which stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benbi.job import KEEP_FAILED, KEEP_OTHERS
from benbi.outcome import Completed, Outcome, Released, Snoozed, Suspended, decide
from benbi.store import (
    bulk,
    fleet,
    lifecycle,
    linked,
    moves,
    runs,
    schedules,
    upstream,
    views,
    workers,
)
from benbi.store.bulk import Again
from benbi.store.database import Transaction
from benbi.store.lifecycle import ClaimRequest, Told, Write
from benbi.store.schedules import Due
from benbi.store.workers import Worker
from tests.interleave.stages import HOUR, World, definition
from tests.interleave.stepping import Move
from tests.support.rig import POLICY, SECOND, asked, failure, step

# Builds the move for one side (0 or 1): two of a kind bring different jobs and tokens.
Builder = Callable[[World, int], Move]


@dataclass(frozen=True)
class Act:
    """One move of the store with all that it is given."""

    name: str
    # The function of the store that it plays.
    plays: Callable[..., Any]
    # Where it has something to do, at once or after another; and where `make soak` alone plays it.
    stages: frozenset[str]
    long_stages: frozenset[str]
    build: Builder
    # Whoever calls it calls it again: what it passes over, because somebody holds it, is done in
    # the next round.
    comes_again: bool


ACTS: dict[str, Act] = {}


def act(
    plays: Callable[..., Any], stages: str, *, comes_again: bool = False
) -> Callable[[Builder], None]:
    """``stages``: separated by commas; those behind a bar are played by `make soak` alone."""

    def add(build: Builder) -> None:
        name = build.__name__.strip("_").replace("_", " ")
        short, _, long = stages.partition("|")
        found = (frozenset(filter(None, map(str.strip, one.split(",")))) for one in (short, long))
        ACTS[name] = Act(name, plays, *found, build, comes_again)

    return add


def once(move: Callable[..., Any], *args: Any) -> Move:
    return lambda tx: move(tx, *args)


# Enqueue.


@act(lifecycle.enqueue, "absent")
def _enqueue_again(world: World, side: int) -> Move:
    """The same job: the repetition of a commit of which nothing is known."""
    return once(lifecycle.enqueue, [[world.coming("twice")]])


@act(lifecycle.enqueue, "absent, over")
def _enqueue_with_key(world: World, side: int) -> Move:
    return once(lifecycle.enqueue, [[world.coming(f"keyed {side}", key="k")]])


@act(lifecycle.enqueue, "absent")
def _enqueue_with_two_keys(world: World, side: int) -> Move:
    # Two processes, each in its own order.
    jobs = [[world.coming(f"keyed {key} {side}", key=key)] for key in "kl"]
    return once(lifecycle.enqueue, jobs[:: 1 if side else -1])


@act(lifecycle.enqueue, "absent | over")
def _enqueue_with_key_and_other_arguments(world: World, side: int) -> Move:
    job = world.coming(f"other {side}", key="k", arguments={"other": True})
    return once(lifecycle.enqueue, [[job]])


@act(lifecycle.enqueue, "absent, pending | running, failed")
def _enqueue_same_call(world: World, side: int) -> Move:
    job = world.coming(f"same {side}", within=2 * 24 * HOUR)
    return once(lifecycle.enqueue, [[job]])


@act(linked.enqueue_linked, "pending, running, failed, over, unsettled | asking")
def _enqueue_after(world: World, side: int) -> Move:
    job = world.coming(f"after {side}", after=["subject"])
    return once(linked.enqueue_linked, [[job]])


@act(linked.enqueue_linked, "absent, over | pending")
def _enqueue_in_run(world: World, side: int) -> Move:
    return once(linked.enqueue_linked, [[world.coming(f"in run {side}", run=world.run)]])


@act(linked.enqueue_linked, "absent, over")
def _enqueue_in_run_with_key(world: World, side: int) -> Move:
    job = world.coming(f"keyed in run {side}", run=world.run, key="k")
    return once(linked.enqueue_linked, [[job]])


@act(linked.enqueue_linked, "| running")
def _enqueue_after_both(world: World, side: int) -> Move:
    job = world.coming(f"after both {side}", after=["second", "subject"])
    return once(linked.enqueue_linked, [[job]])


# Claims, and what they write.


def _claim_by(world: World, worker: str, side: int) -> Move:
    request = ClaimRequest(world.worker(worker), 70 + side, ["default"], '["work"]', 2, True)
    return once(lifecycle.claim, request)


@act(
    lifecycle.claim,
    "pending, due, retrying, running, asking, failed, unsettled, absent | canceling, asking late",
    comes_again=True,
)
def _claim(world: World, side: int) -> Move:
    return _claim_by(world, "other", side)


@act(lifecycle.claim, "| running, canceling, failed", comes_again=True)
def _claim_by_its_worker(world: World, side: int) -> Move:
    return _claim_by(world, "worker", side)


def _record(world: World, name: str = "subject", number: int = 1, **brings: Any) -> Move:
    return once(lifecycle.write, [Write(world.claims[name], number, **brings)])


def _finish(world: World, outcome: Outcome, name: str = "subject", **brings: Any) -> Move:
    decision = decide(world.claims[name], outcome, POLICY)
    return _record(world, name, 2, decision=decision, **brings)


@act(lifecycle.write, "running | canceling")
def _write(world: World, side: int) -> Move:
    return _record(
        world, events=[Told("step_completed")], steps=[step()], progress=(1, 2, "so far")
    )


@act(lifecycle.write, "running | canceling")
def _write_that_adds(world: World, side: int) -> Move:
    added = [world.coming("added", run=world.run), world.coming("added after", after=["subject"])]
    return _record(world, adds=added)


@act(lifecycle.write, "running | canceling")
def _complete(world: World, side: int) -> Move:
    return _finish(world, Completed('"done"'))


@act(lifecycle.write, "running, failed, unsettled | canceling")
def _complete_second(world: World, side: int) -> Move:
    return _finish(world, Completed('"done"'), "second")


@act(lifecycle.write, "running, canceling")
def _retry_after_failure(world: World, side: int) -> Move:
    return _finish(world, failure())


@act(lifecycle.write, "| running, canceling")
def _ask(world: World, side: int) -> Move:
    return _finish(world, Suspended(asks=True), questions=[asked()])


@act(lifecycle.write, "running | canceling")
def _await(world: World, side: int) -> Move:
    awaited = [world.id("second")]
    return _finish(world, Suspended(asks=False, awaits=True), awaited=awaited)


@act(lifecycle.write, "| running, canceling")
def _fail(world: World, side: int) -> Move:
    return _finish(world, failure("permanent"))


@act(lifecycle.write, "| running, canceling")
def _give_back(world: World, side: int) -> Move:
    return _finish(world, Released("drain"))


@act(lifecycle.write, "| running, canceling")
def _snooze(world: World, side: int) -> Move:
    return _finish(world, Snoozed(0.0))


@act(lifecycle.write, "| running")
def _complete_both(world: World, side: int) -> Move:
    done = decide(world.claims["subject"], Completed("1"), POLICY)
    writes = [Write(world.claims[name], 2, decision=done) for name in ("second", "subject")]
    return once(lifecycle.write, writes)


# Moves of people.


@act(
    moves.cancel,
    "pending, due, retrying, running, asking, asking late, failed, over, unsettled, canceling",
)
def _cancel(world: World, side: int) -> Move:
    return once(moves.cancel, [world.n()], "requested")


@act(moves.cancel, "failed, unsettled | pending, running, canceling, asking")
def _cancel_child(world: World, side: int) -> Move:
    return once(moves.cancel, [world.n("child")], "requested")


@act(bulk.cancel, "running, failed | pending")
def _cancel_many(world: World, side: int) -> Move:
    return once(bulk.cancel, [world.n("child"), world.n()], None, "requested")


@act(bulk.cancel, "pending, due, asking | retrying, running")
def _cancel_those_still_so(world: World, side: int) -> Move:
    state = world.rig.state(world.ids["subject"])
    return once(bulk.cancel, [world.n()], state, "requested")


@act(runs.cancel, "running, over | pending, due, asking", comes_again=True)
def _cancel_run(world: World, side: int) -> Move:
    def move(tx: Transaction) -> None:
        # How far it looked is no outcome: a door begins again until there is nothing to cancel.
        runs.cancel(tx, world.run_id, None, "requested", runs.NEWEST)

    return move


@act(
    moves.again,
    "pending, running, failed, unsettled, over, asking | due, retrying, canceling, asking late",
)
def _retry_by_hand(world: World, side: int) -> Move:
    return once(moves.again, world.n(), 3, 3, False)


@act(moves.again, "| failed, over, unsettled")
def _retry_by_hand_afresh(world: World, side: int) -> Move:
    return once(moves.again, world.n(), 3, 3, True)


@act(moves.again, "failed, unsettled | running")
def _retry_child_by_hand(world: World, side: int) -> Move:
    return once(moves.again, world.n("child"), 3, 3, False)


@act(bulk.again, "failed, over")
def _retry_many_by_hand(world: World, side: int) -> Move:
    page = [Again(world.n(name), 3, 3) for name in ("subject", "child") if name in world.ids]
    return once(bulk.again, page, world.rig.state(world.ids["subject"]), False)


def _answered(world: World, key: str, by: str) -> Move:
    def move(tx: Transaction) -> None:
        # As a door does: the job is looked up in the transaction of the answer.
        moves.answer(tx, views.find(tx, world.ids["subject"], None), key, '"red"', by)

    return move


@act(moves.answer, "asking, asking late")
def _answer(world: World, side: int) -> Move:
    return _answered(world, "first", f"somebody {side}")


@act(moves.answer, "asking")
def _answer_second(world: World, side: int) -> Move:
    return _answered(world, "second", f"somebody {side}")


# Moves of time.


@act(moves.due, "due, retrying | running", comes_again=True)
def _due(world: World, side: int) -> Move:
    return once(moves.due)


@act(moves.expire, "pending, due, running, asking, asking late", comes_again=True)
def _expire(world: World, side: int) -> Move:
    return once(moves.expire)


@act(moves.stop_overrun, "running, canceling", comes_again=True)
def _stop_overrun(world: World, side: int) -> Move:
    return once(moves.stop_overrun, 0, SECOND)


def _prune_after(after: int) -> Move:
    return once(moves.prune, after, int(KEEP_FAILED * SECOND), int(KEEP_OTHERS * SECOND))


@act(moves.prune, "over | unsettled", comes_again=True)
def _prune(world: World, side: int) -> Move:
    return _prune_after(0)


@act(moves.prune, "over", comes_again=True)
def _prune_what_follows(world: World, side: int) -> Move:
    return _prune_after(world.n())


@act(upstream.go_on, "unsettled | running, failed", comes_again=True)
def _go_on(world: World, side: int) -> Move:
    return once(upstream.go_on)


@act(upstream.rescue, "running, failed, unsettled")
def _rescue(world: World, side: int) -> Move:
    return once(upstream.rescue, [world.n("child")])


# Workers.


@act(workers.register, "idle")
def _register(world: World, side: int) -> Move:
    told = Worker("newcomer-1", "host", 1, 10, ["default"], ["work"], "0")

    def move(tx: Transaction) -> None:
        # A number that nobody had before: another one each time.
        workers.register(tx, told)

    return move


def _its_worker(world: World) -> int:
    return world.worker("worker" if "worker" in world.workers else "other")


def _mark(world: World) -> str:
    return "worker-" if "worker" in world.workers else "other-"


@act(workers.beat, "idle, pending, running | canceling")
def _beat(world: World, side: int) -> Move:
    return once(workers.beat, _its_worker(world))


@act(workers.bury, "idle, pending, running, canceling")
def _bury(world: World, side: int) -> Move:
    return once(workers.bury, _its_worker(world), 0)


@act(workers.bury_process, "idle, pending | running, canceling")
def _bury_process(world: World, side: int) -> Move:
    return once(workers.bury_process, _mark(world), "it was killed")


@act(workers.release_process, "idle, pending | running, canceling")
def _release_process(world: World, side: int) -> Move:
    return once(workers.release_process, _mark(world), "drain")


@act(workers.sign_off, "idle, pending, running, canceling")
def _sign_off(world: World, side: int) -> Move:
    return once(workers.sign_off, _its_worker(world), "drain")


@act(workers.release, "running, canceling")
def _release(world: World, side: int) -> Move:
    claim = world.claims["subject"]
    return once(workers.release, world.worker("worker"), [claim.fence], "unheld")


@act(workers.publish, "catalogue")
def _publish(world: World, side: int) -> Move:
    entries = [_entry(name, side) for name in ("work", "play")]
    # Two apps list the same tasks, each in its own order.
    return once(workers.publish, entries[:: 1 if side else -1])


def _entry(task: str, side: int) -> dict[str, Any]:
    schemas = dict.fromkeys(("arguments_schema", "result_schema", "defaults"), "{}")
    told = {"task": task, "queue": "default", "doc": f"of {side}", "tool": None}
    return told | schemas | {"code_version": "1"}


# Queues.


@act(fleet.pause, "pending")
def _pause_queue(world: World, side: int) -> Move:
    return once(fleet.pause, "default", f"operator {side}")


@act(fleet.resume, "pending")
def _resume_queue(world: World, side: int) -> Move:
    return once(fleet.resume, "default")


# Schedules.


@act(schedules.register, "scheduled, unscheduled")
def _register_schedules(world: World, side: int) -> Move:
    # Two releases, each with its own order and other times.
    names = ("daily", "hourly")[:: 1 if side else -1]
    told = [definition(world, name, f"{side + 2}h") for name in names]
    return once(schedules.register, told, f"release {side}")


@act(schedules.seen, "scheduled")
def _see_schedules(world: World, side: int) -> Move:
    rows, _ = world.rig.store.read_sync(schedules.every)
    return once(schedules.seen, rows[:: 1 if side else -1])


@act(schedules.fire, "scheduled")
def _fire(world: World, side: int) -> Move:
    row = world.rig.store.read_sync(schedules.one, "hourly")
    tick = row.last_tick + round(HOUR * SECOND)
    due = Due("hourly", row.version, row.last_tick, tick, [tick])
    return once(schedules.fire, due, [world.coming(f"tick {side}")])


@act(schedules.run_now, "scheduled")
def _run_schedule_now(world: World, side: int) -> Move:
    # The same id: the repetition of a commit of which nothing is known.
    return once(schedules.run_now, "hourly", world.coming("by hand").id)


@act(schedules.pause, "scheduled")
def _pause_schedule(world: World, side: int) -> Move:
    return once(schedules.pause, "hourly")


@act(schedules.resume, "scheduled")
def _resume_schedule(world: World, side: int) -> Move:
    return once(schedules.resume, "hourly")
