"""What is logged inside a job: labelled with job, task and attempt, and its end is kept.

A record factory, not a handler: a handler of ours on the root logger would make the user's
``basicConfig`` do nothing, and take warnings from stderr where nothing is configured. What a
logger's level lets through is seen here, whichever handlers and filters it meets later.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from benbi.secret import hide

if TYPE_CHECKING:
    from benbi.engine.attempt import Attempt

# The last so many bytes of an attempt are kept, in pieces; and of so many attempts of a job.
KEPT_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 8 * 1024
KEPT_ATTEMPTS: Final = 20
LONGEST_MESSAGE: Final = 16 * 1024  # characters
FLUSH_SECONDS: Final = 1.0

_formatter: Final = logging.Formatter()


class Lines:
    """The newest lines of one attempt that are not written yet. Safe in threads."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may log as well.
        self._lock = threading.RLock()
        self._number = 0
        self._waiting: deque[tuple[str, int]] = deque()
        self._bytes = 0
        # Pieces: the number and size of the last one, and the sizes of those before it.
        self._piece = 0
        self._fill = 0
        self._full: deque[int] = deque()

    def add(self, record: logging.LogRecord) -> None:
        """Takes a record; the oldest that waits goes where they get too many."""
        message = _message_of(record)
        with self._lock:
            self._number += 1
            line = [
                self._number,
                round(record.created * 1e6),
                record.levelname,
                record.name,
                message,
            ]
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"
            text = text.encode(errors="replace").decode()
            size = len(text.encode())
            self._waiting.append((text, size))
            self._bytes += size
            while self._bytes > KEPT_BYTES and len(self._waiting) > 1:
                self._bytes -= self._waiting.popleft()[1]

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def taken(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What waits, as statements and their values; it does not wait any more."""
        with self._lock:
            lines, self._waiting, self._bytes = self._waiting, deque(), 0
            if not lines:
                return []
            statements: list[tuple[str, Mapping[str, Any]]] = []
            if not self._piece:
                statements.append(("forget_logs", {"kept": KEPT_ATTEMPTS}))
            body = ""
            for text, size in lines:
                if not self._piece or self._fill >= PIECE_BYTES:
                    if body:
                        statements.append(("log", {"piece": self._piece, "body": body}))
                    body = ""
                    self._begin_piece()
                body += text
                self._fill += size
            statements.append(("log", {"piece": self._piece, "body": body}))
            # Whole pieces go, as long as what stays is at least what is kept.
            while self._full and sum(self._full) - self._full[0] + self._fill >= KEPT_BYTES:
                self._full.popleft()
            statements.append(("trim_log", {"piece": self._piece - len(self._full)}))
            return statements

    def _begin_piece(self) -> None:
        if self._piece:
            self._full.append(self._fill)
        self._piece += 1
        self._fill = 0


def _message_of(record: logging.LogRecord) -> str:
    """The message and the traceback; what can not be read must not fail the job."""
    try:
        message = _hide_in(record)
        if record.exc_text:
            message += "\n" + record.exc_text
        elif record.exc_info and record.exc_info[0] is not None:
            message += "\n" + _formatter.formatException(record.exc_info)
        if record.stack_info:
            message += "\n" + record.stack_info
    except Exception as error:
        message = hide(f"{record.msg!r}") + f" ({hide(type(error).__name__)} in its arguments)"
    if len(message) > LONGEST_MESSAGE:
        message = message[:LONGEST_MESSAGE] + " …"
    return message


def _hide_in(record: logging.LogRecord) -> str:
    """The message. A record that shows a secret of the job is changed for every handler."""
    if (name := hide(record.name)) != record.name:
        record.name = name
    message = record.getMessage()
    if (shown := hide(message)) != message:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[0] is not None:
        told = _formatter.formatException(record.exc_info)
        if (hidden := hide(told)) != told:
            record.exc_text = hidden
    return shown


class _InJob:
    """A record made inside a job. Its labels are filled in late: ``extra=`` of the user may use
    the same names, and goes first; at once, logging would refuse it with a KeyError."""

    def getMessage(self) -> str:
        self._label()
        return super().getMessage()  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        if name in ("job", "task", "attempt"):
            self._label()
            return self.__dict__[name]
        raise AttributeError(name)

    def __reduce__(self) -> Any:
        # Queues copy and pickle records: what comes out of them is a plain one.
        self._label()
        return logging.makeLogRecord, (dict(self.__dict__),)

    def _label(self) -> None:
        for name, value in self.__dict__.pop("_labels", {}).items():
            self.__dict__.setdefault(name, value)


@cache
def _labelled(kind: type[logging.LogRecord]) -> type[logging.LogRecord]:
    return type(f"{kind.__name__}InJob", (_InJob, kind), {})


def watch(current: ContextVar[Attempt | None]) -> None:
    """From now on records made inside a job are labelled and kept. May be called again."""
    before = logging.getLogRecordFactory()
    if getattr(before, "of_benbi", False):
        return

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        attempt = current.get()
        # Without a name where it is made of another one, which was seen already.
        if attempt is not None and record.name:
            _take(attempt, record)
        return record

    make.of_benbi = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(make)


def _take(attempt: Attempt, record: logging.LogRecord) -> None:
    kind = type(record)
    if issubclass(kind, _InJob):
        # Somebody wrapped our factory, and we were installed again around theirs.
        return
    attempt.logged(record)
    claim = attempt.claim
    labels = {"job": claim.job_id, "task": claim.task, "attempt": claim.attempt}
    record.__class__ = _labelled(kind)
    record.__dict__["_labels"] = labels
