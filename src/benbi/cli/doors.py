"""``benbi serve`` and ``benbi mcp``: the doors, which need the extra ``server``."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from benbi.cli import documents, exits
from benbi.cli.options import DEFAULT, FLAG, Common, loaded, names, seconds
from benbi.cli.shift import log_to_stderr
from benbi.cli.work import Grace, LogLevel, Queues, Slots
from benbi.errors import ConfigurationError, MissingExtra

if TYPE_CHECKING:
    from benbi import Benbi

Served = Annotated[
    str | None,
    Parameter(help="module:app with the tasks; without it, what workers have published."),
]


Port = Annotated[
    int,
    Parameter(validator=Number(gte=0, lte=65535), help="The port to listen at; 0: a free one."),
]
Tokens = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        help="Let in who sends this bearer token (owner:token gives it an owner); may be "
        "repeated. Default: BENBI_TOKEN.",
    ),
]
Hosts = Annotated[
    list[str] | None, Parameter(negative="", help="A Host to accept, behind a proxy.")
]
Origins = Annotated[
    list[str] | None, Parameter(negative="", help="An Origin whose pages may call.")
]


def serve(
    target: Served = None,
    /,
    *,
    host: Annotated[str, Parameter(help="The address to listen at.")] = "127.0.0.1",
    port: Port = 8000,
    token: Tokens = None,
    allowed_host: Hosts = None,
    allowed_origin: Origins = None,
    worker: Annotated[
        bool, Parameter(show_default=False, help="Run the jobs of module:app here, too.")
    ] = True,
    queues: Queues = None,
    slots: Slots = None,
    grace: Grace = "30",
    log_level: LogLevel = "info",
    common: Common = DEFAULT,
) -> None:
    """Serve MCP at /mcp and HTTP at /api, with a worker beside them.

    Any other address than loopback needs a token.
    """
    log_to_stderr(log_level)
    door = _door("benbi.server.http", "serve", "benbi serve")
    app, _ = _app_for(target, common)
    say = _as_json if common.as_json else partial(print, flush=True)
    running = door(
        app,
        host=host,
        port=port,
        tokens=token,
        allowed_hosts=allowed_host or (),
        allowed_origins=allowed_origin or (),
        worker=worker,
        queues=names(queues),
        slots=slots,
        grace=seconds(grace),
        announce=say,
    )
    asyncio.run(running)


def mcp(
    target: Served = None,
    /,
    *,
    name: Annotated[str, Parameter(help="The name that the host shows.")] = "benbi",
    print_config: Annotated[
        bool, FLAG, Parameter(help="Print what goes into the host's JSON and end.")
    ] = False,
    worker: Annotated[
        bool, Parameter(show_default=False, help="Run jobs in a child process meanwhile.")
    ] = True,
    keep_working: Annotated[
        bool, FLAG, Parameter(help="Let running jobs end when the client has left.")
    ] = False,
    directory: Annotated[
        Path | None, Parameter(help="Work in this folder, wherever the host starts it.")
    ] = None,
    log_level: LogLevel = "info",
    common: Common = DEFAULT,
) -> None:
    """Serve MCP on stdin and stdout, for a host that starts its servers itself."""
    log_to_stderr(log_level)
    if directory is not None:
        _work_in(directory)
    run_stdio = _door("benbi.server.mcp", "run_stdio", "benbi mcp")
    app, full = _app_for(target, common)
    if print_config:
        host_config = _door("benbi.server.mcp", "host_config", "benbi mcp")
        options = [] if name == "benbi" else ["--name", name]
        options += [] if worker else ["--no-worker"]
        options += ["--keep-working"] if keep_working else []
        # Asked for in any case: what can not be opened from here can not be from a host.
        full_url = app.url
        url = full_url if common.url or os.environ.get("BENBI_URL") else None
        print(json.dumps(host_config(full, name, url=url, options=options), indent=2))
        return
    if sys.stdin.isatty():
        exits.tell("MCP on this terminal; a host starts it as benbi mcp --print-config says")
    asyncio.run(run_stdio(app, target=full, worker=worker, keep_working=keep_working, name=name))


def _work_in(directory: Path) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise ConfigurationError(f"--directory {directory}: {error.strerror}") from None


def _door(module: str, name: str, what: str) -> Any:
    """A function of a door, or MissingExtra where what it needs is not installed."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "benbi":
            raise
        raise MissingExtra("server", what) from error
    except MissingExtra as error:
        raise MissingExtra("server", what) from error


def _app_for(target: str | None, common: Common) -> tuple[Benbi, str | None]:
    if target is None:
        from benbi import Benbi

        return Benbi(common.url), None
    found = loaded(target, common)
    return found.app, found.text


def _as_json(line: str) -> None:
    documents.write({"started": line})
