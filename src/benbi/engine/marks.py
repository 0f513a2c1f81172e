"""Where a worker's claims go on: behind what it claimed before, and now and then from the start."""

from __future__ import annotations

import time

from benbi.store.lifecycle import Place

# A job may have become the first of its queue since the marks were set.
FROM_THE_START_SECONDS = 0.1


class Marks:
    """``places``: how far the claims came in each queue; the claim itself moves them on."""

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self._started_at = 0.0
        self._gone_on = False

    def next(self) -> dict[str, Place]:
        """The places for the next claim."""
        if time.monotonic() - self._started_at >= FROM_THE_START_SECONDS:
            self.places = {}
        self._gone_on = bool(self.places)
        if not self._gone_on:
            self._started_at = time.monotonic()
        return self.places

    def more(self, enough: bool) -> bool:
        """Whether there may be more, after a claim that got what it asked for, or less."""
        if not enough:
            self.places = {}
        # From a mark on, less says nothing of what lies before it.
        return enough or self._gone_on
