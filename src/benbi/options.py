"""What may be said of a call and of a tool, checked where it is said."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypedDict, cast

from benbi.errors import Refused, TaskDefinitionError
from benbi.triggers import DEFAULT_RULE, RULES

if TYPE_CHECKING:
    from benbi.handle import JobHandle
    from benbi.task import Call

# Seconds, a timedelta, or a text such as "30s", "10m", "1h30m", "7d".
Duration = float | str | timedelta

LONGEST_KEY: Final = 200  # bytes
LONGEST_NAME: Final = 200  # characters, of queues and runs
MOST_UPSTREAM: Final = 10_000
LOWEST_PRIORITY: Final = -32_767
HIGHEST_PRIORITY: Final = 32_767
# Beyond ten years a time is a mistake in units.
LONGEST_DURATION: Final = 10 * 366 * 86_400.0

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")

Refuse = Callable[[str], NoReturn]


def seconds_of(value: Duration, what: str, refuse: Refuse, *, zero: bool = True) -> float:
    """A duration in seconds; ``refuse`` is called with a message for what is none."""
    seconds = _as_seconds(value)
    if seconds is None or not math.isfinite(seconds):
        refuse(f'{what}={value!r}: seconds, a timedelta, or a text such as "30s", "10m", "1h"')
    if seconds < 0 or (seconds == 0 and not zero):
        refuse(f"{what}={value!r}: {'0 or more' if zero else 'more than 0'} seconds")
    if seconds > LONGEST_DURATION:
        refuse(f"{what}={value!r} is over ten years; the unit is seconds")
    return seconds


def checked_queue(queue: object, refuse: Refuse) -> str:
    """The name of a queue."""
    if not isinstance(queue, str) or not queue.strip() or len(queue) > LONGEST_NAME:
        refuse(f"queue={queue!r}: a text of 1 to {LONGEST_NAME} characters")
    return checked_text(queue, "queue", refuse)


def checked_text(text: object, what: str, refuse: Refuse) -> str:
    """A text that every database can store."""
    if not isinstance(text, str):
        refuse(f"{what}={text!r}: a text")
    if "\x00" in text or not _is_unicode(text):
        refuse(f"{what}={text!r}: without NUL characters and lone surrogates")
    return text


def _as_seconds(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if isinstance(value, str) and value.strip():
        text = value.strip().lower()
        parts = _PART.findall(text)
        if not _PART.sub("", text):
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return None


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _refuse_call(message: str) -> NoReturn:
    raise Refused(message)


def _refuse_tool(message: str) -> NoReturn:
    raise TaskDefinitionError(f"Tool({message})")


def micros_of(seconds: float | None) -> int | None:
    """Microseconds, as they are stored."""
    return None if seconds is None else round(seconds * 1_000_000)


class Defaults(NamedTuple):
    """What a task says of its jobs: resolved once, stored with each of them. Microseconds."""

    queue: str
    max_attempts: int
    max_losses: int
    timeout: int | None
    grace: int
    keep: int | None


class CallOptions(TypedDict, total=False):
    """The keywords of ``task.options``, as a caller may say them; ``Options`` explains each."""

    key: str | None
    owner: str
    priority: int
    delay: Duration | None
    run_at: datetime | None
    queue: str | None
    connection: Any
    expires_in: Duration | None
    same_call_within: Duration | None
    after: Sequence[JobHandle[Any] | Call | str]
    when: str


@dataclass(frozen=True, slots=True)
class Options:
    """What is said of one call beside its arguments.

    ``key``: unique per owner and task while the job's row lives; the same key with equal
    arguments gives the existing job. ``priority``: higher runs first. ``delay``: before the job
    may run; ``run_at``: an aware datetime instead. ``expires_in``: a job that by then is
    neither running nor done fails. ``same_call_within``: an equal live call of the same owner
    that is not older is returned instead of a new job. ``connection``: the caller's own
    transaction. ``after``: jobs of the same owner that come first, as handles, ids, or calls
    that stand before this one in one ``app.run``; ``when``: the trigger rule by which their ends
    let this one run ("all_success"; the names are Airflow's).

    Durations may be given as timedeltas or texts such as "10m" too; they are kept as seconds.
    Raises Refused.
    """

    key: str | None = None
    owner: str = ""
    priority: int = 0
    delay: float | None = None
    run_at: datetime | None = None
    queue: str | None = None
    connection: Any = None
    expires_in: float | None = None
    same_call_within: float | None = None
    after: Sequence[Any] = ()
    when: str = DEFAULT_RULE

    def __post_init__(self) -> None:
        if self.key is not None:
            _check_key(self.key)
        checked_text(self.owner, "owner", _refuse_call)
        _check_priority(self.priority)
        if self.queue is not None:
            checked_queue(self.queue, _refuse_call)
        if self.run_at is not None:
            _check_run_at(self.run_at, self.delay)
        if self.after or self.when != DEFAULT_RULE:
            object.__setattr__(self, "after", _checked_after(self.after, self.when))
        for name, zero in (("delay", True), ("expires_in", False), ("same_call_within", False)):
            duration = getattr(self, name)
            if duration is not None:
                seconds = seconds_of(duration, name, _refuse_call, zero=zero)
                object.__setattr__(self, name, seconds)


@dataclass(frozen=True, slots=True)
class Tool:
    """How a task is offered as an MCP tool.

    ``same_call_within``: the same call by the same owner while an earlier one is live and not
    older than this is the same job; None: each call is a job of its own.
    ``wait``: seconds that a client without the Tasks extension waits for the result before it
    is told to ask again. ``required``: refuse clients without that extension.
    ``description`` and ``title`` replace what the function's docstring and name say.
    """

    same_call_within: Duration | None = "10m"
    wait: float = 20.0
    required: bool = False
    description: str | None = None
    title: str | None = None

    def __post_init__(self) -> None:
        if self.same_call_within is not None:
            within = seconds_of(self.same_call_within, "same_call_within", _refuse_tool, zero=False)
            object.__setattr__(self, "same_call_within", within)
        object.__setattr__(self, "wait", seconds_of(self.wait, "wait", _refuse_tool))
        if not isinstance(cast("object", self.required), bool):
            _refuse_tool(f"required={self.required!r}: True or False")
        for name in ("description", "title"):
            if getattr(self, name) is not None:
                checked_text(getattr(self, name), name, _refuse_tool)


def _checked_after(after: object, when: object) -> tuple[Any, ...]:
    """Ids as texts; calls as they are."""
    if isinstance(after, str) or not isinstance(after, Sequence):
        _refuse_call(f"after={after!r}: a list of jobs: handles, ids, or calls of the same run")
    if when not in RULES:
        _refuse_call(f"when={when!r}: one of {', '.join(RULES)}")
    jobs = cast("Sequence[Any]", after)
    if not jobs:
        _refuse_call(f"when={when!r} says how the jobs in after= must end, and there are none")
    if len(jobs) > MOST_UPSTREAM:
        _refuse_call(f"after= names {len(jobs):,} jobs; at most {MOST_UPSTREAM:,}")
    return tuple(_id_or_call(job) for job in jobs)


def _id_or_call(job: Any) -> Any:
    if isinstance(job, str) or hasattr(job, "arguments"):
        return job
    if not isinstance(getattr(job, "id", None), str):
        _refuse_call(f"after= names {job!r}: a job's handle or id, or a call of the same run")
    return job.id


def checked_run_name(name: object) -> str:
    """What a run is called."""
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        _refuse_call(f"name={name!r}: a text of at most {LONGEST_NAME} characters")
    return checked_text(name, "name", _refuse_call)


def _check_key(key: object) -> None:
    checked = checked_text(key, "key", _refuse_call)
    size = len(checked.encode())
    if not 0 < size <= LONGEST_KEY:
        _refuse_call(f"key is {size} bytes; 1 to {LONGEST_KEY}, or None for no key")


def _check_priority(priority: object) -> None:
    if not isinstance(priority, int) or isinstance(priority, bool):
        _refuse_call(f"priority={priority!r}: a whole number, higher runs first")
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        _refuse_call(f"priority={priority}: from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}")


def _check_run_at(run_at: object, delay: object) -> None:
    if delay is not None:
        _refuse_call("delay and run_at: say one of them")
    if not isinstance(run_at, datetime):
        _refuse_call(f"run_at={run_at!r}: a datetime with a time zone")
    if run_at.utcoffset() is None:
        _refuse_call(
            f"run_at={run_at.isoformat()} has no time zone; "
            "use datetime.now(UTC) + …, or add tzinfo="
        )
