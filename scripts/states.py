"""Draws the moves of a job in docs/states.md, from the one table that the code goes by.

    python -m scripts.states            writes docs/states.md anew
    python -m scripts.states --check    fails where the page is not up to date

Only what stands between two comments of the page is written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benbi.job import FINAL, MOVES, Move, State

PAGE: Final = Path(__file__).parents[1] / "docs" / "states.md"
BEGIN: Final = "<!-- written by scripts/states.py: begin -->"
END: Final = "<!-- written by scripts/states.py: end -->"

# Left out of the drawing, which they would make unreadable; the table has them.
BESIDE: Final = ("cancel", "expire", "again", "mark")

# Why each move is made. The states stand in the table; this is what a table can not say.
WHEN: Final = {
    "enqueue": "a call is accepted: now, or with `delay=` or `run_at=` later",
    "settle": "what it waited for has ended, or enough of it: by its trigger rule it runs or ends",
    "admit": "a slot of a limit is free (limits, to come)",
    "due": "its time has come",
    "claim": "a worker takes it",
    "complete": "the function returned",
    "skip": "the function raised `Skip`",
    "fail": "another attempt can not help, or none is left",
    "retry": "another attempt may help",
    "snooze": "the function raised `Snooze`, or a step backs off for long",
    "sleep": "`ctx.sleep`",
    "ask": "`ctx.ask`",
    "wait": "`ctx.wait`",
    "release": "its worker drains, or gives back what it can not run",
    "lose": "its worker died: at once, later, or never again after `max_losses`",
    "stop": "it was canceled while it ran",
    "cancel": "it was canceled while it did not run",
    "answer": "its last open question was answered",
    "expire": "`expires_in=` was over before it started, or nobody answered in time",
    "again": "somebody retries it by hand",
    "mark": "an operator says how it ended (DAGs, to come)",
}


def page(text: str) -> str:
    """The page with its generated part drawn anew. SystemExit where it has no such part."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{diagram()}\n\n{table()}\n\n{end}{after}"


def diagram() -> str:
    """The way of a job that nobody stops, as a Mermaid state diagram: without ``waiting``."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in MOVES.values():
        for arrow in _arrows_of(move):
            if move.name not in BESIDE and State.WAITING not in arrow:
                arrows.setdefault(arrow, []).append(move.name)
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    lines += [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in arrows.items()]
    lines += [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join([*lines, "```"])


def table() -> str:
    """The moves as a Markdown table, in the order in which a job meets them."""
    lines = ["| move | from | to | event | counts | when |", "|---|---|---|---|---|---|"]
    lines += [
        f"| `{move.name}` | {_listed(move.sources)} | {_listed(move.targets)} "
        f"| {f'`{move.event}`' if move.event else 'as its new state'} "
        f"| {f'`{move.charge}`' if move.charge else ''} | {WHEN[move.name]} |"
        for move in MOVES.values()
    ]
    return "\n".join(lines)


def _arrows_of(move: Move) -> list[tuple[str, str]]:
    order = [None, *State]
    return [
        (str(source or "[*]"), str(target))
        for source in sorted(move.sources, key=order.index)
        for target in sorted(move.targets, key=order.index)
    ]


def _listed(states: frozenset[State | None] | frozenset[State]) -> str:
    ordered = [state for state in State if state in states]
    return ", ".join(map(str, ordered)) if ordered else "–"


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = PAGE.read_text("utf-8")
    drawn = page(text)
    if not arguments:
        PAGE.write_text(drawn, "utf-8")
    elif drawn != text:
        print(f"{PAGE.name} is not up to date: run python -m scripts.states", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
