"""What one kind of caller asks for must not keep another kind waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from benbi import Benbi
from benbi.store import lifecycle, workers
from benbi.store.lifecycle import ClaimRequest
from tests.support import wait_until
from tests.support.foreign import write_lock

MANY = 400


async def test_a_claim_does_not_wait_for_a_thousand_cancels(tmp_path: Path) -> None:
    async with Benbi(str(tmp_path / "jobs.db"), durability="normal") as app:

        @app.task
        async def work(number: int) -> None: ...

        jobs = await app.enqueue_many([work.call(number) for number in range(MANY + 1)])
        worker = workers.Worker("worker", "host", 1, 1, ["default"], ["work"], "0")
        n = await app.store.write(workers.register, worker)
        canceling = [asyncio.create_task(job.cancel()) for job in jobs[1:]]
        while app.store._batcher._items < MANY // 2:
            await asyncio.sleep(0)
        request = ClaimRequest(n, 1, ["default"], '["work"]', 1, True)
        (claim,) = await app.store.write(lifecycle.claim, request)
        assert claim.job_id == jobs[0].id
        assert sum(task.done() for task in canceling) < MANY // 2
        await asyncio.gather(*canceling)
        await app.store.write(workers.sign_off, n, "drain")


def test_threads_that_read_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    app = Benbi(str(tmp_path / "jobs.db"))

    @app.task
    async def work() -> None: ...

    job = work.enqueue_sync()
    longest: list[float] = []

    def read() -> None:
        for _ in range(5):
            before = time.monotonic()
            job.get_sync()
            longest.append(time.monotonic() - before)

    with write_lock(tmp_path / "jobs.db"):
        writer = threading.Thread(target=work.enqueue_sync)
        writer.start()
        wait_until(app.store._batcher._serving.locked)
        readers = [threading.Thread(target=read) for _ in range(8)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(2)
        assert len(longest) == 40 and max(longest) < 1
    writer.join()
    app.close_sync()
