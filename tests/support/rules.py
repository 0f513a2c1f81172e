"""The trigger rules read a second time, from what each says in words: to compare with."""

from __future__ import annotations

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
