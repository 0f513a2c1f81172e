"""Chapter 8. Errors are retried by their class: what may help is tried again, a bug is not."""

from __future__ import annotations

import pytest

from benbi import Benbi, Context, JobFailed, Permanent, Retry, Transient
from tests.support.working import state_reached

SOON = Retry(attempts=3, first=0.01)


async def test_a_lost_connection_is_tried_again(app: Benbi) -> None:
    """Time-outs, connection errors, HTTP 408, 425, 429 and 5xx of the well-known clients."""

    @app.task(retry=SOON)
    async def fetch(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionResetError("the other side went away")
        return ctx.attempt

    async with app.working():
        job = await fetch.enqueue()
        assert await job.result() == 3
    record = await job.get()
    assert (record.attempt, record.failures) == (3, 2)


async def test_a_bug_is_not_tried_again(app: Benbi) -> None:
    """Another attempt can not help; neither after ``Permanent``, nor after most HTTP 4xx."""

    @app.task(retry=SOON)
    async def divide(by: list[int]) -> None:
        by.push(1)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

    @app.task(retry=SOON)
    async def buy() -> None:
        raise Permanent("the shop has closed for ever")

    async with app.working():
        for job in (await divide.enqueue([1]), await buy.enqueue()):
            with pytest.raises(JobFailed):
                await job.result()
            assert (await job.get()).attempt == 1


async def test_the_record_names_the_class_and_the_rule(app: Benbi) -> None:
    """So that nobody has to guess why a job was, or was not, tried again."""

    @app.task
    async def buy() -> None:
        raise Permanent("the shop has closed for ever")

    async with app.working():
        job = await buy.enqueue()
        with pytest.raises(JobFailed, match="closed for ever") as failed:
            await job.result()
    error = failed.value.job.error
    assert error is not None
    assert (error.type, error.kind, error.rule) == (
        *("Permanent", "permanent"),
        "Permanent: the task said so",
    )


async def test_what_is_used_up_has_failed(app: Benbi) -> None:
    """``retry=`` counts the attempts in all; each failure is told."""

    @app.task(retry=Retry(attempts=2, first=0.01))
    async def fetch() -> None:
        raise TimeoutError

    async with app.working():
        job = await fetch.enqueue()
        with pytest.raises(JobFailed):
            await job.result()
    assert (await job.get()).reason == "attempts_used"
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "started", "retrying", "pending", "started", "failed"),
    ]


async def test_the_other_side_may_say_how_long_to_wait(app: Benbi) -> None:
    """``Retry-After`` of an HTTP answer is obeyed; ``Transient`` says it in your own words."""

    @app.task
    async def fetch() -> None:
        raise Transient("too many requests", retry_after=600)

    async with app.working():
        job = await fetch.enqueue()
        record = await state_reached(app, job.id, "retrying")
    assert (record.run_at - record.created_at).total_seconds() >= 600


async def test_a_strict_task_retries_only_what_is_known_to_help(app: Benbi) -> None:
    """An error that no rule knows is retried, unless the policy says ``unknown=False``."""

    @app.task(retry=Retry(attempts=3, first=0.01, unknown=False))
    async def strange() -> None:
        raise RuntimeError("who knows")

    async with app.working():
        job = await strange.enqueue()
        with pytest.raises(JobFailed):
            await job.result()
    assert (await job.get()).attempt == 1
