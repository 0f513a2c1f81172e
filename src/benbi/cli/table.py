"""Many jobs: a table where there is room for one, two lines a job where there is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from benbi.cli import words
from benbi.cli.exits import one_line
from benbi.cli.screen import style_of, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from benbi.job import Job

# Narrower than this, the id alone would leave no room for what the job does.
_TABLE_WIDTH: Final = 120
_ID_WIDTH: Final = 36
_GAP: Final = 2
_HEADERS: Final = ("TASK", "STATE", "ATTEMPT", "PROGRESS", "AGE", "OWNER")


def jobs_view(jobs: Sequence[Job], width: int) -> RenderableType:
    """The jobs, newest first, to fit ``width`` columns."""
    if width < _TABLE_WIDTH:
        return Group(*(line for job in jobs for line in _two_lines(job)))
    rows = [_cells(job) for job in jobs]
    columns = list(zip(_HEADERS, *rows, strict=True))
    wanted = [max(map(cell_len, map(str, column))) for column in columns]
    widths = _shared(wanted, width - _ID_WIDTH - _GAP * len(columns))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    table.add_column("ID", width=_ID_WIDTH)
    for name, room in zip(_HEADERS, widths, strict=True):
        table.add_column(name, width=room, no_wrap=True, overflow="ellipsis")
    for job, cells in zip(jobs, rows, strict=True):
        table.add_row(job.id, *cells)
    return table


def _cells(job: Job) -> tuple[Text, ...]:
    return (
        styled(one_line(job.task)),
        styled(words.state(job), style_of(job.state)),
        styled(words.attempt(job)),
        styled(words.progress(job.progress)),
        styled(words.age(job.created_at)),
        styled(one_line(job.owner)),
    )


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """What each column gets: small ones what they want, large ones even parts of the rest."""
    widths = list(wanted)
    by_size = sorted(range(len(wanted)), key=wanted.__getitem__)
    for place, column in enumerate(by_size):
        widths[column] = min(wanted[column], room // (len(wanted) - place))
        room -= widths[column]
    return widths


def _two_lines(job: Job) -> tuple[Text, Text]:
    first = styled(job.id, "dim" if job.final else "")
    second = Text("  ", no_wrap=True, overflow="ellipsis")
    second.append_text(styled(words.state(job), style_of(job.state)))
    second.append_text(styled(f"  {one_line(job.task)}  {words.age(job.created_at)}"))
    for part in (words.progress(job.progress), one_line(job.owner)):
        second.append_text(styled(f"  {part}" if part else "", "dim"))
    return first, second
