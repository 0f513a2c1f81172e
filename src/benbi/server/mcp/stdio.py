"""MCP on standard input and output, with a worker beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benbi.server.mcp.child import worker as worker_process
from benbi.server.mcp.parts import server

if TYPE_CHECKING:
    from benbi.app import Benbi


async def run_stdio(
    app: Benbi,
    *,
    target: str | None = None,
    worker: bool = True,
    keep_working: bool = False,
    name: str = "benbi",
    prefix: str | None = None,
) -> None:
    """Serves the app's tools on standard input and output until the host closes them.

    With ``worker`` and a ``target`` (``module:app``), a worker process runs beside it and drains
    when the server ends, however it ends; ``keep_working`` lets the jobs that it then runs end
    in their own time. Nothing but the protocol goes to standard output.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app)
        if app.tasks:
            await app.publish()
        if worker and target is not None:
            await stack.enter_async_context(worker_process(target, keep_working=keep_working))
        await server(app, name, prefix=prefix).run_stdio_async()


def host_config(
    target: str | None, name: str = "benbi", *, url: str | None = None, options: Sequence[str] = ()
) -> dict[str, Any]:
    """The entry of a host's configuration file that starts ``benbi mcp target``.

    Absolute throughout: hosts start servers in ``/``, ignore ``cwd`` and pass on few
    variables. ``url`` is the database, None for ``$BENBI_URL``; ``options`` go behind the
    target.
    """
    folder = str(Path.cwd())
    environment = {"PYTHONPATH": folder}
    address = url or os.environ.get("BENBI_URL")
    if address:
        environment["BENBI_URL"] = address
    listening = os.environ.get("BENBI_LISTEN_URL")
    if listening:
        environment["BENBI_LISTEN_URL"] = listening
    entry = {
        "command": sys.executable,
        # Not by "cwd" alone, which some hosts ignore.
        "args": [
            "-m",
            "benbi",
            "mcp",
            *([target] if target else []),
            "--directory",
            folder,
            *options,
        ],
        "cwd": folder,
        "env": environment,
    }
    return {"mcpServers": {name: entry}}
