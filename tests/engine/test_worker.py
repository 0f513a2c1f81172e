"""A job's ways out of an attempt: each ends in one state, with an event that says why."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from benbi import (
    Benbi,
    Context,
    JobCanceled,
    JobFailed,
    JobSkipped,
    NotPermitted,
    Permanent,
    Retry,
    Skip,
    Snooze,
    SyncContext,
    Transient,
)
from benbi.errors import UseWait
from tests.support import wait_until_async
from tests.support.foreign import write_lock
from tests.support.working import state_reached, working

SOON = Retry(attempts=3, first=0.01, jitter=0)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    app = Benbi(str(tmp_path / "jobs.db"))
    async with app:
        yield app


async def types_of(app: Benbi, job_id: str) -> list[str]:
    return [event.type for event in await app.events(job_id)]


async def test_a_transient_error_is_retried_until_the_budget_is_used(app: Benbi) -> None:
    @app.task(retry=SOON)
    async def flaky(ctx: Context) -> None:
        raise Transient(f"attempt {ctx.attempt}")

    async with working(app):
        job = await flaky.enqueue()
        with pytest.raises(JobFailed, match="attempt 3"):
            await job.result(10)
    record = await job.get()
    assert (record.failures, record.reason) == (3, "attempts_used")
    assert record.error is not None and record.error.kind == "transient" and record.error.rule
    assert await types_of(app, job.id) == [
        *("created", "started", "retrying", "pending", "started", "retrying", "pending"),
        *("started", "failed"),
    ]


@pytest.mark.parametrize("error", [Permanent("no"), TypeError("a bug"), AssertionError("a bug")])
async def test_permanent_errors_and_bugs_fail_at_once(app: Benbi, error: Exception) -> None:
    @app.task(retry=SOON)
    async def hopeless() -> None:
        raise error

    async with working(app):
        job = await hopeless.enqueue()
        with pytest.raises(JobFailed):
            await job.result(10)
    assert (await job.get()).attempt == 1


async def test_strict_policies_do_not_retry_the_unknown(app: Benbi) -> None:
    @app.task(retry=Retry(attempts=3, unknown=False))
    async def strange() -> None:
        raise RuntimeError("who knows")

    async with working(app):
        with pytest.raises(JobFailed):
            await (await strange.enqueue()).result(10)


async def test_snooze_charges_nothing(app: Benbi) -> None:
    @app.task(retry=1)
    async def later(ctx: Context) -> int:
        if ctx.attempt < 4:
            raise Snooze(0.01)
        return ctx.attempt

    async with working(app):
        job = await later.enqueue()
        assert await job.result(10) == 4
    assert (await job.get()).failures == 0


async def test_skip_ends_as_skipped(app: Benbi) -> None:
    @app.task
    async def unneeded() -> None:
        raise Skip("nothing new")

    async with working(app):
        job = await unneeded.enqueue()
        with pytest.raises(JobSkipped, match="nothing new"):
            await job.result(10)


async def test_cancel_before_the_start_is_immediate(app: Benbi) -> None:
    @app.task
    async def never() -> None:
        raise AssertionError("must not run")

    job = await never.enqueue()
    assert (await job.cancel()).state == "canceled"
    async with working(app):
        with pytest.raises(JobCanceled):
            await job.result(10)
    assert await types_of(app, job.id) == ["created", "canceled"]


async def test_cancel_of_a_running_async_job_unwinds_it(app: Benbi) -> None:
    started, unwound = asyncio.Event(), asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            unwound.set()

    async with working(app):
        job = await endless.enqueue()
        await started.wait()
        assert (await job.cancel()).cancel_requested
        with pytest.raises(JobCanceled):
            await job.result(10)
        assert unwound.is_set()
    assert await types_of(app, job.id) == ["created", "started", "cancel_requested", "canceled"]


async def test_cancel_of_a_thread_is_cooperative(app: Benbi) -> None:
    started = threading.Event()

    @app.task
    def looping(ctx: SyncContext) -> int:
        started.set()
        turns = 0
        while not ctx.canceled:
            turns += 1
            threading.Event().wait(0.005)
        return turns

    async with working(app):
        job = await looping.enqueue()
        await asyncio.to_thread(started.wait)
        await job.cancel()
        # It saw the flag and returned: its result stands.
        assert await job.result(10) > 0


async def test_a_body_that_ignores_its_cancel_is_abandoned_after_the_grace(app: Benbi) -> None:
    release = asyncio.Event()
    started = asyncio.Event()
    late: list[str] = []

    @app.task(grace=0.2)
    async def deaf(ctx: Context) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        try:
            await ctx.progress(1)
        except BaseException as error:
            late.append(type(error).__name__)
            raise

    async with working(app):
        job = await deaf.enqueue()
        await started.wait()
        await job.cancel()
        with pytest.raises(JobCanceled, match="abandoned"):
            await job.result(10)
        before = await types_of(app, job.id)
        release.set()
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            while not late:
                await asyncio.sleep(0.01)
        assert late == ["Abandon"]
        assert await types_of(app, job.id) == before, "an abandoned body writes nothing"


async def test_cancel_wins_over_a_retry(app: Benbi) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task(retry=5)
    async def failing() -> None:
        started.set()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            raise Transient("a failure while being canceled") from None

    async with working(app):
        job = await failing.enqueue()
        await started.wait()
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result(10)


async def test_timeout_counts_and_is_retried(app: Benbi) -> None:
    @app.task(timeout=0.05, retry=Retry(attempts=2, first=0.01))
    async def slow() -> None:
        await asyncio.Event().wait()

    async with working(app):
        job = await slow.enqueue()
        with pytest.raises(JobFailed, match="timeout"):
            await job.result(10)
    record = await job.get()
    assert record.failures == 2
    assert record.error is not None and record.error.kind == "timeout"


async def test_drain_gives_jobs_back_uncounted(app: Benbi) -> None:
    started = asyncio.Event()

    @app.task
    async def long(ctx: Context) -> int:
        if ctx.attempt == 1:
            started.set()
            await asyncio.Event().wait()
        return ctx.attempt

    async with working(app, grace=0.1):
        job = await long.enqueue()
        await started.wait()
    record = await job.get()
    assert (record.state, record.reason) == ("pending", "drain")
    assert (record.failures, record.losses) == (0, 0)
    async with working(app):
        assert await job.result(10) == 2


async def test_drain_lets_short_jobs_finish(app: Benbi) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def short() -> str:
        started.set()
        await finish.wait()
        return "done"

    async with working(app):
        job = await short.enqueue()
        await started.wait()
        asyncio.get_running_loop().call_later(0.05, finish.set)
    assert (await job.get()).state == "completed"


async def test_the_order_is_priority_then_age(app: Benbi) -> None:
    order: list[str] = []

    @app.task
    async def note(name: str) -> None:
        order.append(name)

    await note.enqueue("first")
    await note.enqueue("second")
    last = await note.options(priority=-1).enqueue("low")
    await note.options(priority=5).enqueue("high")
    async with working(app, slots=1):
        await last.result(10)
    assert order == ["high", "first", "second", "low"]


async def test_a_delayed_job_starts_when_due(app: Benbi) -> None:
    @app.task
    async def now() -> None: ...

    async with working(app):
        job = await now.options(delay=0.2).enqueue()
        assert (await job.get()).state == "scheduled"
        await job.result(10)
    record = await job.get()
    assert record.started_at is not None
    waited = (record.started_at - record.created_at).total_seconds()
    assert 0.2 <= waited < 1.0


async def test_a_job_of_an_unknown_task_waits(app: Benbi, tmp_path: Path) -> None:
    newer = Benbi(str(tmp_path / "jobs.db"))

    @newer.task
    async def new_feature() -> int:
        return 1

    @app.task
    async def old_feature() -> int:
        return 0

    job = await new_feature.enqueue()
    async with working(app):
        await (await old_feature.enqueue()).result(10)
        assert (await job.get()).state == "pending"
    async with newer, working(newer):
        assert await job.result(10) == 1


async def test_result_inside_a_job_is_refused(app: Benbi) -> None:
    @app.task
    async def child() -> int:
        return 1

    @app.task
    async def parent() -> int:
        return await (await child.enqueue()).result()

    async with working(app):
        job = await parent.enqueue()
        with pytest.raises(JobFailed):
            await job.result(10)
    error = (await job.get()).error
    assert error is not None and error.type == UseWait.__name__


async def test_a_result_that_json_can_not_carry_fails_without_retry(app: Benbi) -> None:
    @app.task(retry=5)
    async def odd() -> object:
        return {"when": float("nan")}

    async with working(app):
        job = await odd.enqueue()
        with pytest.raises(JobFailed, match=r"\$\.when"):
            await job.result(10)
    assert (await job.get()).attempt == 1


async def test_only_ended_jobs_are_retried_by_hand(app: Benbi) -> None:
    @app.task
    async def fine() -> int:
        return 1

    job = await fine.enqueue()
    with pytest.raises(NotPermitted, match="pending"):
        await job.retry()
    async with working(app):
        await job.result(10)
    with pytest.raises(NotPermitted, match="completed"):
        await job.retry()


async def test_system_exit_in_a_task_does_not_end_the_worker(app: Benbi) -> None:
    @app.task(retry=1)
    def quits() -> None:
        raise SystemExit(3)

    @app.task
    async def fine() -> int:
        return 1

    async with working(app):
        with pytest.raises(JobFailed):
            await (await quits.enqueue()).result(10)
        assert await (await fine.enqueue()).result(10) == 1


async def test_an_expired_job_never_starts(app: Benbi) -> None:
    @app.task
    async def stale() -> None: ...

    job = await stale.options(expires_in=0.01).enqueue()
    await asyncio.sleep(0.02)

    @app.task(queue="other")
    async def other() -> None: ...

    async with working(app, queues=["other"]):
        record = await state_reached(app, job.id, "failed")
    assert record.reason == "expired"


async def test_an_ask_times_out_into_its_default(app: Benbi) -> None:
    @app.task
    async def asker(ctx: Context) -> bool:
        return await ctx.ask("Sure?", bool, timeout=0.05, default=False)

    @app.task
    async def demanding(ctx: Context) -> bool:
        return await ctx.ask("Sure?", bool, timeout=0.05)

    async with working(app):
        assert await (await asker.enqueue()).result(10) is False
        with pytest.raises(JobFailed, match="expired"):
            await (await demanding.enqueue()).result(10)


async def test_an_exclusive_body_stops_when_its_worker_is_cut_off(tmp_path: Path) -> None:
    app = Benbi(str(tmp_path / "cut.db"), heartbeat_timeout=1.0)
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task(exclusive=True)
    async def alone() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with app, working(app):
        job = await alone.enqueue()
        await started.wait()
        with closing(sqlite3.connect(tmp_path / "cut.db", isolation_level=None)) as foreign:
            foreign.execute("BEGIN IMMEDIATE")
            # No beat can be confirmed now: the body must stop within the heartbeat time-out.
            async with asyncio.timeout(3):
                await stopped.wait()
            foreign.execute("ROLLBACK")
        await job.cancel()


async def test_a_worker_that_is_canceled_while_it_registers_leaves_no_row(tmp_path: Path) -> None:
    """Nobody has to wait until it is taken for dead."""
    path = tmp_path / "jobs.db"
    async with Benbi(str(path)) as app:

        @app.task
        async def work() -> None: ...

        with write_lock(path):
            worker = asyncio.create_task(app.work())
            # Its transaction has begun: it can not be withdrawn any more.
            await wait_until_async(app.store._batcher._serving.locked)
            worker.cancel()
            # Until it has heard of it.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await worker
        # A look behind whatever is still under way.
        await app.publish()
        assert await app.workers() == []
