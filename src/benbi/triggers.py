"""When a job that waits for others may run: the trigger rules, by Airflow's names and meanings.

Pure. A verdict follows from the counts on the waiting job's own row, and falls as soon as they
allow no other: one failure among a thousand is enough for ``all_success``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

WAIT: Final = "wait"
RUN: Final = "run"
FAIL: Final = "fail"  # ends as failed, reason upstream_failed
SKIP: Final = "skip"  # ends as skipped, reason trigger_rule

DEFAULT_RULE: Final = "all_success"


class Counts(NamedTuple):
    """How the jobs that are waited for have ended so far. A canceled one counts as failed."""

    total: int
    ok: int
    failed: int
    skipped: int

    @property
    def done(self) -> bool:
        """True once all of them have ended."""
        return self.ok + self.failed + self.skipped >= self.total


Says = Callable[[Counts], bool]


def _never(_: Counts) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Rule:
    """Asked in this order: ``fails``, ``skips``, ``runs``; none of them: the job waits on."""

    runs: Says
    fails: Says = _never
    skips: Says = _never


# There are no setup tasks here: all_done_setup_success is all_done.
RULES: Final[dict[str, Rule]] = {
    "all_success": Rule(
        runs=lambda up: up.done,
        fails=lambda up: up.failed > 0,
        skips=lambda up: up.skipped > 0,
    ),
    "all_failed": Rule(
        runs=lambda up: up.done,
        skips=lambda up: up.ok + up.skipped > 0,
    ),
    "all_done": Rule(runs=lambda up: up.done),
    "all_done_min_one_success": Rule(
        runs=lambda up: up.done,
        fails=lambda up: up.done and not up.skipped and not up.ok,
        skips=lambda up: up.skipped > 0,
    ),
    "all_done_setup_success": Rule(runs=lambda up: up.done),
    "one_success": Rule(
        runs=lambda up: up.ok > 0,
        fails=lambda up: up.done and not up.ok and up.failed > 0,
        skips=lambda up: up.done and not up.ok,
    ),
    "one_failed": Rule(
        runs=lambda up: up.failed > 0,
        skips=lambda up: up.done and not up.failed,
    ),
    "one_done": Rule(
        runs=lambda up: up.ok + up.failed > 0,
        skips=lambda up: up.done and up.skipped == up.total,
    ),
    "none_failed": Rule(
        runs=lambda up: up.done,
        fails=lambda up: up.failed > 0,
    ),
    "none_failed_min_one_success": Rule(
        runs=lambda up: up.done,
        fails=lambda up: up.failed > 0,
        skips=lambda up: up.done and not up.ok,
    ),
    "none_skipped": Rule(
        runs=lambda up: up.done,
        skips=lambda up: up.skipped > 0,
    ),
    "always": Rule(runs=lambda _: True),
    "all_skipped": Rule(
        runs=lambda up: up.done,
        skips=lambda up: up.ok + up.failed > 0,
    ),
}


def verdict(rule: str, counts: Counts) -> str:
    """WAIT, RUN, FAIL or SKIP. A rule that only newer code knows waits for that code."""
    found = RULES.get(rule)
    if found is None:
        return WAIT
    if counts.total == 0:
        return RUN
    if found.fails(counts):
        return FAIL
    if found.skips(counts):
        return SKIP
    return RUN if found.runs(counts) else WAIT
