"""What is done when the database has no room or no time for a while: it is asked again.

A record of what was done, a step's or a job's end, is not given up: it would be done again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from benbi.errors import StoreBusy, StoreError, StoreFull

# Nothing was stored, and nothing is wrong with what was brought.
FOR_A_WHILE = (StoreBusy, StoreFull)

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0


class Trouble:
    """What does not work for a while: said once, and once more when it is over."""

    def __init__(self, log: logging.Logger, begins: str, is_over: str) -> None:
        self._log = log
        self._begins = begins
        self._is_over = is_over
        self._said = False

    def begins(self, error: Exception) -> None:
        """It did not work. What is no fault of the database is said as an error."""
        if not self._said:
            level = logging.WARNING if isinstance(error, StoreError) else logging.ERROR
            self._log.log(level, "%s: %s", self._begins, error)
        self._said = True

    def is_over(self) -> None:
        """It worked."""
        if self._said:
            self._log.info("%s", self._is_over)
        self._said = False


def pauses() -> Iterator[float]:
    """Seconds to wait before each further try, without end."""
    pause = FIRST_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_SECONDS)
