"""The terminal: width, colours by state, and text that can not steer it."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.text import Text

from benbi.cli import words
from benbi.cli.exits import visible
from benbi.job import State

if TYPE_CHECKING:
    from rich.console import RenderableType

    from benbi.job import Event

# A pipe has no width: lines stay whole for grep and awk.
_PIPE_WIDTH: Final = 500

_STYLES: Final[dict[str, str]] = {
    State.WAITING: "blue",
    State.SCHEDULED: "blue",
    State.PENDING: "cyan",
    State.RUNNING: "bold cyan",
    State.RETRYING: "yellow",
    State.INPUT_REQUIRED: "bold magenta",
    State.COMPLETED: "green",
    State.FAILED: "bold red",
    State.CANCELED: "yellow",
    State.SKIPPED: "dim",
    "started": "bold cyan",
    "step_completed": "green",
    "step_failed": "red",
    "cancel_requested": "yellow",
    "progress": "dim",
}


@cache
def console() -> Console:
    """The console on stdout. NO_COLOR, FORCE_COLOR, TERM and COLUMNS are respected."""
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_PIPE_WIDTH if piped else None, highlight=False, markup=False, emoji=False)


def show(*views: RenderableType) -> None:
    """Prints on stdout; only what ``command`` made may be longer than a line."""
    # In a group each keeps its own rules of wrapping; side by side they would lose them.
    console().print(Group(*views), crop=False)


def styled(text: str, style: str = "") -> Text:
    """Text as it is: no markup, control characters spelled out."""
    # A span, not the style of the whole: what is appended later has its own.
    return Text().append(visible(text), style or None)


def command(text: str) -> Text:
    """What somebody will copy: never broken over lines, the terminal folds it."""
    return Text(visible(text), no_wrap=True, overflow="ignore")


def event_line(stamp: str, entry: Event) -> Text:
    """One event on one line, cut where the screen ends."""
    line = Text(no_wrap=True, overflow="ellipsis").append(f"{stamp}  ", "dim")
    line.append_text(styled(f"{entry.type:<14}", style_of(entry.type)))
    line.append_text(styled(f"  {words.event(entry)}"))
    line.rstrip()
    return line


def style_of(word: str) -> str:
    """The colour of a state or of an event's type."""
    return _STYLES.get(word, "")
