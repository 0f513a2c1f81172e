"""What the store must come to, without a database: MOVES, applied to plain objects.

Pure and small on purpose. Each change of state goes through ``JobModel.move``, which knows
nothing but MOVES: where a move may begin and end, what it charges, which event tells it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from benbi.job import FINAL, MOVES, State

SECOND = 1_000_000


@dataclass
class QuestionModel:
    deadline: int | None
    default: bool
    answered: bool = False


@dataclass(repr=False)
class JobModel:
    """One job as it should be. Times are microseconds; ``log`` are the types of its events."""

    id: str
    n: int
    queue: str
    rank: int
    run_at: int
    expires_at: int | None
    timeout: int | None
    grace: int
    max_attempts: int
    max_losses: int
    key: str | None
    arguments: int
    state: str = ""
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    generation: int = 1
    cancel_at: int | None = None
    deadline_at: int | None = None
    finished_at: int | None = None
    worker: int | None = None
    token: int | None = None
    last_write: int = 0
    questions: dict[str, QuestionModel] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    moves: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"job {self.n} ({self.state})"

    def move(self, name: str, to: str, now: int) -> None:
        """One move of MOVES: refused where the table does not have it."""
        move = MOVES[name]
        source = State(self.state) if self.state else None
        assert source in move.sources, f"{name} from {self.state}"
        assert State(to) in move.targets, f"{name} to {to}"
        if move.charge is not None:
            setattr(self, move.charge, getattr(self, move.charge) + 1)
        self.state = to
        self.moves.append(name)
        self.log.append(move.event or to)
        self.finished_at = now if State(to) in FINAL else None
        if to != "running":
            self.worker = self.deadline_at = None

    @property
    def open(self) -> list[str]:
        return [key for key, question in self.questions.items() if not question.answered]

    @property
    def waits(self) -> bool:
        return self.state in ("scheduled", "retrying")

    # A claim and what it writes.

    def claim(self, worker: int, token: int, now: int) -> None:
        self.move("claim", "running", now)
        self.worker, self.token, self.last_write = worker, token, 0
        self.deadline_at = None if self.timeout is None else now + self.timeout

    def accepts(self, token: int, number: int) -> bool:
        return self.state == "running" and self.token == token and self.last_write < number

    def knows(self, token: int, number: int) -> bool:
        """Is this a repetition of what the claim wrote before?"""
        return self.token == token and self.last_write >= number

    def finish(self, move: str, to: str, now: int, delay: int | None) -> str:
        """A claim's proposal: a cancel wins over every live state. The state it is told."""
        if State(to) not in FINAL and self.cancel_at is not None:
            move, to, delay = "stop", "canceled", None
        self.move(move, to, now)
        if delay is not None:
            self.run_at = now + delay
        if to == "input_required" and not self.open:
            # All that it asked for was answered while it was on its way.
            self.answered(now)
        return to

    def ask(self, key: str, deadline: int | None, default: bool) -> None:
        known = self.questions.get(key)
        if known is None or not known.answered:
            self.questions[key] = QuestionModel(deadline, default)

    def answered(self, now: int) -> None:
        self.move("answer", "pending", now)
        self.run_at = now

    # People and time.

    def answer(self, key: str, now: int) -> None:
        self.questions[key].answered = True
        self.log.append("answered")
        if self.state == "input_required" and not self.open:
            self.answered(now)

    def cancel(self, now: int) -> None:
        if self.state == "running":
            if self.cancel_at is None:
                self.cancel_at = now
                self.log.append("cancel_requested")
        elif State(self.state) not in FINAL:
            self.move("cancel", "canceled", now)

    def again(self, attempts: int, losses: int, fresh: bool, now: int) -> None:
        self.move("again", "pending", now)
        self.max_attempts, self.max_losses = self.failures + attempts, self.losses + losses
        self.run_at, self.expires_at, self.cancel_at, self.token = now, None, None, None
        if fresh:
            self.generation += 1
            self.questions = {}

    def release(self, now: int) -> None:
        self._end_claim("release", "pending", now)

    def lose(self, now: int, delay: int) -> None:
        last = self.losses + 1 >= self.max_losses
        to = "failed" if last else "pending" if self.losses == 0 else "retrying"
        if self.losses:
            self.run_at = now + delay
        self._end_claim("lose", to, now)

    def overrun(self, now: int, delay: int) -> bool:
        """Ends what outlived its cancel or its timeout, and the grace."""
        if self.state != "running":
            return False
        if self.cancel_at is not None and self.cancel_at + self.grace <= now:
            self._end_claim("stop", "canceled", now)
        elif self.deadline_at is not None and self.deadline_at + self.grace <= now:
            last = self.failures + 1 >= self.max_attempts
            self.run_at = now + delay
            self._end_claim("fail" if last else "retry", "failed" if last else "retrying", now)
        else:
            return False
        return True

    def _end_claim(self, move: str, to: str, now: int) -> None:
        if self.cancel_at is not None and to != "canceled":
            move, to = "stop", "canceled"
        self.move(move, to, now)
        self.token = None

    def expire(self, now: int) -> None:
        states = ("waiting", "scheduled", "pending", "input_required")
        if self.state in states and self.expires_at is not None and self.expires_at <= now:
            self.move("expire", "failed", now)

    def overdue(self, now: int) -> None:
        """The one question of ours that may have a deadline."""
        question = self.questions.get("timed")
        if (
            self.state != "input_required"
            or question is None
            or question.answered
            or question.deadline is None
            or question.deadline > now
        ):
            return
        if question.default:
            self.answer("timed", now)
        else:
            self.move("expire", "failed", now)


def in_claim_order(jobs: Iterable[JobModel], queues: Iterable[str]) -> list[JobModel]:
    wanted = [job for job in jobs if job.state == "pending" and job.queue in queues]
    return sorted(wanted, key=lambda job: (job.rank, job.run_at, job.n))


def claimable(
    jobs: Iterable[JobModel], queues: Iterable[str], most: int, fragile: bool
) -> list[JobModel]:
    """What a claim gets: in order, and of those that lost a worker at most one."""
    chosen: list[JobModel] = []
    for job in in_claim_order(jobs, queues):
        if job.losses and not fragile:
            continue
        fragile = fragile and not job.losses
        chosen.append(job)
    return chosen[:most]
