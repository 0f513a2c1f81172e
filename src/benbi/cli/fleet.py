"""Queues, workers, statistics and settings: a table where it fits, else a few lines for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from benbi.cli import words
from benbi.cli.exits import one_line
from benbi.cli.screen import styled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

    from benbi.fleet import Queue, Stats, TaskStats, Timings, WorkerRecord

_GAP: Final = 2
_NONE: Final = "-"
_NO_TIMINGS: Final = "- / - / -"
# What a narrow screen leaves out.
_NOTHING: Final = ("", "0", _NONE, _NO_TIMINGS)


def queues_view(queues: Sequence[Queue], width: int) -> RenderableType:
    """The queues by name."""
    headers = ("QUEUE", "STATE", "PENDING", "OLDEST", "RUNNING", "SCHEDULED", "RETRYING", "WORKERS")
    rows = [
        (
            styled(one_line(queue.name), "bold"),
            styled(standing(queue), "yellow" if queue.paused_at else ""),
            styled(words.number(queue.pending)),
            styled(words.age(queue.oldest_pending) if queue.oldest_pending else _NONE),
            styled(words.number(queue.running)),
            styled(words.number(queue.scheduled)),
            styled(words.number(queue.retrying)),
            styled(words.number(queue.workers), "red" if _unserved(queue) else ""),
        )
        for queue in queues
    ]
    return _fitting(headers, rows, width)


def _unserved(queue: Queue) -> bool:
    return bool(queue.pending) and not queue.workers


def standing(queue: Queue) -> str:
    """``open``, or ``paused by ann 3m ago``."""
    if queue.paused_at is None:
        return "open"
    return one_line(f"paused by {queue.paused_by} {words.age(queue.paused_at)} ago")


def load(queue: Queue) -> str:
    """``3 pending, 1 running, 0 workers``."""
    workers = f"{words.number(queue.workers)} worker{'' if queue.workers == 1 else 's'}"
    return (
        f"{words.number(queue.pending)} pending, {words.number(queue.running)} running, {workers}"
    )


def workers_view(workers: Sequence[WorkerRecord], width: int) -> RenderableType:
    """The workers, the oldest first."""
    headers = ("WORKER", "STATE", "RUNNING", "QUEUES", "TASKS", "BEAT", "UP", "VERSION")
    rows = [
        (
            styled(one_line(worker.id), "bold"),
            styled("silent", "bold red") if worker.silent else styled("live", "green"),
            styled(f"{worker.running} of {worker.slots}"),
            styled(one_line(", ".join(worker.queues))),
            styled(str(len(worker.tasks))),
            styled(f"{words.age(worker.beat_at)} ago"),
            styled(words.age(worker.started_at)),
            styled(one_line(worker.version)),
        )
        for worker in workers
    ]
    return _fitting(headers, rows, width)


def stats_view(stats: Stats, width: int) -> RenderableType:
    """The tasks by name, each queue for itself."""
    headers = (
        *("TASK", "QUEUE", "DONE", "FAILED", "CANCELED", "SKIPPED", "SUCCESS", "RETRIES"),
        *("WAITED", "RAN", "PENDING", "OLDEST"),
    )
    days = f"from {words.moment(stats.since)} to {words.moment(stats.until)}"
    head = [styled(days, "dim"), styled("waited, ran: p50 / p95 / p99 of the attempts", "dim")]
    rows = [_stats_cells(task) for task in stats.tasks]
    return Group(*head, _fitting(headers, rows, width))


def _stats_cells(task: TaskStats) -> tuple[Text, ...]:
    rate = _NONE if task.success_rate is None else f"{int(task.success_rate * 1000) / 10:g}%"
    return (
        styled(one_line(task.task), "bold"),
        styled(one_line(task.queue)),
        styled(words.number(task.completed)),
        styled(words.number(task.failed), "bold red" if task.failed else ""),
        styled(words.number(task.canceled)),
        styled(words.number(task.skipped)),
        styled(rate),
        styled(words.number(task.retries), "yellow" if task.retries else ""),
        styled(_timings(task.waited)),
        styled(_timings(task.ran)),
        styled(words.number(task.pending)),
        styled(words.age(task.oldest_pending) if task.oldest_pending else _NONE),
    )


def _timings(found: Timings) -> str:
    if found.p50 is None or found.p95 is None or found.p99 is None:
        return _NO_TIMINGS
    return " / ".join(map(words.span, (found.p50, found.p95, found.p99)))


def settings_view(rows: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """The settings in their order."""
    headers = ("SETTING", "VALUE", "FROM")
    cells = [
        (
            styled(row["name"], "bold"),
            styled(_NONE if row["value"] is None else one_line(str(row["value"]))),
            styled(row["source"], "dim" if row["source"] == "default" else ""),
        )
        for row in rows
    ]
    return _fitting(headers, cells, width)


def _fitting(headers: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> RenderableType:
    columns = zip(headers, *rows, strict=True)
    wanted = sum(max(cell_len(str(cell)) for cell in column) + _GAP for column in columns) - _GAP
    if wanted > width:
        return Group(*(line for row in rows for line in _lines(headers, row, width)))
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in headers:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _lines(headers: Sequence[str], row: Sequence[Text], width: int) -> list[Text]:
    """The name, then what there is to say of it, broken between one thing and the next."""
    lines = [Text(no_wrap=True, overflow="ellipsis").append_text(row[0])]
    for name, cell in zip(headers[1:], row[1:], strict=True):
        if cell.plain in _NOTHING:
            continue
        pair = Text(f"  {name.lower()} ", "dim").append_text(cell)
        if len(lines) == 1 or lines[-1].cell_len + pair.cell_len > width:
            lines.append(Text(no_wrap=True, overflow="ellipsis"))
        lines[-1].append_text(pair)
    return lines
