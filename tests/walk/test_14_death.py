"""Chapter 14. A worker is killed in the middle of a job; another one goes on where it was."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.walk.conftest import StartWorker
from tests.walk.shop import app, send_parcel


async def test_a_killed_worker_loses_no_job_and_repeats_no_step(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    """SIGKILL leaves no time for anything. That its heart stopped is noticed by the others."""
    for _ in range(2):
        start_worker()
    diary = tmp_path / "diary.txt"
    async with app:
        job = await send_parcel.enqueue(str(diary))
        killed = await anext(event.data async for event in job.events() if event.type == "partial")
        os.kill(killed, signal.SIGKILL)
        wrapped_by, sent_by = await job.result()
        record = await job.get()
        log = [event.type async for event in job.events()]

    assert wrapped_by == killed != sent_by
    assert diary.read_text().split() == ["wrapped", "sent"]
    assert (record.attempt, record.losses, record.failures) == (2, 1, 0)
    assert log == [
        *("created", "started", "step_completed", "partial"),
        *("pending", "started", "step_completed", "completed"),
    ]
