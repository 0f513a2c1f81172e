"""Hands a claim's one outcome to the store, and does not give up before the store has spoken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from benbi.engine.attempt import Attempt
from benbi.engine.patience import pauses
from benbi.errors import ClaimLost, StoreError
from benbi.job import ErrorRecord
from benbi.outcome import Decision, Failed, Outcome, decide
from benbi.retry import Retry
from benbi.store.batcher import Ticket
from benbi.store.lifecycle import Accepted
from benbi.store.store import Store

log = logging.getLogger("benbi.worker")


class Finish(Ticket):
    """One finish under way."""

    __slots__ = ("attempt", "decision", "pauses", "policy")

    def __init__(
        self, journal: Journal, attempt: Attempt, decision: Decision, policy: Retry
    ) -> None:
        super().__init__(
            attempt.final_write(decision),
            len(decision.result or ""),
            journal.loop,
            journal.answered,
        )
        self.attempt = attempt
        self.decision = decision
        self.policy = policy
        self.pauses: Iterator[float] | None = None


class Journal:
    """Finishes claims. One outcome for each claim; a second one is dropped.

    ``spoken`` is called in the loop when the store has recorded or refused an attempt's outcome,
    with the state the job arrived in (None: it was lost). Nothing awaits a finish: a task and a
    future for each took a quarter of a drain's time. What ends in one turn of the loop is handed
    in together, so that the first of many does not have a transaction of its own.
    """

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        spoken: Callable[[Attempt, str | None], None],
    ) -> None:
        self.loop = loop
        self._store = store
        self._spoken = spoken
        self._ended: list[Finish] = []
        self._troubled = False

    def finish(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> None:
        """Records the outcome."""
        if attempt.end():
            self._queue(Finish(self, attempt, self._decided(attempt, outcome, policy), policy))

    def _queue(self, finish: Finish) -> None:
        if not self._ended:
            self.loop.call_soon(self._hand_in)
        self._ended.append(finish)

    def _hand_in(self) -> None:
        finishes, self._ended = self._ended, []
        try:
            self._store.record_many(finishes)
        except StoreError as error:
            for finish in finishes:
                self._try_again(finish, error)

    def answered(self, finish: Finish) -> None:
        """The store has spoken, or was not able to."""
        answer = finish.value
        if isinstance(answer, Accepted):
            if self._troubled:
                log.info("finishes are stored again")
                self._troubled = False
            self._spoken(finish.attempt, answer.state)
        elif isinstance(answer, ClaimLost):
            log.info("%s; its outcome (%s) was refused", answer, finish.decision.state)
            self._spoken(finish.attempt, None)
        elif isinstance(answer, StoreError):
            self._try_again(finish, answer)
        else:
            self._queue(self._unstorable(finish, answer))

    def _try_again(self, finish: Finish, error: StoreError) -> None:
        """The disk is full, or the database away: said once, tried until it is over."""
        if not self._troubled:
            log.error("finishes can not be stored, trying again: %s", error)
        self._troubled = True
        finish.pauses = finish.pauses or pauses()
        self.loop.call_later(next(finish.pauses), self._queue, finish)

    def _decided(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> Decision:
        try:
            return decide(attempt.claim, outcome, policy)
        except Exception as error:
            # The attempt has ended already: from here on nothing may keep its end from being told.
            return self._failed(attempt, error, policy)

    def _unstorable(self, finish: Finish, error: Exception) -> Finish:
        """The database refuses what the job brought: the job fails, with that as its reason."""
        if finish.decision.reason == "unstorable":
            raise error
        decision = self._failed(finish.attempt, error, finish.policy)
        return Finish(self, finish.attempt, decision, finish.policy)

    def _failed(self, attempt: Attempt, error: Exception, policy: Retry) -> Decision:
        attempt.forget_suspension()
        rule = "the database refused the outcome itself, which another attempt would repeat"
        record = ErrorRecord(type(error).__qualname__, ascii(str(error)), "permanent", rule)
        log.error("job %s: the outcome can not be stored: %s", attempt.claim.job_id, error)
        return decide(attempt.claim, Failed(record), policy)._replace(reason="unstorable")
