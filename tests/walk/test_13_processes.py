"""Chapter 13. Any number of processes share one file: one makes jobs, others run them."""

from __future__ import annotations

import os
import signal

import pytest

from benbi import JobCanceled, JobHandle
from tests.support.working import state_reached
from tests.walk.conftest import StartWorker
from tests.walk.shop import app, never_done, whoami


async def process_of(job: JobHandle[None]) -> int:
    """The process that ``never_done`` tells of, once it runs."""
    return await anext(event.data async for event in job.events() if event.type == "partial")


async def test_a_worker_is_a_process_of_its_own(start_worker: StartWorker) -> None:
    """``benbi work module:app``; no broker and no server stands between the two."""
    async with app:
        job = await whoami.enqueue()
        worker = start_worker()
        assert await job.result() == worker.pid != os.getpid()


async def test_several_workers_share_the_work(start_worker: StartWorker) -> None:
    """While one has all its slots full, another takes what comes; neither knows the other."""
    for _ in range(2):
        start_worker("--slots", "1")
    async with app:
        long = await never_done.enqueue()
        busy = await process_of(long)
        assert await (await whoami.enqueue()).result() != busy

        await long.cancel()
        with pytest.raises(JobCanceled):
            await long.result()


async def test_a_worker_that_is_asked_to_stop_drains(start_worker: StartWorker) -> None:
    """SIGTERM: it claims nothing more; what does not end in the grace goes back, uncharged."""
    worker = start_worker("--grace", "0.1")
    async with app:
        job = await never_done.enqueue()
        await process_of(job)
        worker.send_signal(signal.SIGTERM)
        record = await state_reached(app, job.id, "pending")
    assert (record.failures, record.losses) == (0, 0)
