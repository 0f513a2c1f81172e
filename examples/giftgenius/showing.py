"""One showing of the demo, from the first process to what one may type next."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from rich.text import Text

from examples.giftgenius.analysis import weeks
from examples.giftgenius.models import Report
from examples.giftgenius.screen import Board, Screen, ideas_lines, ideas_table
from examples.giftgenius.story import HEARTBEAT_SECONDS, ROOT, TARGET, Story


def show(household: int, budget: float, *, plain: bool) -> int:
    """Tells the story and sums it up; 0 where every claim held, 130 where it was stopped."""
    folder = Path(tempfile.mkdtemp(prefix="giftgenius-"))
    screen = Screen(Board(weeks=len(weeks())), plain=plain or not sys.stdout.isatty())
    story = Story(screen, folder, household, budget)
    report, trouble, stopped = None, "", False
    try:
        with screen:
            report = asyncio.run(_until_stopped(story))
    except (KeyboardInterrupt, asyncio.CancelledError):
        trouble, stopped = "stopped before its end", True
    except Exception as error:
        trouble = _first(error)
    if report is not None:
        _answer(screen, report)
    held = report is not None and not trouble and all(held for _, held in story.claims)
    _sum_up(story, held, trouble)
    return 130 if stopped else 0 if held else 1


async def _until_stopped(story: Story) -> Report:
    telling = asyncio.current_task()
    assert telling is not None
    # Ctrl-C comes as a cancellation anyway; a terminal that closes or a CI that gives up should.
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, telling.cancel)
    return await story.tell()


def _first(error: BaseException) -> str:
    """The error inside the groups that wrap it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _answer(screen: Screen, report: Report) -> None:
    if screen.plain:
        for line in ideas_lines(report):
            screen.tell("idea", line)
    else:
        screen.show("", ideas_table(report))


def _sum_up(story: Story, held: bool, trouble: str) -> None:
    screen = story.screen
    screen.show("")
    for text, true in story.claims:
        screen.show(Text(f" {'✔' if true else '✘'} {text}", style="green" if true else "bold red"))
    if trouble:
        screen.show(Text(f" ✘ {trouble}", style="bold red"))
        screen.show(f"   what the processes said: {story.folder}")
    seconds = screen.board.seconds
    verdict = "every claim held" if held else "NOT every claim held"
    screen.show(
        "",
        Text(f" {verdict}: {len(story.claims)} checks, {seconds:.1f} s in all", style="bold"),
        Text(
            f" The heartbeat time-out was {HEARTBEAT_SECONDS} s instead of 10 s, "
            "to keep the wait short.",
            style="dim",
        ),
    )
    if story.board.job_id:
        screen.show("", " Its database is still there. Type:", *_next(story))


def _next(story: Story) -> list[Text]:
    command, job = _command(), story.board.job_id
    lines = [
        (f"cd {ROOT}", "") if Path.cwd() != ROOT else ("", ""),
        (f"export BENBI_URL={story.place.shown}", ""),
        (f"{command} jobs list", "all jobs"),
        (f"{command} jobs show {job}", "its record, events and result"),
        (f"{command} serve {TARGET}", "serves it; meanwhile open"),
        (f"http://127.0.0.1:8000/api/jobs/{job}", ""),
        (story.place.remove, "when you have seen enough"),
    ]
    return [
        Text.assemble(f"   {what}", (f"   # {why}" if why else "", "dim"))
        for what, why in lines
        if what
    ]


def _command() -> str:
    """How to call this Python's ``benbi`` from here."""
    script = Path(sys.executable).with_name("benbi")
    if shutil.which("benbi") == str(script):
        return "benbi"
    here = Path.cwd()
    return str(script.relative_to(here)) if script.is_relative_to(here) else str(script)
