"""``benbi serve``: uvicorn around the door, from the bind to the drained worker."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import uvicorn

from benbi.errors import ConfigurationError
from benbi.server.http.auth import TOKEN_VARIABLE, Verifier
from benbi.server.http.beside import WorkerBeside, WorkerOptions
from benbi.server.http.door import Door, build, verifier_for
from benbi.server.http.gate import checked_hosts, is_loopback
from benbi.server.http.mcp_path import PATH

if TYPE_CHECKING:
    from types import FrameType

    from benbi.app import Benbi

# Streams end at once; this is for requests that are being answered.
_ANSWER_SECONDS: Final = 5
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
Announce = Callable[[str], None]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve(
    app: Benbi,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    worker: bool = True,
    tokens: Iterable[str] | None = None,
    verifier: Verifier | None = None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    mcp: bool = True,
    queues: Sequence[str] | None = None,
    slots: int | None = None,
    grace: float = 30.0,
    stop: asyncio.Event | None = None,
    announce: Announce = _say,
) -> int:
    """Serves the app until SIGTERM, SIGINT or ``stop``; a second signal ends the process at once.

    ``port=0`` takes a free one; one line says where it listens. ``worker`` runs a worker
    beside it, if the app has tasks; when told to stop, running jobs get ``grace`` seconds.
    The other options are those of ``build`` and of ``app.work``. As that does, it returns the
    number of jobs whose code did not stop: with any of them left, end the process.

    Raises ConfigurationError where the address can not be used, or is not loopback and nobody
    could sign in.
    """
    tokens = tokens if tokens is None or isinstance(tokens, str) else list(tokens)
    if not is_loopback(host) and verifier_for(tokens, verifier) is None:
        raise ConfigurationError(
            f"{host} can be reached from other machines, and nothing says who may come in: "
            f"give --token ({TOKEN_VARIABLE}) or a verifier, or listen on 127.0.0.1"
        )
    asgi = build(
        app,
        tokens=tokens,
        verifier=verifier,
        allowed_hosts=checked_hosts(allowed_hosts) | checked_hosts(_own_name(host)),
        allowed_origins=allowed_origins,
        mcp=mcp,
    )
    door: Door = asgi.state.door
    options = WorkerOptions(queues, slots, grace) if worker and app.tasks else None
    with _bound(host, port) as listener:
        server = _Server(asgi, door, lambda: announce(_where(app, listener, door)))
        with server.signals():
            async with app, _beside(app, door, options):
                watching = asyncio.create_task(server.stop_at(stop)) if stop else None
                await server.serve(sockets=[listener])
                if watching is not None:
                    watching.cancel()
    return door.worker.abandoned if door.worker else 0


@asynccontextmanager
async def _beside(app: Benbi, door: Door, options: WorkerOptions | None) -> AsyncGenerator[None]:
    """What runs beside the server: a worker, or at least the upkeep."""
    async with AsyncExitStack() as stack:
        if options is None:
            await stack.enter_async_context(app.working(worker=False))
        else:
            await app.publish()
            door.worker = WorkerBeside(app, options)
            await stack.enter_async_context(door.worker.running())
        if door.mcp is not None:
            stack.push_async_callback(door.mcp.end)
        yield


class _Server(uvicorn.Server):
    """Uvicorn that tells the door of a signal at once, and not when the last response is over."""

    def __init__(self, asgi: Any, door: Door, started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                asgi,
                lifespan="off",
                ws="none",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=_ANSWER_SECONDS,
            )
        )
        self._door = door
        self._started = started
        self._loop = asyncio.get_running_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._let_go)

    async def stop_at(self, stop: asyncio.Event) -> None:
        """Does what a signal does, once ``stop`` is set."""
        await stop.wait()
        self.should_exit = True
        self._let_go()

    def _let_go(self) -> None:
        self._door.closing.set()
        if self._door.worker is not None:
            self._door.worker.drain()

    @contextmanager
    def signals(self) -> Generator[None]:
        """Handles them until the worker has drained, too, so that a second one ends that."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # Uvicorn's own raises the signal again at the end, before the worker has drained.
        yield


@contextmanager
def _bound(host: str, port: int) -> Generator[socket.socket]:
    """A socket at this address, not listening yet."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # A name that stands for both families is called by IPv4 clients at the least.
        family, kind, protocol, _, address = min(
            found, key=lambda entry: entry[0] != socket.AF_INET
        )
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"can not listen on {host}: {error.strerror}") from None
    with listener:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise ConfigurationError(_bind_failure(host, port, error)) from None
        yield listener


def _bind_failure(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} on {host} is in use; stop what listens there or give another --port"
            )
        case errno.EACCES:
            return f"port {port} may not be used without more rights; give one above 1023"
        case errno.EADDRNOTAVAIL:
            return f"{host} is not an address of this machine"
        case _:
            return f"can not listen on {host} port {port}: {error.strerror}"


def _own_name(host: str) -> list[str]:
    """The Host that callers of a named address send; a wildcard address has none."""
    try:
        if ipaddress.ip_address(host).is_unspecified:
            return []
        return [f"[{host}]" if ":" in host else host]
    except ValueError:
        return [host] if host else []


def _where(app: Benbi, listener: socket.socket, door: Door) -> str:
    """The one line of a start: address, tasks, database; no credentials."""
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    tasks = ", ".join(sorted(app.tasks)) or "those that workers have published"
    worker = "a worker beside it" if door.worker else "no worker beside it"
    mcp = f"MCP at {PATH}, " if door.mcp else ""
    return f"benbi listens on {url} ({mcp}API at /api) · tasks: {tasks} · {worker} · {app.url}"
