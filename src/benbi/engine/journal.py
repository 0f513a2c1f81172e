"""Hands a claim's one outcome to the store, and does not give up before the store has spoken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benbi.engine.attempt import Attempt
from benbi.engine.patience import pauses
from benbi.errors import ClaimLost, StoreError
from benbi.job import ErrorRecord
from benbi.outcome import Decision, Failed, Outcome, decide
from benbi.retry import Retry
from benbi.store.lifecycle import Accepted, Write

log = logging.getLogger("benbi.worker")


class _Finish:
    """One finish under way."""

    __slots__ = ("attempt", "decision", "pauses", "policy", "write")

    def __init__(self, attempt: Attempt, decision: Decision, policy: Retry) -> None:
        self.attempt = attempt
        self.policy = policy
        self.pauses: Iterator[float] | None = None
        self.decision = decision
        self.write: Write = attempt.final_write(decision)


class Journal:
    """Finishes claims. One outcome for each claim; a second one is dropped.

    ``spoken`` is called in the loop when the store has recorded or refused an attempt's outcome.
    Nothing awaits a finish: a task and a future for each took a quarter of a drain's time.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, spoken: Callable[[Attempt, str | None], None]
    ) -> None:
        self._loop = loop
        self._spoken = spoken
        self._troubled = False

    def finish(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> None:
        """Records the outcome. ``spoken`` gets the state the job arrived in; None: it was lost."""
        if attempt.end():
            self._hand_in(_Finish(attempt, self._decided(attempt, outcome, policy), policy))

    def _hand_in(self, finish: _Finish) -> None:
        try:
            finish.attempt.hand_in(finish.write, self._loop, partial(self._answered, finish))
        except StoreError as error:
            self._answered(finish, error)

    def _answered(self, finish: _Finish, answer: Any) -> None:
        if isinstance(answer, Accepted):
            if self._troubled:
                log.info("finishes are stored again")
                self._troubled = False
            self._spoken(finish.attempt, answer.state)
        elif isinstance(answer, ClaimLost):
            log.info("%s; its outcome (%s) was refused", answer, finish.decision.state)
            self._spoken(finish.attempt, None)
        elif isinstance(answer, StoreError):
            # The disk is full, or the database away: said once, tried until it is over.
            if not self._troubled:
                log.error("finishes can not be stored, trying again: %s", answer)
            self._troubled = True
            finish.pauses = finish.pauses or pauses()
            self._loop.call_later(next(finish.pauses), self._hand_in, finish)
        else:
            self._hand_in(self._unstorable(finish, answer))

    def _decided(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> Decision:
        try:
            return decide(attempt.claim, outcome, policy)
        except Exception as error:
            # The attempt has ended already: from here on nothing may keep its end from being told.
            return self._failed(attempt, error, policy)

    def _unstorable(self, finish: _Finish, error: Exception) -> _Finish:
        """The database refuses what the job brought: the job fails, with that as its reason."""
        if finish.decision.reason == "unstorable":
            raise error
        decision = self._failed(finish.attempt, error, finish.policy)
        return _Finish(finish.attempt, decision, finish.policy)

    def _failed(self, attempt: Attempt, error: Exception, policy: Retry) -> Decision:
        attempt.forget_suspension()
        rule = "the database refused the outcome itself, which another attempt would repeat"
        record = ErrorRecord(type(error).__qualname__, ascii(str(error)), "permanent", rule)
        log.error("job %s: the outcome can not be stored: %s", attempt.claim.job_id, error)
        return decide(attempt.claim, Failed(record), policy)._replace(reason="unstorable")
