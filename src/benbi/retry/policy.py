"""The retry policy, and the delay it gives."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Final, cast

from benbi.retry.verdict import is_number

# No server may park a job for longer than this, in seconds.
LONGEST_RETRY_AFTER: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently something is tried again.

    ``attempts``: the failures at which it fails for good, 1 or more; 1 never tries again.
    ``first``: seconds before the second try. ``factor``: by how much each delay is longer than
    the one before, 1 or more. ``longest``: no delay grows beyond this many seconds.
    ``jitter``: the share of a delay, 0 to 1, that chance may take off it: with 0.25 a delay of
    8 s comes to something between 6 s and 8 s.
    ``unknown``: False makes errors of unknown kind fail at once.

    Raises ValueError where a value is out of its range.
    """

    attempts: int = 3
    first: float = 1.0
    factor: float = 2.0
    longest: float = 3600.0
    jitter: float = 0.25
    unknown: bool = True

    def __post_init__(self) -> None:
        attempts = cast("object", self.attempts)
        if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
            raise ValueError(f"Retry(attempts={attempts!r}): must be a whole number, 1 or more")
        _check("first", self.first, 0)
        _check("factor", self.factor, 1)
        _check("longest", self.longest, 0)
        _check("jitter", self.jitter, 0, 1)
        if self.longest < self.first:
            raise ValueError(
                f"Retry(first={self.first!r}, longest={self.longest!r}): "
                "longest must not be less than first"
            )
        if not isinstance(cast("object", self.unknown), bool):
            raise ValueError(f"Retry(unknown={self.unknown!r}): must be True or False")


def _check(name: str, value: object, least: float, most: float = math.inf) -> None:
    if not is_number(value) or not least <= value <= most:
        limits = f"{least:g} or more" if math.isinf(most) else f"{least:g} to {most:g}"
        raise ValueError(f"Retry({name}={value!r}): must be a number, {limits}")


def delay(policy: Retry, failures: int, seed: bytes, retry_after: float | None = None) -> float:
    """Seconds until the next try, after ``failures`` failures (the latest included).

    Exponential, at most ``policy.longest``, less the jitter. The same seed (the job's id) and
    number of failures always give the same delay. ``retry_after`` is a floor, even above
    ``policy.longest``, up to a day (LONGEST_RETRY_AFTER); the jitter is then added to it, so
    that a fleet that was told one time does not come back in one instant.
    """
    try:
        grown = policy.first * float(policy.factor) ** (max(failures, 1) - 1)
    except OverflowError:
        grown = policy.longest if policy.first else 0.0
    full = min(grown, policy.longest)
    digest = hashlib.blake2b(b"%d:%b" % (failures, seed), digest_size=8).digest()
    share = (int.from_bytes(digest) >> 11) / 2**53
    spread = full * policy.jitter * share
    if retry_after is None or not retry_after > 0:
        return full - spread
    return max(full - spread, min(retry_after, LONGEST_RETRY_AFTER) + spread)
