"""Whether this server can do its work: what ``/healthz`` answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from uuid import UUID

from benbi.errors import BenbiError, JobNotFound

if TYPE_CHECKING:
    from benbi.app import Benbi

_PATIENCE_SECONDS: Final = 2.0
# Anybody may ask, so a burst of questions is answered from one look at the database.
_FRESH_SECONDS: Final = 1.0
# A worker looks for jobs every second; a task may block its loop for a while.
_SILENCE_SECONDS: Final = 60.0
_NO_JOB: Final = str(UUID(int=0))


class Health:
    """``fault()`` is None while the database answers and the workers of this process are well.

    ``beside`` names the fault of what runs beside the server, None where there is none.
    """

    def __init__(self, app: Benbi, beside: Callable[[], str | None] = lambda: None) -> None:
        self._app = app
        self._beside = beside
        self._looked_at = float("-inf")
        self._fault: str | None = None

    async def fault(self) -> str | None:
        """What is wrong, in one line without names of hosts and files."""
        if time.monotonic() - self._looked_at > _FRESH_SECONDS:
            self._fault = await self._look()
            self._looked_at = time.monotonic()
        return self._fault or self._beside() or self._silence()

    def view(self) -> dict[str, str]:
        """What it answers where there is no fault. Who goes without hints works, only later."""
        return {"status": "ok"} | ({"hints": "off"} if self._app.hints_lost else {})

    def _silence(self) -> str | None:
        now = time.monotonic()
        looked_at = [worker.claimed_at for worker in self._app.workers_here]
        if any(at is not None and now - at > _SILENCE_SECONDS for at in looked_at):
            return f"a worker has not looked for jobs for over {_SILENCE_SECONDS:g} s"
        return None

    async def _look(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._app.get(_NO_JOB)
        except JobNotFound:
            return None
        except TimeoutError:
            return f"the database did not answer within {_PATIENCE_SECONDS:g} s"
        except BenbiError:
            return "the database could not be read"
        return None
