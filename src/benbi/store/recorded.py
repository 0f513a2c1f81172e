"""What earlier attempts of a generation left, as replay reads it."""

from __future__ import annotations

import json
from typing import NamedTuple

from benbi.job import Claim
from benbi.store.database import Transaction
from benbi.store.lifecycle import StepRecord


class Recorded(NamedTuple):
    """What earlier attempts of this generation left: replay starts from it."""

    steps: dict[tuple[str, str, str], StepRecord]
    answers: dict[str, tuple[bytes, str | None]]
    progress: frozenset[str]
    # The furthest that was told, for each total.
    furthest: dict[float | None, float]
    partials: tuple[str, ...]


NOTHING_RECORDED = Recorded({}, {}, frozenset(), {}, ())


def recorded(view: Transaction, claim: Claim) -> Recorded:
    """Steps, answers, progress and partials of this generation so far."""
    steps = {
        (kind, name, use): StepRecord(kind, name, use, fingerprint, state, tries, result, None)
        for kind, name, use, fingerprint, state, tries, result in view.rows(
            "recorded_steps", n=claim.n, generation=claim.generation
        )
    }
    answers: dict[str, tuple[bytes, str | None]] = {
        key: (fingerprint, answer)
        for key, fingerprint, answer in view.rows(
            "recorded_answers", n=claim.n, generation=claim.generation
        )
    }
    telling = view.rows("recorded_telling", n=claim.n, first_attempt=claim.first_attempt)
    told = [data for type, data in telling if type == "progress"]
    return Recorded(
        steps,
        answers,
        frozenset(told),
        _furthest(view, claim, told),
        tuple(data for type, data in telling if type == "partial"),
    )


def _furthest(view: Transaction, claim: Claim, told: list[str]) -> dict[float | None, float]:
    reports = [(report.get("done", 0.0), report.get("total")) for report in map(json.loads, told)]
    if reports:
        # What was told between two events; it may be left over from an earlier generation.
        reports += view.rows("recorded_progress", n=claim.n)
    furthest: dict[float | None, float] = {}
    for done, total in reports:
        furthest[total] = max(done, furthest.get(total, done))
    return furthest
