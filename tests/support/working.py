"""A worker in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benbi import Benbi


@asynccontextmanager
async def working(app: Benbi, **settings: Any) -> AsyncIterator[None]:
    """A worker of ``app`` runs for as long as the block lasts, then drains."""
    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, **{"grace": 5.0, **settings}))
    try:
        yield
    finally:
        stop.set()
        await worker


async def state_reached(app: Benbi, job_id: str, state: str, seconds: float = 10.0) -> Any:
    """The job's record once it is in ``state``."""
    async with asyncio.timeout(seconds):
        job = await app.get(job_id)
        while job.state != state:
            job = await app.wait_for_change(job_id, after=job.seq, timeout=seconds)
        return job
