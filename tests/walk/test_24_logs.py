"""Chapter 24. What is logged inside a job, by whichever logger, is kept with the job."""

from __future__ import annotations

import logging

from benbi import Benbi, Context, JobHandle, Retry, Transient

log = logging.getLogger("shop.orders")


async def lines_of(app: Benbi, job: JobHandle[None], attempt: int | None = None) -> list[str]:
    return [line.message for line in await app.logs(job.id, attempt=attempt)]


async def test_the_log_of_a_job(app: Benbi) -> None:
    """The standard library's logging; nothing of benbi is needed to write a line."""

    @app.task
    async def order(number: int) -> None:
        log.warning("order %d is late", number)

    @app.task
    def pack(number: int) -> None:
        log.warning("packing %d", number)

    async with app.working():
        late, packed = await order.enqueue(17), await pack.enqueue(18)
        await late.result()
        await packed.result()
    assert await lines_of(app, late) == ["order 17 is late"]
    (line,) = await app.logs(packed.id)
    assert (line.number, line.attempt, line.level) == (1, 1, "WARNING")
    assert (line.logger, line.message) == ("shop.orders", "packing 18")


async def test_each_attempt_has_its_own(app: Benbi) -> None:
    """Without a number it is the newest attempt that logged anything."""

    @app.task(retry=Retry(2, first=0.01))
    async def order(ctx: Context) -> None:
        ctx.log.warning("attempt %d", ctx.attempt)
        if ctx.attempt == 1:
            raise Transient("busy")

    async with app.working():
        job = await order.enqueue()
        await job.result()
    assert await lines_of(app, job) == ["attempt 2"]
    assert await lines_of(app, job, attempt=1) == ["attempt 1"]


async def test_records_carry_job_task_and_attempt(app: Benbi) -> None:
    """For the handlers and formats that you have already."""
    seen: list[str] = []

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(self.format(record))

    handler = Seen()
    handler.setFormatter(logging.Formatter("%(task)s %(attempt)s %(job)s %(message)s"))
    log.addHandler(handler)
    try:

        @app.task
        async def order() -> None:
            log.warning("late")

        async with app.working():
            job = await order.enqueue()
            await job.result()
    finally:
        log.removeHandler(handler)
    assert seen == [f"order 1 {job.id} late"]
