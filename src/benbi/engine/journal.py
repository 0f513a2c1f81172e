"""Hands a claim's one outcome to the store, and does not give up before the store has spoken."""

from __future__ import annotations

import asyncio
import logging

from benbi.engine.attempt import Attempt
from benbi.engine.patience import pauses
from benbi.errors import ClaimLost, StoreError
from benbi.job import ErrorRecord
from benbi.outcome import Decision, Failed, Outcome, decide
from benbi.retry import Retry
from benbi.store.lifecycle import Accepted

log = logging.getLogger("benbi.worker")


class Journal:
    """Finishes claims. One outcome for each claim; a second one is dropped."""

    def __init__(self) -> None:
        self._troubled = False

    async def finish(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> str | None:
        """Records the outcome; returns the state the job arrived in, None where it was lost
        or its outcome had been recorded before."""
        if not attempt.end():
            return None
        decision = self._decided(attempt, outcome, policy)
        write = attempt.final_write(decision)
        loop = asyncio.get_running_loop()
        for pause in pauses():
            try:
                accepted: Accepted = await attempt.hand_in(write, loop).outcome()
            except ClaimLost as lost:
                log.info("%s; its outcome (%s) was refused", lost, decision.state)
                return None
            except StoreError as error:
                # The disk is full, or the database away: said once, tried until it is over.
                if not self._troubled:
                    log.error("finishes can not be stored, trying again: %s", error)
                self._troubled = True
                await asyncio.sleep(pause)
            except Exception as error:
                decision = self._unstorable(attempt, decision, error, policy)
                write = attempt.final_write(decision)
            else:
                if self._troubled:
                    log.info("finishes are stored again")
                self._troubled = False
                return accepted.state

    def _decided(self, attempt: Attempt, outcome: Outcome, policy: Retry) -> Decision:
        try:
            return decide(attempt.claim, outcome, policy)
        except Exception as error:
            # The attempt has ended already: from here on nothing may keep its end from being told.
            return self._failed(attempt, error, policy)

    def _unstorable(
        self, attempt: Attempt, decision: Decision, error: Exception, policy: Retry
    ) -> Decision:
        """The database refuses what the job brought: the job fails, with that as its reason."""
        if decision.reason == "unstorable":
            raise error
        return self._failed(attempt, error, policy)

    def _failed(self, attempt: Attempt, error: Exception, policy: Retry) -> Decision:
        attempt.forget_suspension()
        rule = "the database refused the outcome itself, which another attempt would repeat"
        record = ErrorRecord(type(error).__qualname__, ascii(str(error)), "permanent", rule)
        log.error("job %s: the outcome can not be stored: %s", attempt.claim.job_id, error)
        return decide(attempt.claim, Failed(record), policy)._replace(reason="unstorable")
