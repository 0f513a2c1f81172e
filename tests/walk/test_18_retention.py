"""Chapter 18. What has ended is kept for a while, then removed; what lives is never removed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from benbi import Benbi, JobFailed, Permanent


async def test_a_week_for_what_is_done_a_month_for_what_failed(app: Benbi) -> None:
    """Counted from the end: arguments, result, events and steps go with their job."""

    @app.task
    async def work() -> None: ...

    @app.task
    async def fail() -> None:
        raise Permanent("no")

    async with app.working():
        done, failed = await work.enqueue(), await fail.enqueue()
        await done.result()
        with pytest.raises(JobFailed):
            await failed.result()

    for job, keep in ((done, timedelta(days=7)), (failed, timedelta(days=30))):
        record = await job.get()
        assert record.kept_until is not None and record.finished_at is not None
        assert record.kept_until - record.finished_at == keep


async def test_a_task_may_say_how_long(app: Benbi) -> None:
    """``keep=`` in seconds, as a timedelta or as a text; a key holds as long as its job."""

    @app.task(keep="1h")
    async def work() -> None: ...

    async with app.working():
        job = await work.enqueue()
        await job.result()
    record = await job.get()
    assert record.kept_until is not None and record.finished_at is not None
    assert record.kept_until - record.finished_at == timedelta(hours=1)


async def test_what_lives_has_no_end_date(app: Benbi) -> None:
    """A job may wait for years."""

    @app.task(keep="1h")
    async def work() -> None: ...

    job = await work.options(delay="365d").enqueue()
    assert (await job.get()).kept_until is None
