"""What is done when the database has no room or no time for a while: it is asked again.

A record of what was done, a step's or a job's end, is not given up: it would be done again.
"""

from __future__ import annotations

from collections.abc import Iterator

from benbi.errors import StoreBusy, StoreFull

# Nothing was stored, and nothing is wrong with what was brought.
FOR_A_WHILE = (StoreBusy, StoreFull)

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0


def pauses() -> Iterator[float]:
    """Seconds to wait before each further try, without end."""
    pause = FIRST_SECONDS
    while True:
        yield pause
        pause = min(pause * 2, LONGEST_SECONDS)
