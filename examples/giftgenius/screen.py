"""What the demo shows: a live view in a terminal, plain lines with seconds anywhere else."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from examples.giftgenius.models import Report

# Which attempt recorded a week shows in its color.
_ATTEMPT_COLORS = ("grey37", "cyan", "green", "magenta", "yellow")
_FIXED_LINES = 15
_FEWEST_LINES = 4


class Line(NamedTuple):
    """One thing that happened."""

    seconds: float
    who: str
    text: str
    style: str


@dataclass
class Board:
    """Everything the view shows, as it is now."""

    weeks: int
    started: float = field(default_factory=time.monotonic)
    processes: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    job_id: str = ""
    state: str = ""
    attempt: int = 0
    recorded: dict[int, int] = field(default_factory=dict)
    lost_week: int = 0
    done: float = 0
    message: str = ""
    draft: str = ""
    log: deque[Line] = field(default_factory=lambda: deque(maxlen=200))

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self.started


class Screen:
    """Shows a board while it changes; in plain mode only ``tell`` and ``show`` print."""

    def __init__(self, board: Board, *, plain: bool) -> None:
        self.board = board
        self.plain = plain
        self.console = Console(highlight=False, soft_wrap=plain, no_color=plain or None)
        self._live = Live(get_renderable=self._view, console=self.console, refresh_per_second=10)

    def __enter__(self) -> Self:
        if not self.plain:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self.plain:
            self._live.stop()

    def tell(self, who: str, text: str, style: str = "", *, seconds: float | None = None) -> None:
        """One line of the story; ``seconds`` is when it happened, and now where none is given."""
        line = Line(self.board.seconds if seconds is None else seconds, who, text, style)
        self.board.log.append(line)
        if self.plain:
            print(f"{line.seconds:6.1f} s  {who:<9} {text}", flush=True)

    def show(self, *parts: RenderableType) -> None:
        """Prints something for good, below the view."""
        for part in parts:
            # Not wrapped: what one is told to type has to stay in one piece.
            self.console.print(part, soft_wrap=isinstance(part, str | Text))

    def _view(self) -> RenderableType:
        board = self.board
        title = Table.grid(expand=True)
        title.add_column()
        title.add_column(justify="right")
        title.add_row(
            Text(" A tool call that survives", style="bold"),
            Text(f"{board.seconds:.0f} s ", style="dim"),
        )
        room = max(_FEWEST_LINES, self.console.height - _FIXED_LINES - len(board.processes))
        log = Panel(
            _log(list(board.log)[-room:]), title="what happens", title_align="left", style="dim"
        )
        return Group(
            Rule(style="dim"), title, Padding(_processes(board), (1, 1)), *_job(board), log
        )


def _processes(board: Board) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, (pid, state, style) in board.processes.items():
        mark = "✖" if style == "red" else "●"
        table.add_row(
            Text(f"{mark} {name}", style=style),
            Text(f"pid {pid}", style="dim"),
            Text(state, style=style if style == "red" else ""),
        )
    return table


def _job(board: Board) -> list[RenderableType]:
    if not board.job_id:
        return []
    head = Text.assemble(
        " job ", (board.job_id, "bold"), f"  {board.state}", (f"  attempt {board.attempt}", "dim")
    )
    strip = Text(" ")
    for week in range(1, board.weeks + 1):
        attempt = board.recorded.get(week, 0)
        if not attempt and week == board.lost_week:
            strip.append("✖", style="bold red")
        else:
            color = _ATTEMPT_COLORS[min(attempt, len(_ATTEMPT_COLORS) - 1)]
            strip.append("█" if attempt else "░", style=color)
    strip.append(f"  {len(board.recorded)}/{board.weeks} weeks", style="bold")
    legend = Text(" recorded by attempt ", style="dim")
    for attempt in sorted({1, *board.recorded.values()}):
        legend.append(f"█ {attempt}  ", style=_ATTEMPT_COLORS[min(attempt, 4)])
    return [
        head,
        strip,
        legend,
        Text(f" {board.message}"),
        Text(f" draft  {board.draft}" if board.draft else "", style="yellow italic"),
    ]


def _log(lines: list[Line]) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for line in lines:
        table.add_row(
            Text(f"{line.seconds:.1f}", style="dim"),
            Text(line.who, style="not dim cyan"),
            Text(line.text, style=f"not dim {line.style}"),
        )
    return table


def ideas_table(report: Report) -> RenderableType:
    """The answer, as a person reads it."""
    about = report.household
    table = Table(
        title=f"Gift ideas for household {about.household_id}: "
        f"${report.total:.2f} of ${report.budget:.2f}",
        title_justify="left",
        title_style="bold",
        show_lines=True,
        expand=True,
    )
    table.add_column("gift", style="bold", ratio=3)
    table.add_column("price", justify="right", no_wrap=True)
    table.add_column("why", ratio=7)
    for idea in report.ideas:
        table.add_row(
            Text(idea.product), f"${idea.price:.2f}", Text(f"{idea.category}. {idea.reason}")
        )
    left_out = ", ".join(f"{group} {count}" for group, count in report.excluded.items())
    notes = Text.assemble(
        ("Read     ", "dim"),
        f"{report.lines_read:,} receipt lines, {report.baskets_read:,} baskets\n",
        ("Likes    ", "dim"),
        ", ".join(about.favorites[:8]) + "\n",
        ("Left out ", "dim"),
        f"{left_out or 'nothing'} (receipt lines, lists/exclusions.toml)",
    )
    return Group(table, notes)


def ideas_lines(report: Report) -> list[str]:
    """The answer in plain lines."""
    return [
        f"{idea.product}, ${idea.price:.2f} ({idea.category}): {idea.reason}"
        for idea in report.ideas
    ]
