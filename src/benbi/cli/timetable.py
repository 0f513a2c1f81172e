"""Schedules on a screen: what each makes, how it stands, and its next times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from rich.console import Group
from rich.table import Table
from rich.text import Text

from benbi.cli import words
from benbi.cli.exits import one_line
from benbi.cli.screen import command, styled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from benbi.job import Schedule

_STYLES: Final = {"active": "green", "paused": "yellow", "retired": "dim"}


def schedules_view(schedules: Sequence[Schedule]) -> RenderableType:
    """The schedules by name, a blank line between two."""
    parts: list[RenderableType] = []
    for schedule in schedules:
        parts += [Text(), *_parts(schedule)]
    return Group(*parts[1:])


def moment(at: datetime, timezone: str) -> str:
    """A time as clocks show it in a schedule's zone, with its distance from UTC."""
    try:
        local = at.astimezone(ZoneInfo(timezone) if timezone not in ("", "UTC") else UTC)
    except (OSError, ValueError, KeyError):
        # A zone that this machine does not know.
        local = at.astimezone(UTC)
    offset = f"{local:%z}"
    return f"{local:%a %Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:5]}"


def _parts(schedule: Schedule) -> Iterable[RenderableType]:
    head = styled(one_line(schedule.name), "bold")
    yield head.append_text(styled(f"  {_state(schedule)}", _STYLES.get(schedule.state, "")))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("  when", styled(one_line(f"{schedule.spec}  {schedule.timezone}".rstrip())))
    grid.add_row("  task", styled(one_line(schedule.task)))
    grid.add_row("  catchup", styled(one_line(schedule.catchup)))
    if schedule.last is not None:
        grid.add_row("  last", styled(moment(schedule.last, schedule.timezone)))
        grid.add_row("", command(schedule.last_job or ""))
    for place, tick in enumerate(schedule.upcoming):
        style = "" if schedule.state == "active" else "dim"
        grid.add_row("" if place else "  next", styled(moment(tick, schedule.timezone), style))
    yield grid


def _state(schedule: Schedule) -> str:
    if schedule.paused_at is not None:
        return f"{schedule.state} for {words.age(schedule.paused_at)}"
    if schedule.state == "retired":
        return f"retired: in no live process for {words.age(schedule.seen_at)}"
    return schedule.state
