"""A worker process under a supervisor: ``python -m benbi.cli.nested``, for the supervisor only.

Standard input is the line to it: first come the settings, then ``retire``, or
``go on`` where it can not be replaced yet; back go the mark of
this process, by which its workers are known, whether it should be replaced, and with which exit
code it ends. When the line ends, the supervisor is dead: what runs is canceled and given back,
uncharged, and this process ends within seconds.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from benbi.cli import exits
from benbi.cli.options import Common, loaded
from benbi.cli.shift import Shift, log_to_stderr, work_shift
from benbi.errors import BenbiError, ConfigurationError
from benbi.processes.ends import end_own_group, process_mark

# Less than the supervisor's sentinel waits.
LAST_SECONDS: Final = 4.0


class Line:
    """The line to the supervisor."""

    def __init__(self) -> None:
        # Tasks that read standard input must find it empty, not eat the line.
        self._connection = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._lines = self._connection.makefile("r", encoding="utf-8")

    def hear(self) -> str:
        """The next line; empty when the supervisor is gone."""
        try:
            return self._lines.readline().strip()
        except OSError:
            return ""

    def say(self, document: dict[str, Any]) -> None:
        """Sends a document; where the supervisor is gone, ``on_end`` will say so."""
        try:
            self._connection.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            return

    def listen(
        self,
        on_retire: Callable[[], None],
        on_go_on: Callable[[], None],
        on_end: Callable[[], None],
    ) -> None:
        """Calls them, in a thread of its own."""

        def hold() -> None:
            while told := self.hear():
                (on_retire if told == "retire" else on_go_on)()
            on_end()
            time.sleep(LAST_SECONDS)
            end_own_group()

        threading.Thread(target=hold, name="benbi-line", daemon=True).start()


def main() -> int:
    """Works as the supervisor says; the exit code."""
    exits.open_streams()
    line = Line()
    told = json.loads(line.hear() or "{}")
    if not told:
        return exits.DONE
    log_to_stderr(told["log_level"])
    try:
        common = Common(url=told["url"], as_json=told["as_json"])
        app = loaded(told["target"], common).app
        if app.database.one_connection:
            raise ConfigurationError(
                f"the jobs in {app.url} are those of one process; name a file to work in several"
            )
        line.say({"mark": process_mark(), "database": app.database.address, "schema": app.schema})
        shift = Shift(app, told["queues"], told["slots"], told["grace"], told["once"], common)
        return work_shift(shift, line, told["max_jobs"])
    except BenbiError as error:
        code = exits.tell_error(error, debug=told["debug"])
        line.say({"ends": code})
        return code


if __name__ == "__main__":
    code = main()
    exits.flush_stderr()
    sys.exit(code)
