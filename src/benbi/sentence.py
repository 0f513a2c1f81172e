"""Times, durations and counts as people read them, for every place that speaks to one."""

from __future__ import annotations

from datetime import UTC, datetime

LONGEST_QUOTE = 200  # characters of somebody else's text within a sentence


def span(seconds: float) -> str:
    """A duration: ``310 ms``, ``12.4 s``, ``3 m 20 s``, ``2 h 5 m``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def instant(at: datetime) -> str:
    """A point in time, the same for every reader: ``2026-11-30 12:00:00 UTC``."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def counted(number: int, noun: str) -> str:
    """``1 job``, ``3 jobs``, ``1,200 jobs``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quoted(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_QUOTE else f"{line[: LONGEST_QUOTE - 1]}…"
