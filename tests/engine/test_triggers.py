"""The trigger rules against an independent reading of them: what each says in words."""

from __future__ import annotations

from itertools import product

import pytest

from benbi.triggers import FAIL, RULES, RUN, SKIP, WAIT, Counts, verdict

# For each rule: how it reads once all have ended (o, f, s: how many of each) …
AT_THE_END = {
    "all_success": lambda o, f, s: "fail" if f else "skip" if s else "run",
    "all_failed": lambda o, f, s: "run" if not o and not s else "skip",
    "all_done": lambda o, f, s: "run",
    "all_done_min_one_success": lambda o, f, s: "skip" if s else "run" if o else "fail",
    "all_done_setup_success": lambda o, f, s: "run",
    "one_success": lambda o, f, s: "run" if o else "fail" if f else "skip",
    "one_failed": lambda o, f, s: "run" if f else "skip",
    "one_done": lambda o, f, s: "run" if o or f else "skip",
    "none_failed": lambda o, f, s: "fail" if f else "run",
    "none_failed_min_one_success": lambda o, f, s: "fail" if f else "run" if o else "skip",
    "none_skipped": lambda o, f, s: "skip" if s else "run",
    "always": lambda o, f, s: "run",
    "all_skipped": lambda o, f, s: "skip" if o or f else "run",
}
# … and which end among them is enough, with what it leads to, before all have ended.
EARLY = {
    "all_success": {"f": "fail", "s": "skip"},
    "all_failed": {"o": "skip", "s": "skip"},
    "all_done_min_one_success": {"s": "skip"},
    "one_success": {"o": "run"},
    "one_failed": {"f": "run"},
    "one_done": {"o": "run", "f": "run"},
    "none_failed": {"f": "fail"},
    "none_failed_min_one_success": {"f": "fail"},
    "none_skipped": {"s": "skip"},
    "all_skipped": {"o": "skip", "f": "skip"},
}


def reading(rule: str, ends: str, missing: int) -> str:
    """What the words say of a list of ends, with so many still to come."""
    o, f, s = (ends.count(letter) for letter in "ofs")
    if rule == "always" or not missing:
        return AT_THE_END[rule](o, f, s)
    # A failure says more than a skip does where both are enough.
    for letter in "fos":
        if letter in ends and letter in EARLY.get(rule, {}):
            return EARLY[rule][letter]
    return "wait"


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
