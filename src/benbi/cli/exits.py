"""How the command ends: one exit code for each kind of ending, one line for each error.

=====  ==========================================================================
code   meaning
=====  ==========================================================================
0      done; for ``watch`` and ``enqueue --wait``: the job completed
1      refused, or the job failed; for ``db check``: something needs repair
2      wrong usage: an option, a setting, ``module:app``, a missing extra
3      the database can not be reached, read or written
4      the job watched was canceled or skipped
5      the time given by ``--timeout`` was over; the job goes on
70     a worker ended itself, because it could not be trusted any more; start it again
130    interrupted with Ctrl-C; 128 + the signal's number for other signals
=====  ==========================================================================
"""

from __future__ import annotations

import os
import sys
import traceback
import unicodedata
from contextlib import suppress
from typing import Final

from benbi.errors import BenbiError, ConfigurationError, StoreError, TaskDefinitionError
from benbi.job import State

DONE: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
DATABASE: Final = 3
WITHOUT_RESULT: Final = 4
TIME_IS_OVER: Final = 5
WORN: Final = 70
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

# New lines, tabs, and the joiners that some scripts and emoji are written with.
_LAYOUT: Final = "\n\t\u200c\u200d"

_OUTCOMES: Final[dict[str, int]] = {
    State.COMPLETED: DONE,
    State.FAILED: REFUSED,
    State.CANCELED: WITHOUT_RESULT,
    State.SKIPPED: WITHOUT_RESULT,
}


def code_for_state(state: State | str) -> int:
    """The exit code that tells how a job ended."""
    return _OUTCOMES.get(state, REFUSED)


def code_for_error(error: BenbiError) -> int:
    """The exit code for an error that reached the command line."""
    if isinstance(error, ConfigurationError | TaskDefinitionError):
        return USAGE
    return DATABASE if isinstance(error, StoreError) else REFUSED


def visible(text: str) -> str:
    """``text`` with control characters spelled out; new lines and tabs stay.

    Task names, messages and results come from elsewhere and must not steer the terminal.
    """
    return "".join(character if _harmless(character) else _spelled(character) for character in text)


def _harmless(character: str) -> bool:
    if character.isprintable() or character in _LAYOUT:
        return True
    return unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """``text`` on a single line."""
    return " ".join(visible(text).split())


def tell(text: str) -> None:
    """One line on stderr, for a person."""
    with suppress(OSError):
        print(f"benbi: {one_line(text)}", file=sys.stderr, flush=True)


def tell_error(error: BenbiError, *, debug: bool) -> int:
    """Prints ``error`` (its notes first) on stderr and returns its exit code."""
    if debug:
        traceback.print_exception(error)
    else:
        for note in getattr(error, "__notes__", ()):
            print(visible(str(note)).rstrip(), file=sys.stderr)
    tell(str(error) or type(error).__name__)
    return code_for_error(error)


def open_streams() -> None:
    """Gives a process that was started without stdout or stderr some that take everything: the
    next file that it opens would have their numbers."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def flush_stderr() -> None:
    """What stderr does not take is dropped, or the interpreter would end with 120 for it."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def close_stdout() -> None:
    """Keeps the interpreter from complaining, at exit, about a reader that went away."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
