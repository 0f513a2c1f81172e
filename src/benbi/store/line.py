"""Why a pending job is not claimed, by the conditions of the statement ``candidates``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from benbi.fleet import WorkerRecord
from benbi.sentence import counted, quoted
from benbi.store.facts import MOST_NAMED, Because, Facts, listed
from benbi.store.fleet import moment

MOST_COUNTED: Final = 10_000

Workers = Mapping[int, WorkerRecord]


def pending(facts: Facts) -> Because:
    """The first that holds of: paused, nobody there, nobody listens, nobody knows the task, no
    free slot, one at a time after a loss; else it is about to be claimed."""
    paused = pause_of(facts)
    if paused is not None:
        return paused
    live = facts.live
    if not live:
        return _no_worker(facts)
    listening = {n: one for n, one in live.items() if facts.job.queue in one.queues}
    if not listening:
        return _unheard(facts, live)
    able = {n: one for n, one in listening.items() if facts.job.task in one.tasks}
    return _claimable(facts, able) if able else _unknown_task(facts, live, listening)


def pause_of(facts: Facts) -> Because | None:
    """The pause of the job's queue, None where it is open."""
    queue = facts.job.queue
    for at, by in facts.view.rows("paused", queue=queue):
        since = facts.since(moment(at))
        if not facts.operator:
            details = {"queue": queue, "paused_at": moment(at)}
            return Because("queue_paused", f"The queue {queue} is paused, since {since}.", details)
        return Because(
            "queue_paused",
            f"The queue {queue} is paused, by {quoted(by)} since {since}; "
            f"benbi queues resume {shlex.quote(queue)} opens it.",
            {"queue": queue, "paused_at": moment(at), "paused_by": by},
        )
    return None


def _no_worker(facts: Facts) -> Because:
    silent = [one for one in facts.workers.values() if one.silent]
    told = f"; {counted(len(silent), 'worker')} fell silent" if silent else ""
    return Because(
        "no_worker",
        f"No live worker is registered{told}: start one with benbi work.",
        {"silent": [one.id for one in silent]} if facts.operator else {},
    )


def _unheard(facts: Facts, live: Workers) -> Because:
    queue, heard = facts.job.queue, sorted({name for one in live.values() for name in one.queues})
    told = f" ({counted(len(live), 'live worker')}, listening to {', '.join(heard)})"
    return Because(
        "no_worker_for_queue",
        f"No live worker listens to the queue {queue}{told if facts.operator else ''}.",
        {"queue": queue} | ({"heard": heard} if facts.operator else {}),
    )


def _unknown_task(facts: Facts, live: Workers, listening: Workers) -> Because:
    task, queue = facts.job.task, facts.job.queue
    elsewhere = sorted({name for one in live.values() if task in one.tasks for name in one.queues})
    told = f"; one that listens to {', '.join(elsewhere)} does" if elsewhere else ""
    return Because(
        "no_worker_for_task",
        f"No live worker that listens to the queue {queue} knows the task {task}"
        f"{told if facts.operator else ''}.",
        {"task": task, "queue": queue, "workers": len(listening)}
        | ({"known_on": elsewhere} if facts.operator else {}),
    )


def _claimable(facts: Facts, able: Workers) -> Because:
    """Workers are there that could run it."""
    running = facts.view.rows("running_jobs")
    job, before = facts.job, _ahead(facts)
    free = {n for n, one in able.items() if one.running < one.slots}
    if not free:
        taken = [row[1:5] for row in running if row[0] in able]
        named, slots = facts.visible(taken), sum(one.slots for one in able.values())
        return Because(
            "slots_taken",
            f"No worker that could run it has a free slot ({len(taken):,} of {slots:,} taken in "
            f"{counted(len(able), 'worker')}{listed(named, len(taken))}); {_before(before)}.",
            {"slots": slots, "workers": len(able), "ahead": before, "jobs": named[:MOST_NAMED]},
        )
    fragile = [row for row in running if row[0] in free and row[5]]
    if job.losses and {row[0] for row in fragile} == free:
        named = facts.visible([row[1:5] for row in fragile])
        return Because(
            "after_a_loss",
            f"It lost a worker before ({job.losses} of {job.max_losses}), and a worker runs only "
            f"one such job at a time: all that could are at one{listed(named, len(fragile))}.",
            {"losses": job.losses, "jobs": named[:MOST_NAMED], "ahead": before},
        )
    return Because(
        "next",
        f"A live worker with a free slot is about to claim it; {_before(before)}.",
        {"workers": len(free), "ahead": before},
    )


def _ahead(facts: Facts) -> int:
    """How many pending jobs of the queue come first; at most one more than is told."""
    around = facts.around
    ((count,),) = facts.view.rows(
        "ahead",
        queue=facts.job.queue,
        rank=around.rank,
        run_at=around.run_at,
        n=around.n,
        most=MOST_COUNTED + 1,
    )
    return count


def _before(count: int) -> str:
    if not count:
        return "it is the first of its queue"
    if count > MOST_COUNTED:
        return f"over {MOST_COUNTED:,} jobs of its queue come first"
    return f"{counted(count, 'job')} of its queue {'comes' if count == 1 else 'come'} first"
