"""A worker beside the server, in a thread and a loop of its own.

Of its own, so that a task that blocks its loop does not silence the doors as well.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benbi.server.http.closing import Latch

if TYPE_CHECKING:
    from benbi.app import Benbi

logger = logging.getLogger("benbi.http")

# What a worker may take beyond its grace to hand its jobs back.
_LEEWAY_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """As for ``app.work``: None means all queues, and the app's own number of slots.

    ``grace`` is how many seconds running jobs get when the server stops.
    """

    queues: Sequence[str] | None = None
    slots: int | None = None
    grace: float = 30.0


class WorkerBeside:
    """Runs ``app.work``; ``abandoned`` jobs had code that did not stop when it drained."""

    def __init__(self, app: Benbi, options: WorkerOptions) -> None:
        self._app = app
        self._options = options
        self._draining = Latch()
        self._ended = Latch()
        self.abandoned = 0

    def drain(self) -> None:
        """No new jobs from now on, and the grace for those that run. Any thread may call it."""
        self._draining.set()

    def fault(self) -> str | None:
        """What is wrong with it, for ``/healthz``."""
        if self._ended and not self._draining:
            return "the worker beside the server has ended; the log says why"
        return None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Starts it, and at the end waits until it has drained."""
        threading.Thread(target=self._run, name="benbi-worker", daemon=True).start()
        try:
            yield
        finally:
            self.drain()
            with self._ended.waiter() as ended:
                patience = self._options.grace + _LEEWAY_SECONDS
                await asyncio.wait({ended}, timeout=patience)
            if not self._ended:
                logger.warning("the worker did not stop within %g s and is left behind", patience)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception:
            logger.exception("the worker beside the server ended")
        finally:
            self._ended.set()

    async def _work(self) -> None:
        stop = asyncio.Event()
        with self._draining.waiter() as draining:
            draining.add_done_callback(lambda _: stop.set())
            self.abandoned = await self._app.work(
                queues=self._options.queues,
                slots=self._options.slots,
                grace=self._options.grace,
                stop=stop,
            )
