"""A network between a worker and its database that can swallow everything, without a word."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

CHUNK = 65_536


class Proxy:
    """Passes bytes on to a port of this host, both ways, until it is cut.

    While it is cut nothing arrives and no end is heard of, in either direction; afterwards
    everything goes on, late, as on a network that was away.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._through = asyncio.Event()
        self._through.set()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._under_way: set[asyncio.Task[None]] = set()
        self.port = 0

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self) -> None:
        """From its return on nothing passes."""
        self._do(self._through.clear)

    def let_through(self) -> None:
        self._do(self._through.set)

    def _do(self, change: Callable[[], None]) -> None:
        async def done() -> None:
            change()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(10)

    def _run(self) -> None:
        self._loop.run_forever()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for connection in self._under_way:
            connection.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beginning = asyncio.ensure_future(self._begin(reader, writer))
        self._under_way.add(beginning)
        beginning.add_done_callback(self._under_way.discard)

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._through.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                while data := await source.read(CHUNK):
                    await self._through.wait()
                    sink.write(data)
                    await sink.drain()
            await self._through.wait()
        finally:
            sink.close()
