"""The trigger rules against an independent reading of them: what each says in words."""

from __future__ import annotations

from itertools import product

import pytest

from benbi.triggers import FAIL, RULES, RUN, SKIP, WAIT, Counts, verdict
from tests.support.rules import AT_THE_END, reading


def test_there_are_thirteen() -> None:
    assert set(RULES) == set(AT_THE_END)
    assert len(RULES) == 13


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_means_what_it_says(rule: str) -> None:
    for length in range(5):
        for ends in product("ofs", repeat=length):
            for missing in range(3):
                if length + missing == 0:
                    continue
                text = "".join(ends)
                counts = Counts(length + missing, *(text.count(letter) for letter in "ofs"))
                assert verdict(rule, counts) == reading(rule, text, missing), (ends, missing)


@pytest.mark.parametrize("rule", RULES)
def test_a_verdict_stands_whatever_comes_after_it(rule: str) -> None:
    """But for a skip that a failure turns into one; the job has ended by then either way."""
    for ends in product("ofs", repeat=4):
        said = [
            verdict(rule, Counts(4, *("".join(ends[:n]).count(letter) for letter in "ofs")))
            for n in range(5)
        ]
        first = next(found for found in said if found != WAIT)
        after = set(said[said.index(first) :])
        assert after <= ({first, FAIL} if first == SKIP else {first})
        assert said[-1] in (RUN, FAIL, SKIP)


def test_nothing_to_wait_for_is_no_wait() -> None:
    assert {verdict(rule, Counts(0, 0, 0, 0)) for rule in RULES} == {RUN}


def test_a_rule_of_newer_code_waits_for_it() -> None:
    assert verdict("two_thirds", Counts(1, 1, 0, 0)) == WAIT
