"""Which moves can meet, and why the others can not; and where two may come to a deadlock.

Two moves of the store meet where two acts that play them share a stage. Those that never do stand
here with the reason, so that no pair is missing without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benbi.store import (
    bulk,
    fleet,
    lifecycle,
    linked,
    moves,
    runs,
    schedules,
    upstream,
    workers,
)

Move = Callable[..., Any]

# Functions of a transaction that are no moves of their own, and what they are parts of.
PARTS: dict[Move, str] = {
    linked.same_call: "enqueue",
    linked.keyed: "enqueue",
    moves.hold: "cancel, answer",
    moves.tell: "every move that has one state to tell of",
    moves.tell_own: "every move whose jobs go to states of their own",
    moves.go_on: "answer, expire, write",
    upstream.ended: "every move that ends jobs",
    upstream.settle: "every move that counts edges",
    upstream.attach: "enqueue_linked, write",
    upstream.await_jobs: "write",
    upstream.begin: "enqueue_linked, rescue, write",
    upstream.waits: "again",
    upstream.reopen: "again",
}

# Moves that meet nobody.
ALONE: dict[Move, str] = {
    workers.try_writing: "its row is named after its own connection, and gone with the commit",
}

SCHEDULES = frozenset(
    {
        *(schedules.register, schedules.seen, schedules.fire, schedules.run_now),
        *(schedules.pause, schedules.resume),
    }
)
ENQUEUES = frozenset({lifecycle.enqueue, linked.enqueue_linked})
CANCELS = frozenset({moves.cancel, bulk.cancel, runs.cancel})
RETRIES = frozenset({moves.again, bulk.again})
CASCADES = frozenset({upstream.go_on, upstream.rescue})
QUEUES = frozenset({fleet.pause, fleet.resume})
# What is done to jobs that run, to their workers, or by them.
AT_WORK = frozenset(
    {
        *(lifecycle.write, moves.stop_overrun, workers.beat, workers.release, workers.sign_off),
        *(workers.bury, workers.bury_process, workers.release_process),
    }
)
ENDS_OF_WORKERS = frozenset(
    {
        *(workers.beat, workers.sign_off),
        *(workers.bury, workers.bury_process, workers.release_process),
    }
)
OF_JOBS = frozenset(
    {
        *(ENQUEUES | CANCELS | RETRIES | CASCADES | AT_WORK),
        *(lifecycle.claim, moves.answer, moves.due, moves.expire, moves.prune),
    }
)


def _one(move: Move) -> frozenset[Move]:
    return frozenset({move})


# Each move of the first with each of the second.
APART: list[tuple[frozenset[Move], frozenset[Move], str]] = [
    (
        SCHEDULES,
        OF_JOBS | QUEUES | {workers.register, workers.publish},
        "a schedule's row is written by these alone, and what a tick makes is a new job",
    ),
    (
        _one(workers.publish),
        OF_JOBS | QUEUES | {workers.register},
        "the catalogue is written by publish alone",
    ),
    (
        _one(workers.register),
        (OF_JOBS - ENDS_OF_WORKERS) | QUEUES,
        "nobody knows a worker's number before its row is committed",
    ),
    (
        QUEUES,
        CASCADES
        | {lifecycle.write, moves.stop_overrun, workers.release, bulk.again}
        | {moves.answer, moves.due, moves.prune},
        "a pause is looked at by claims alone",
    ),
    (
        _one(bulk.again),
        (AT_WORK - {lifecycle.write}) | {moves.answer, moves.due, moves.expire},
        "to each of its jobs it does what moves.again does, which is played with them",
    ),
    (
        _one(bulk.cancel),
        _one(moves.prune),
        "to each of its jobs it does what moves.cancel does, which is played with it",
    ),
    (
        _one(moves.answer),
        AT_WORK | CASCADES | {moves.due, moves.prune, lifecycle.enqueue},
        "a job that waits for an answer does not run, is not due and has not ended",
    ),
    (
        _one(moves.prune),
        (AT_WORK - {lifecycle.write}) | {moves.due, moves.expire},
        "it takes jobs that ended long ago, these move jobs that live",
    ),
]

# Pairs of acts that may wait for each other in a circle: the server ends one of them, and the store
# does it once more. Every other deadlock is a fault: it costs a second, and all who wait behind it.
DEADLOCKS: dict[frozenset[str], str] = {
    frozenset({"enqueue after", "go on"}): (
        "one holds the parent and goes on with its cascade, the other the mark that it was cut; it "
        "takes a parent of more than a thousand jobs"
    ),
    frozenset({"enqueue with two keys"}): (
        "the jobs of one transaction keep their order, whatever the order of their keys"
    ),
    frozenset({"await", "complete both"}): (
        "who begins to wait holds itself before what it waits for, which may be older; of a claim "
        "that both of them end, one is the repetition of a commit of which nothing is known"
    ),
}
