"""One process of the hammer: four threads that do to one file whatever people do to it.

Run as a module with the file, the seconds and the process's number; prints what it did as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benbi import Benbi, NotPermitted
from benbi.job import Claim
from benbi.outcome import Completed, Outcome, Released, decide
from benbi.store import lifecycle, workers
from benbi.store.lifecycle import ClaimRequest, Told, Write
from benbi.store.workers import Worker
from tests.support.rig import POLICY, failure

THREADS = 4
KEYS = 40


@dataclass
class Deeds:
    """What one thread did. ``writes`` are commits it waited for, ``worst`` the longest wait."""

    counts: Counter[str] = field(default_factory=Counter)
    jobs: set[str] = field(default_factory=set)
    worst: float = 0.0


class Hammer:
    """One thread's work on the app that its process shares."""

    def __init__(self, app: Benbi, seed: int) -> None:
        self.app = app
        self.choice = random.Random(seed)
        self.deeds = Deeds()
        self.mine: list[str] = []
        told = Worker(f"hammer-{seed}", "host", 1, 8, ["default"], ["work"], "0")
        self.worker = app.store.write_sync(workers.register, told)

    def once(self) -> None:
        """One thing, by chance."""
        (deed,) = self.choice.choices(
            [self.enqueue, self.enqueue_keyed, self.work, self.cancel, self.retry, self.look],
            [30, 10, 30, 8, 4, 18],
        )
        started = time.monotonic()
        deed()
        waited = time.monotonic() - started
        if deed != self.look:
            self.deeds.counts["writes"] += 1
            self.deeds.worst = max(self.deeds.worst, waited)

    def enqueue(self) -> None:
        work = self.app.tasks["work"]
        if self.choice.random() < 0.2:
            calls = [work.call(n) for n in range(self.choice.randint(2, 20))]
            handles = self.app.enqueue_many_sync(calls)
        else:
            handles = [work.enqueue_sync(self.choice.randrange(1000))]
        self._keep([handle.id for handle in handles])

    def enqueue_keyed(self) -> None:
        key = f"k{self.choice.randrange(KEYS)}"
        self._keep([self.app.tasks["work"].options(key=key).enqueue_sync(1).id])
        self.deeds.counts["keyed"] += 1

    def _keep(self, ids: list[str]) -> None:
        self.deeds.jobs.update(ids)
        self.mine = [*self.mine[-200:], *ids]

    def work(self) -> None:
        """Claims some, tells and finishes them; now and then the claim is given back."""
        request = ClaimRequest(
            self.worker, self.choice.getrandbits(62), ["default"], '["work"]', 8, True
        )
        claims = self.app.store.write_sync(lifecycle.claim, request)
        self.deeds.counts["claims"] += len(claims)
        tickets = []
        for claim in claims:
            number = 1
            if self.choice.random() < 0.5:
                told = Write(claim, 1, [Told("partial", None, "1")], [], [])
                self.app.store.record(told, 0, None).result()
                number = 2
            write = Write(claim, number, [], [], [])
            write.decision = decide(claim, self._outcome(claim), POLICY)
            tickets.append(self.app.store.record(write, 0, None))
        for ticket in tickets:
            self.deeds.counts[f"to {ticket.result().state}"] += 1

    def _outcome(self, claim: Claim) -> Outcome:
        chance = self.choice.random()
        if chance < 0.85:
            return Completed(claim.arguments)
        return failure("permanent") if chance < 0.95 else Released("drain")

    def cancel(self) -> None:
        if self.mine:
            self.app.cancel_sync(self.choice.choice(self.mine))

    def retry(self) -> None:
        for job_id in self.choice.sample(self.mine, min(3, len(self.mine))):
            try:
                self.app.retry_sync(job_id)
            except NotPermitted:
                continue

    def look(self) -> None:
        self.app.jobs_sync(limit=20, state=self.choice.choice([None, "pending", "failed"]))
        if self.mine:
            job_id = self.choice.choice(self.mine)
            job = self.app.get_sync(job_id)
            events = self.app.events_sync(job_id)
            assert len(events) >= job.seq, "the log is never behind the record"
        self.deeds.counts["looks"] += 1


def hammer(path: str, seconds: float, process: int) -> dict[str, Any]:
    app = Benbi(path)

    @app.task
    async def work(number: int) -> int:
        return number

    deeds: list[Deeds] = []
    errors: list[str] = []
    end = time.monotonic() + seconds

    def run(thread: int) -> None:
        try:
            hand = Hammer(app, process * THREADS + thread)
            deeds.append(hand.deeds)
            while time.monotonic() < end and not errors:
                hand.once()
        except BaseException:
            errors.append(traceback.format_exc())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    app.close_sync()
    counts = sum((deed.counts for deed in deeds), Counter[str]())
    jobs = set[str]().union(*(deed.jobs for deed in deeds))
    worst = max((deed.worst for deed in deeds), default=0.0)
    return {"counts": counts, "jobs": sorted(jobs), "worst": worst, "errors": errors}


if __name__ == "__main__":
    json.dump(hammer(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])), sys.stdout)
