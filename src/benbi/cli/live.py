"""A watched job on a terminal: its events scroll by, below them one line that lives."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from benbi.cli import words
from benbi.cli.screen import command, console, event_line, show, style_of, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from benbi.job import Event, Job

_BAR_WIDTH: Final = 24
# Narrower than this, the bar gives way to the message.
_ROOM_FOR_BAR: Final = 60


class Live:
    """Shows one job; in a pipe only lines, no bar."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._asked: set[str] = set()
        self._stage = ""
        self._spinner = Spinner("dots")
        self._live: RichLive | None = None

    def start(self) -> None:
        """Shows the living line, on a terminal."""
        if console().is_terminal:
            self._live = RichLive(
                console=console(),
                get_renderable=self._status,
                refresh_per_second=8,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

    def stop(self) -> None:
        """Takes the living line away; may be called again."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def event(self, entry: Event) -> None:
        """Prints one event on a line of its own."""
        if self._live is not None and self._is_repeated(entry):
            return
        show(event_line(words.clock(entry.at), entry))

    def update(self, job: Job) -> None:
        """Takes the newest record for the living line, and prints a new question once."""
        self._job = job
        for question in job.questions:
            if question.answered or question.key in self._asked:
                continue
            self._asked.add(question.key)
            show(styled(question.prompt, "bold magenta"))
            show(styled("answer with:"), command(words.answer_command(job, question)))

    def end(self, job: Job, result: Any) -> None:
        """Prints how the job ended: its result, or its error and where to read more."""
        self.stop()
        state = styled(words.state(job), style_of(job.state))
        show(state.append(f" after {_running_time(job)}", "dim"))
        if job.state == "completed":
            show(styled(json.dumps(result, ensure_ascii=False, indent=2)))
        if job.error is not None and job.state == "failed":
            show(styled(f"{job.error.type}: {job.error.message}", "red"))
            show(styled(f"class {job.error.kind}: {job.error.rule}"))
            show(styled("more:"), command(f"benbi jobs show {job.id}"))

    def _is_repeated(self, entry: Event) -> bool:
        """A progress that differs from the one before in its numbers only: the bar tells it."""
        if entry.type != "progress":
            return False
        stage = re.sub(r"[\d.,/%]+", "", words.event(entry))
        stage, self._stage = self._stage, stage
        return stage == self._stage

    def _status(self) -> RenderableType:
        job = self._job
        if job is None:
            return Text("")
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=1)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        cells: list[RenderableType] = [self._spinner, self._message(job)]
        share = _share(job)
        if share is not None and console().width >= _ROOM_FOR_BAR:
            grid.add_column(width=_BAR_WIDTH)
            cells.append(ProgressBar(total=1.0, completed=share, width=_BAR_WIDTH))
        if share is not None:
            grid.add_column(justify="right", width=4)
            cells.append(Text(f"{share:.0%}"))
        grid.add_column(justify="right", no_wrap=True)
        cells.append(Text(words.age(job.created_at), "dim"))
        grid.add_row(*cells)
        return grid

    def _message(self, job: Job) -> Text:
        text = styled(words.state(job), style_of(job.state))
        message = job.progress.message if job.progress else ""
        return text.append_text(styled(f"  {words.one_line(message or job.task)}"))


def _share(job: Job) -> float | None:
    """How much is done, from 0 to 1; None where the total is unknown."""
    if job.progress is None or not job.progress.total:
        return None
    return min(1.0, max(0.0, job.progress.done / job.progress.total))


def _running_time(job: Job) -> str:
    end = job.finished_at or job.created_at
    return words.span((end - job.created_at).total_seconds())
