"""Chapter 15. Without asyncio: each call has a twin that blocks, and a task may be a ``def``."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from benbi import Benbi, BenbiError, JobCanceled, Retry, SyncContext, Transient
from tests.walk.conftest import StartWorker
from tests.walk.shop import app as shop
from tests.walk.shop import whoami


def test_a_script_makes_a_job_and_waits_for_it(start_worker: StartWorker) -> None:
    """No ``await`` anywhere: the worker is another process, as it would be in Django or Flask."""
    with shop:
        job = whoami.enqueue_sync()
        worker = start_worker()
        assert job.result_sync(timeout=30) == worker.pid
        assert job.get_sync().state == "completed"


def test_each_call_has_its_blocking_twin(tmp_path: Path) -> None:
    """Named with ``_sync``, and the same transaction underneath."""
    with Benbi(str(tmp_path / "jobs.db")) as app:

        @app.task
        def add(a: int, b: int) -> int:
            return a + b

        one, two = app.enqueue_many_sync([add.call(1, 2), add.call(3, 4)])
        assert [job.id for job in app.jobs_sync()] == [two.id, one.id]

        one.cancel_sync()
        with pytest.raises(JobCanceled):
            one.result_sync()
        assert [event.type for event in app.events_sync(one.id)] == ["created", "canceled"]

        one.retry_sync()
        assert one.get_sync().state == "pending"


async def test_a_plain_function_runs_in_a_thread(app: Benbi) -> None:
    """A library that blocks is no trouble there: the worker's loop goes on."""

    @app.task
    def measure(text: str) -> tuple[int, bool]:
        return len(text), threading.current_thread() is threading.main_thread()

    async with app.working():
        assert await (await measure.enqueue("kite")).result() == (4, False)


async def test_a_plain_function_has_a_context_that_blocks(app: Benbi) -> None:
    """``SyncContext`` has the names of ``Context``, without ``await``."""
    loaded: list[str] = []

    def load(city: str) -> int:
        loaded.append(city)
        return len(city)

    @app.task(retry=Retry(attempts=2, first=0.01))
    def analyse(ctx: SyncContext, city: str) -> str:
        size = ctx.step(load)(city)
        ctx.progress(1, 2, "loaded")
        ctx.partial({"size": size})
        if ctx.attempt == 1:
            raise Transient("cut off")
        ctx.sleep(0.01)
        return f"{city} has {size} letters"

    async with app.working():
        assert await (await analyse.enqueue("Hue")).result() == "Hue has 3 letters"
    assert loaded == ["Hue"]


async def test_a_blocking_call_is_refused_where_it_would_block_a_loop(app: Benbi) -> None:
    """The error says what to write instead."""

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    job = await add.enqueue(1, 2)
    with pytest.raises(BenbiError, match="await result"):
        job.result_sync()
