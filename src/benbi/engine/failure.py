"""An exception as it is recorded: its class by the retry rules, its message, its traceback."""

from __future__ import annotations

import traceback

from benbi.job import ErrorRecord
from benbi.outcome import Failed
from benbi.retry import classify
from benbi.secret import hide

TRACEBACK_CHARACTERS = 16_000
MESSAGE_CHARACTERS = 4_000


def failure_of(error: BaseException) -> Failed:
    """The outcome of an attempt that ended with this exception."""
    verdict = classify(error)
    # Secrets first: what is cut in the middle would not be recognised.
    told = hide("".join(traceback.format_exception(error)))[-TRACEBACK_CHARACTERS:]
    record = ErrorRecord(class_of(error), message_of(error), verdict.kind, hide(verdict.rule), told)
    return Failed(record, verdict.retry_after)


def class_of(error: BaseException) -> str:
    """The name of the exception's class, which may be made of what the job was given."""
    return hide(type(error).__qualname__)


def message_of(error: BaseException) -> str:
    """The exception's message; a ``__str__`` that raises does not hide the failure."""
    try:
        return hide(str(error))[:MESSAGE_CHARACTERS]
    except Exception:
        return f"<{class_of(error)} whose message could not be read>"
