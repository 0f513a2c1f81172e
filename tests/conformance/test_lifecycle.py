"""Any order of anything: the store against a model that knows nothing but MOVES.

Several claimers, claims that are long lost, repeated writes, cancels and answers at any time,
workers that die, clocks that jump.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from benbi.errors import AnswerRefused, ClaimLost, IdempotencyConflict, NotPermitted
from benbi.job import FINAL, MOVES, Claim, Job, State
from benbi.outcome import (
    Canceled,
    Completed,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    Suspended,
)
from benbi.store import views
from benbi.store.lifecycle import Asked, Told
from benbi.store.workers import LOSS_DELAY
from tests.conformance.model import SECOND, JobModel, claimable
from tests.support.rig import POLICY, Rig, asked, failure, step
from tests.support.rigs import KINDS, rigged

# (move, state, outcome, delay in seconds): what decide() must make of an outcome.
PROPOSALS: dict[str, tuple[str, str, Outcome, float | None]] = {
    "complete": ("complete", "completed", Completed('"done"'), None),
    "bug": ("fail", "failed", failure("bug"), None),
    "skip": ("skip", "skipped", Skipped("unneeded"), None),
    "snooze": ("snooze", "scheduled", Snoozed(7), 7),
    "sleep": ("sleep", "scheduled", Suspended(asks=False, wake_in=20), 20),
    "ask": ("ask", "input_required", Suspended(asks=True), None),
    "release": ("release", "pending", Released("drain"), None),
    "stop": ("stop", "canceled", Canceled(), None),
}
# What no part of the first slice does yet.
LATER = {"settle", "admit", "wait", "mark"}


@dataclass(repr=False)
class Grip:
    """A claim that somebody believes to hold."""

    claim: Claim
    job: JobModel
    number: int = 0

    def __repr__(self) -> str:
        return f"attempt {self.claim.attempt} of job {self.claim.n}, write {self.number}"


class Lifecycle(RuleBasedStateMachine):
    kind: ClassVar[str]
    folder: ClassVar[Path]
    made: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self._stack = contextlib.ExitStack()
        self.rig: Rig = self._stack.enter_context(rigged(self.kind, self.folder))
        self.jobs: dict[str, JobModel] = {}
        self.workers: dict[int, int] = {}  # living workers and their beats
        self.numbers: list[int] = []  # every worker there ever was
        self.grips: list[Grip] = []
        # The stream over all jobs, as somebody follows it who misses nothing.
        self.cursor = 0
        self.newest_told = 0
        self.told: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def teardown(self) -> None:
        for job in self.jobs.values():
            self.made.update(job.moves)
        self._stack.close()

    @property
    def now(self) -> int:
        return self.rig.clock.now

    @initialize(
        rows=st.lists(
            st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([None, 30])),
            min_size=3,
            max_size=6,
        )
    )
    def begin(self, rows: list[tuple[int, int, int | None]]) -> None:
        """Two workers and some jobs under way: what is interesting begins with a claim."""
        for attempts, losses, timeout in rows:
            self.enqueue("default", 0, None, None, timeout, (attempts, losses), None, 1)
        for most in (2, 1):
            self.register()
            self.take(self.numbers[-1], most, ["default"], True)

    # Enqueue.

    @rule(
        queue=st.sampled_from(["default", "slow"]),
        rank=st.integers(-1, 1),
        delay=st.sampled_from([None, None, 0, 15]),
        expires=st.sampled_from([None, None, 40]),
        timeout=st.sampled_from([None, 30]),
        budgets=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        key=st.sampled_from([None, None, "k1", "k2"]),
        arguments=st.integers(1, 2),
    )
    def enqueue(
        self,
        queue: str,
        rank: int,
        delay: int | None,
        expires: int | None,
        timeout: int | None,
        budgets: tuple[int, int],
        key: str | None,
        arguments: int,
    ) -> None:
        fields: dict[str, Any] = {
            "queue": queue,
            "rank": rank,
            "expires_in": None if expires is None else expires * SECOND,
            "timeout": None if timeout is None else timeout * SECOND,
            "max_attempts": budgets[0],
            "max_losses": budgets[1],
        }
        there = next((job for job in self.jobs.values() if key and job.key == key), None)
        if there is not None:
            if there.arguments == arguments:
                assert self.rig.put(key=key, arguments=arguments, **fields) == there.id
            else:
                with pytest.raises(IdempotencyConflict, match=there.id):
                    self.rig.put(key=key, arguments=arguments, **fields)
            return
        job_id = self.rig.put(key=key, arguments=arguments, delay=delay, **fields)
        assert job_id not in self.jobs
        job = JobModel(
            id=job_id,
            n=self.rig.found(job_id).n,
            run_at=self.now + (delay or 0) * SECOND,
            expires_at=None if expires is None else self.now + expires * SECOND,
            grace=SECOND,
            key=key,
            arguments=arguments,
            **{
                name: fields[name]
                for name in ("queue", "rank", "timeout", "max_attempts", "max_losses")
            },
        )
        job.move("enqueue", "scheduled" if delay else "pending", self.now)
        self.jobs[job_id] = job

    # Workers.

    @rule()
    def register(self) -> None:
        worker = self.rig.worker()
        assert worker not in self.numbers
        self.workers[worker] = 0
        self.numbers.append(worker)

    @precondition(lambda self: self.numbers)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(self.numbers))
        held = self.rig.beat(worker)
        if worker not in self.workers:
            assert held is None
            return
        self.workers[worker] += 1
        assert {n: (row.token, row.cancel_requested) for n, row in (held or {}).items()} == {
            job.n: (job.token, job.cancel_at is not None) for job in self.held_by(worker)
        }

    def held_by(self, worker: int) -> list[JobModel]:
        return [job for job in self.jobs.values() if job.worker == worker]

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), stale=st.booleans())
    def bury(self, data: st.DataObject, stale: bool) -> None:
        busy = [worker for worker in sorted(self.workers) if self.held_by(worker)]
        worker = data.draw(st.sampled_from(busy or sorted(self.workers)))
        beat_no = self.workers[worker] - 1 if stale else self.workers[worker]
        held = self.held_by(worker)
        buried = self.rig.bury(worker, beat_no)
        if stale:
            assert buried is None
            return
        assert sorted(buried or []) == sorted(job.n for job in held)
        del self.workers[worker]
        for job in held:
            job.lose(self.now, LOSS_DELAY)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def sign_off(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        held = self.held_by(worker)
        assert sorted(self.rig.sign_off(worker)) == sorted(job.n for job in held)
        del self.workers[worker]
        for job in held:
            job.release(self.now)

    @precondition(lambda self: self.grips)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        grip = self.some_grip(data)
        worker = data.draw(st.sampled_from(self.numbers))
        job = grip.job
        holds = job.token == grip.claim.token and job.worker == worker
        assert self.rig.release(worker, grip.claim) == ([job.n] if holds else [])
        if holds:
            job.release(self.now)

    # Claims and their writes.

    @precondition(lambda self: self.numbers)
    @rule(
        data=st.data(),
        most=st.integers(1, 4),
        queues=st.sampled_from([["default"], ["slow", "default"]]),
        fragile=st.booleans(),
    )
    def claim(self, data: st.DataObject, most: int, queues: list[str], fragile: bool) -> None:
        self.take(self.some_worker(data), most, queues, fragile)

    def take(self, worker: int, most: int, queues: list[str], fragile: bool) -> None:
        if worker not in self.workers:
            with pytest.raises(ClaimLost):
                self.rig.claim(worker, most, queues=queues, fragile=fragile)
            return
        expected = claimable(self.jobs.values(), queues, most, fragile)
        claims = self.rig.claim(worker, most, queues=queues, fragile=fragile)
        assert [claim.job_id for claim in claims] == [job.id for job in expected]
        for claim, job in zip(claims, expected, strict=True):
            job.claim(worker, claim.token, self.now)
            assert (claim.attempt, claim.generation) == (job.attempt, job.generation)
            self.grips.append(Grip(claim, job))

    def some_worker(self, data: st.DataObject) -> int:
        """More often a living one than one that was buried long ago."""
        living = sorted(self.workers) or self.numbers
        return data.draw(st.sampled_from(living * 3 + self.numbers))

    def some_grip(self, data: st.DataObject) -> Grip:
        """More often one that holds its job than one that lost it long ago."""
        holding = [grip for grip in self.grips if grip.job.accepts(grip.claim.token, 1 << 30)]
        return data.draw(st.sampled_from(holding * 4 + self.grips))

    @precondition(lambda self: self.grips)
    @rule(data=st.data(), events=st.integers(0, 2), with_step=st.booleans())
    def write(self, data: st.DataObject, events: int, with_step: bool) -> None:
        grip = self.some_grip(data)
        grip.number += 1
        accepted = grip.job.accepts(grip.claim.token, grip.number)
        told = [Told("partial", None, "1")] * events
        steps = [step()] if with_step else []
        if not accepted:
            with pytest.raises(ClaimLost):
                self.rig.write(grip.claim, *told, steps=steps)
            return
        answer = self.rig.write(grip.claim, *told, steps=steps)
        assert answer.cancel_requested == (grip.job.cancel_at is not None)
        grip.job.last_write = grip.number
        grip.job.log += ["partial"] * events

    @precondition(lambda self: self.grips)
    @rule(
        data=st.data(),
        proposal=st.sampled_from([*PROPOSALS, "fault", "fault"]),
        keys=st.sampled_from([["timed"], ["free"], ["timed", "free"]]),
        timeout=st.sampled_from([None, 25]),
        default=st.booleans(),
    )
    def finish(
        self,
        data: st.DataObject,
        proposal: str,
        keys: list[str],
        timeout: int | None,
        default: bool,
    ) -> None:
        grip = self.some_grip(data)
        outcome, asks, state = self.finishing(grip, proposal, keys, timeout, default)
        if state is None:
            with pytest.raises(ClaimLost):
                self.rig.finish(grip.claim, outcome, asks=asks)
        else:
            assert self.rig.finish(grip.claim, outcome, asks=asks) == state

    @precondition(lambda self: self.grips)
    @rule(
        proposals=st.lists(st.sampled_from([*PROPOSALS, "fault"]), min_size=8, max_size=8),
        timeout=st.sampled_from([None, 25]),
        default=st.booleans(),
    )
    def all_finish(self, proposals: list[str], timeout: int | None, default: bool) -> None:
        """The newest claims, held or lost, end in one moment: one batch takes them all."""
        grips = self.grips[-8:]
        expected: list[str | None] = []
        finishes: list[tuple[Claim, Outcome, list[Asked]]] = []
        for grip, proposal in zip(grips, proposals, strict=False):
            outcome, asks, state = self.finishing(grip, proposal, ["timed"], timeout, default)
            finishes.append((grip.claim, outcome, asks))
            expected.append(state)
        assert self.rig.finish_together(finishes) == expected

    def finishing(
        self, grip: Grip, proposal: str, keys: list[str], timeout: int | None, default: bool
    ) -> tuple[Outcome, list[Asked], str | None]:
        """What to propose, and the state that the store must name; None: the claim is lost."""
        job, grip.number = grip.job, grip.number + 1
        move, to, outcome, delay = self.proposal(job, proposal)
        asks = self.questions(keys, timeout, default) if proposal == "ask" else []
        if not job.accepts(grip.claim.token, grip.number):
            return outcome, asks, None
        job.last_write = grip.number
        if job.cancel_at is None:
            for one in asks:
                deadline = None if one.timeout is None else self.now + one.timeout
                job.ask(one.key, deadline, one.default is not None)
        named = job.finish(move, to, self.now, None if delay is None else round(delay * SECOND))
        return outcome, asks, named

    def proposal(self, job: JobModel, name: str) -> tuple[str, str, Outcome, float | None]:
        if name != "fault":
            return PROPOSALS[name]
        if job.failures + 1 >= job.max_attempts:
            return "fail", "failed", failure(), None
        return "retry", "retrying", failure(), POLICY.first * POLICY.factor**job.failures

    def questions(self, keys: list[str], timeout: int | None, default: bool) -> list[Asked]:
        timed = {"timeout": timeout, "default": "grey" if default else None}
        return [asked(key, **(timed if key == "timed" else {})) for key in keys]

    @precondition(lambda self: any(grip.number for grip in self.grips))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """What a claim wrote last, once more: an unknown commit."""
        grip = data.draw(st.sampled_from([grip for grip in self.grips if grip.number]))
        if not grip.job.knows(grip.claim.token, grip.number):
            with pytest.raises(ClaimLost):
                self.rig.repeat(grip.claim)
            return
        state = self.rig.repeat(grip.claim).state
        assert state == (None if grip.job.state == "running" else grip.job.state)

    # People.

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        self.rig.cancel(job.id)
        job.cancel(self.now)

    @precondition(lambda self: any(job.questions for job in self.jobs.values()))
    @rule(data=st.data(), key=st.sampled_from(["timed", "free"]))
    def answer(self, data: st.DataObject, key: str) -> None:
        asking = [job for job in self.jobs.values() if job.questions]
        job = data.draw(st.sampled_from(asking))
        if key not in job.open or State(job.state) in FINAL:
            with pytest.raises(AnswerRefused):
                self.rig.answer(job.id, key, "red")
            return
        self.rig.answer(job.id, key, "red")
        job.answer(key, self.now)

    @precondition(lambda self: self.jobs)
    @rule(
        data=st.data(), fresh=st.booleans(), budgets=st.tuples(st.integers(1, 2), st.integers(1, 2))
    )
    def again(self, data: st.DataObject, fresh: bool, budgets: tuple[int, int]) -> None:
        job = data.draw(st.sampled_from(list(self.jobs.values())))
        attempts, losses = budgets
        if State(job.state) not in MOVES["again"].sources:
            with pytest.raises(NotPermitted):
                self.rig.again(job.id, attempts=attempts, losses=losses, fresh=fresh)
            return
        self.rig.again(job.id, attempts=attempts, losses=losses, fresh=fresh)
        job.again(attempts, losses, fresh, self.now)

    # Time.

    @rule(seconds=st.sampled_from([0.5, 2, 11, 31]))
    def tick(self, seconds: float) -> None:
        self.rig.clock.tick(seconds)

    @precondition(lambda self: any(job.waits for job in self.jobs.values()))
    @rule()
    def wait(self) -> None:
        """Until the next job is due, and a little longer."""
        next_due = min(job.run_at for job in self.jobs.values() if job.waits)
        self.rig.clock.tick(max(0, next_due - self.now) / SECOND + 0.5)
        self.due()

    @rule()
    def due(self) -> None:
        ready = [job for job in self.jobs.values() if job.waits and job.run_at <= self.now]
        assert self.rig.due() == len(ready)
        for job in ready:
            job.move("due", "pending", self.now)

    @rule()
    def expire(self) -> None:
        self.rig.expire()
        for job in self.jobs.values():
            job.expire(self.now)
            job.overdue(self.now)

    @rule()
    def stop_overrun(self) -> None:
        ended = [job.n for job in self.jobs.values() if job.overrun(self.now, 3 * SECOND)]
        assert sorted(self.rig.stop_overrun(delay=3)) == sorted(ended)

    @rule()
    def prune(self) -> None:
        # The newest job and the job of the newest event stay, so that no number comes again.
        newest = {max((job.n for job in self.jobs.values()), default=0), self.newest_told}
        over = [
            job
            for job in self.jobs.values()
            if job.n not in newest
            and job.finished_at is not None
            and job.finished_at + (60 if job.state == "failed" else 30) * SECOND <= self.now
        ]
        assert self.rig.prune(keep_failed=60, keep_other=30) == len(over)
        for job in over:
            self.made.update(job.moves)
            del self.jobs[job.id]
        # Whoever still believes to hold one of these holds nothing.
        for job in over:
            job.state, job.token = "gone", None

    # What holds at all times.

    @invariant()
    def the_records_are_as_the_model_says(self) -> None:
        records = {job.id: job for job in self.listed()}
        assert set(records) == set(self.jobs)
        for event in self.rig.since(self.cursor):
            self.cursor = event.cursor
            self.told[event.job_id].append((event.seq, event.type))
            self.newest_told = self.jobs[event.job_id].n
        for job in self.jobs.values():
            record = records[job.id]
            found = (
                str(record.state),
                record.attempt,
                record.failures,
                record.losses,
                record.generation,
                record.cancel_requested,
                {question.key for question in record.questions},
                record.seq,
            )
            assert found == (
                job.state,
                job.attempt,
                job.failures,
                job.losses,
                job.generation,
                job.cancel_at is not None,
                set(job.open) if job.state == "input_required" else set(),
                len(job.log),
            )
            assert self.told[job.id] == list(enumerate(job.log, 1))

    def listed(self) -> list[Job]:
        return self.rig.store.read_sync(views.jobs, None, None, None, None, None, 10_000)


# A server is ten times as slow as memory, and the moves are the same.
SHORT = {"file": 90, "memory": 120, "postgresql": 20, "pgbouncer": 5}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        *(pytest.param(kind, SHORT[kind], id=kind) for kind in KINDS),
        *(pytest.param(kind, 1000, id=f"{kind}-long", marks=pytest.mark.soak) for kind in KINDS),
    ],
)
def test_the_store_does_what_the_table_of_moves_says(
    kind: str, examples: int, folder: Path
) -> None:
    told = {"kind": kind, "folder": folder, "made": Counter[str]()}
    machine = type("Machine", (Lifecycle,), told)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=60, phases=set(Phase) - {Phase.explain}
        ),
    )
    made = machine.made  # type: ignore[attr-defined]
    assert set(made) <= set(MOVES) - LATER
    # A machine that never gets anywhere would agree with any model.
    if examples >= SHORT["file"]:
        assert {"claim", "release", "lose", "cancel", "again"} <= set(made), made
