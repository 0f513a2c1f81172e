"""``manage.py benbi``: the command line of benbi, for the tasks and the database of the project."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from benbi.cli import exits
from benbi.cli.entry import run
from benbi.django import app
from benbi.settings import DEFAULT_SCHEMA

_TARGET = f"{app.first_import}:app"


class Command(BaseCommand):
    help = "Run jobs (manage.py benbi work), look at them (jobs list), and all that benbi does."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "tokens", nargs=argparse.REMAINDER, metavar="command", help="work, jobs list, …"
        )

    def handle(self, *args: Any, tokens: list[str], **options: Any) -> None:
        _tell_children()
        exits.open_streams()
        code = run(_with_target(tokens))
        exits.flush_stderr()
        if code:
            sys.exit(code)


def _with_target(tokens: list[str]) -> list[str]:
    match tokens:
        case ["work" | "serve" | "mcp" | "config" as command, *rest]:
            return [command, _TARGET, *rest]
        case ["enqueue", *rest]:
            return ["enqueue", "--app", _TARGET, *rest]
        case _:
            return tokens


def _tell_children() -> None:
    """Where the database is, for commands without a target; where the project is, for processes
    that they start. Not on the command line, which everybody on the machine can read."""
    address = app.database.address
    if app.schema != DEFAULT_SCHEMA:
        address += f"{'&' if '?' in address else '?'}schema={app.schema}"
    os.environ["BENBI_URL"] = address
    paths = [sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(paths)))
