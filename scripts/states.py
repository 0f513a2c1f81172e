"""Draws the moves of a job for docs/states.md, from the one table that the code goes by.

    python -m scripts.states            writes docs/states.svg and the table of docs/states.md
    python -m scripts.states --check    fails where one of them is not up to date

Of the page only what stands between two comments is written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from benbi.job import FINAL, MOVES, Move, State
from scripts.drawing import Box, drawing

PAGE: Final = Path(__file__).parents[1] / "docs" / "states.md"
PICTURE: Final = PAGE.with_suffix(".svg")
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


# Where each state stands; the empty name is where jobs come from.
PLACES: Final = {
    "": (20, 170),
    "scheduled": (370, 40),
    "pending": (200, 170),
    "running": (560, 170),
    "retrying": (370, 250),
    "input_required": (370, 380),
    "completed": (880, 40),
    "skipped": (880, 127),
    "failed": (880, 213),
    "canceled": (880, 300),
}
SIZE: Final = (960, 410)


def page(text: str) -> str:
    """The page with its table written anew. SystemExit where it has no place for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE.name} lacks the lines {BEGIN} and {END}")
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


def arrows() -> dict[tuple[str, str], str]:
    """The way of a job that nobody stops: which moves lead from one state to another."""
    found: dict[tuple[str, str], list[str]] = {}
    for move in MOVES.values():
        for arrow in _arrows_of(move):
            if move.name not in BESIDE and State.WAITING not in arrow:
                found.setdefault(arrow, []).append(move.name)
    return {arrow: ", ".join(names) for arrow, names in found.items()}


def picture() -> str:
    """These arrows as an SVG."""
    finals = {str(state) for state in FINAL}
    boxes = {name: Box(x, y, name, name in finals) for name, (x, y) in PLACES.items()}
    return drawing(boxes, arrows(), SIZE)


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
        (str(source or ""), str(target))
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
    for path, old, new in drawn():
        if not arguments:
            path.write_text(new, "utf-8")
        elif old != new:
            print(f"{path.name} is not up to date: run python -m scripts.states", file=sys.stderr)
            return 1
    return 0


def drawn() -> list[tuple[Path, str, str]]:
    """What this program writes: each file, what it holds, and what it should hold."""
    text = PAGE.read_text("utf-8")
    svg = PICTURE.read_text("utf-8") if PICTURE.exists() else ""
    return [(PAGE, text, page(text)), (PICTURE, svg, picture())]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
