"""All commands in one tree, and how whatever they raise ends the process."""

from __future__ import annotations

import sys
from typing import Final

from cyclopts import App, CycloptsError

from benbi.cli import exits
from benbi.errors import BenbiError
from benbi.version import __version__

_HELP: Final = """
Durable jobs: tool calls and background work that survive crashes, restarts and deploys.
"""

_EPILOGUE: Final = """
Exit codes: 0 done · 1 refused or failed · 2 wrong usage · 3 database not usable ·
4 the job watched was canceled or skipped · 5 time is over · 130 interrupted.
"""

app = App(
    name="benbi",
    help=_HELP,
    help_epilogue=_EPILOGUE,
    version=__version__,
    version_flags=["--version"],
    result_action="return_value",
)
# Named by import path: only the command that runs is imported.
app.command("benbi.cli.doors:serve", name="serve", help="Serve MCP and HTTP, with a worker.")
app.command("benbi.cli.work:work", name="work", help="Run jobs until told to stop.")
app.command("benbi.cli.doors:mcp", name="mcp", help="Serve MCP on stdin and stdout.")
app.command("benbi.cli.enqueue:enqueue", name="enqueue", help="Create a job.")
app.command("benbi.cli.jobs:app", name="jobs", help="Look at jobs and change their course.")
app.command("benbi.cli.queues:app", name="queues", help="Look at queues, pause and resume them.")
app.command("benbi.cli.workers:app", name="workers", help="Look at workers.")
app.command("benbi.cli.stats:stats", name="stats", help="Tell what became of jobs.")
app.command("benbi.cli.config:config", name="config", help="Show the settings and their sources.")
app.command(
    "benbi.cli.schedules:app", name="schedules", help="Look at recurring tasks and steer them."
)
app.command("benbi.cli.db:app", name="db", help="Check and migrate the database.")


def run(tokens: list[str]) -> int:
    """Runs one command and returns the exit code."""
    debug = "--debug" in tokens
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        # What the terminal's encoding lacks, and half a surrogate pair, is escaped.
        reconfigure(errors="backslashreplace")
    try:
        code = app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _wrong_usage(error)
    except BenbiError as error:
        return exits.tell_error(error, debug=debug)
    except BrokenPipeError:
        exits.close_stdout()
        return exits.BROKEN_PIPE
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    return code if isinstance(code, int) else exits.DONE


def _wrong_usage(error: CycloptsError) -> int:
    command = " ".join(("benbi", *(error.command_chain or ())))
    exits.tell(f"{str(error).rstrip('.')}; see {command} --help")
    return exits.USAGE
