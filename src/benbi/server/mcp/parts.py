"""The parts that make a server durable: for a server one has, and for one of ours."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

from benbi.server.mcp.door import Door
from benbi.server.mcp.extension import HANDED_OVER, DurableTasks, ListedTools
from benbi.server.mcp.listen import Listening
from benbi.server.mcp.offers import DEFAULT_WAIT
from benbi.server.mcp.tasks import Tasks

if TYPE_CHECKING:
    from mcp.server.auth.provider import TokenVerifier
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.context import ServerMiddleware
    from mcp.server.extension import Extension

    from benbi.app import Benbi
    from benbi.handle import JobHandle


class Parts(TypedDict):
    """Arguments for ``MCPServer(…)``."""

    extensions: list[Extension]
    middleware: list[ServerMiddleware[Any]]


class Pieces(NamedTuple):
    """What the parts are made of, for a framework that takes them one by one."""

    door: Door
    tasks: Tasks
    listening: Listening


def pieces(app: Benbi, prefix: str | None) -> Pieces:
    door = Door(app, prefix)
    tasks = Tasks(door)
    return Pieces(door, tasks, Listening(app, tasks))


def parts(
    app: Benbi,
    *,
    prefix: str | None = None,
    extensions: Sequence[Extension] = (),
    middleware: Sequence[ServerMiddleware[Any]] = (),
) -> Parts:
    """What makes an ``MCPServer`` offer the app's durable tools::

        server = MCPServer("gifts", **benbi.mcp.parts(app, prefix="gifts"))

    The server's own tools stay as they are. ``prefix`` goes before the job tools' names
    (``gifts_job_status``); the default is ``benbi``. Extensions and middleware of your own are
    passed here, since ``MCPServer`` takes each of the two once.

    Tasks may be registered before or after; an app without tasks offers what live workers
    have published in its database. Jobs run in workers (``benbi work``), never in the server.
    Over HTTP, serve with ``stateless_http=True``: then clients of older protocol revisions go on
    after a restart of the server, too.
    """
    made = pieces(app, prefix)
    return Parts(
        extensions=[*extensions, DurableTasks(made.door, made.tasks)],
        middleware=[*middleware, made.listening, ListedTools(made.door)],
    )


def server(
    app: Benbi,
    name: str = "benbi",
    *,
    prefix: str | None = None,
    token_verifier: TokenVerifier | None = None,
    auth: AuthSettings | None = None,
) -> MCPServer[Any]:
    """An MCP server that offers the app's durable tools and nothing else.

    ``prefix`` is made from ``name`` where it is left out.
    """
    made = parts(app, prefix=name if prefix is None else prefix)
    with _root_logger_kept():
        return MCPServer(name, token_verifier=token_verifier, auth=auth, **made)


def hand_over(job: JobHandle[Any], *, wait: float = DEFAULT_WAIT) -> CallToolResult:
    """The answer of a tool of your own whose work goes on in ``job``::

        @server.tool()
        async def report(month: str) -> CallToolResult:
            check(month)
            mine = make_report.options(owner=benbi.mcp.current_owner())
            return benbi.mcp.hand_over(await mine.enqueue(month))

    A client with the Tasks extension gets the job as its task; any other gets the job's
    envelope, after at most ``wait`` seconds. So a tool can check, look up or ask first. The job
    must be the caller's, or the caller could not look at it.
    """
    text = f"handed over to job {job.id}"
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        _meta={HANDED_OVER: {"jobId": job.id, "wait": wait}},
    )


@contextmanager
def _root_logger_kept() -> Generator[None]:
    """MCPServer sets up logging for the whole process, which is not ours to do."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
