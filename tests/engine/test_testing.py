"""What users test with: the app in memory on their own clock, and a task as a function."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from benbi import (
    Benbi,
    Context,
    JobFailed,
    Retry,
    Snooze,
    SyncContext,
    Transient,
    testing,
)
from benbi.engine import replay
from benbi.errors import Abandon, NotEncodable, Refused, StepNameRepeated

HOUR = timedelta(hours=1)


# How long a job runs beside looks that must not take it for the end.
LOOK = 0.3


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Benbi]:
    with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


@pytest.fixture
def app(real: Benbi) -> Iterator[testing.TestApp]:
    with testing.fresh(real) as app:
        yield app


# The app in memory.


async def test_what_is_enqueued_runs_when_the_test_says_so(app: testing.TestApp) -> None:
    ran: list[int] = []

    @app.task
    async def note(n: int) -> int:
        ran.append(n)
        if n < 3:
            await note.enqueue(n + 1)
        return n

    job = await note.enqueue(1)
    assert (await job.get()).state == "pending"
    await app.run_until_idle()
    assert ran == [1, 2, 3]
    assert await job.result() == 1


@pytest.mark.parametrize("catchup", ["latest", "all", "none"])
async def test_time_stops_at_each_tick_of_a_schedule(
    real: Benbi, catchup: Literal["latest", "all", "none"]
) -> None:
    """Whatever the rule for missed ticks: no worker was away, so none was missed."""
    start = datetime(2026, 1, 2, 8, 30, tzinfo=UTC)
    seen: list[tuple[datetime | None, datetime]] = []
    with testing.fresh(real, clock=testing.FakeClock(start)) as app:

        @app.cron("0 * * * *", catchup=catchup)
        @app.task
        async def hourly(ctx: Context) -> None:
            seen.append((ctx.scheduled_for, app.clock.now))
            await ctx.sleep("5m")

        @app.cron(every="2h", name="rare")
        @app.task
        async def rare() -> None: ...

        await app.advance("90m")
        assert [tick for tick, _ in seen] == [start + HOUR / 2] * 2 + [start + HOUR * 1.5]
        await app.advance("90m")
        await app.pause_schedule("hourly")
        await app.advance("4h")
        await app.resume_schedule("hourly")
        await app.advance("30m")
        ticks = [start + HOUR / 2 * number for number in (1, 3, 5, 15)]
        # Each runs at its tick, and again after its sleep.
        pairs = [(tick, tick + nap) for tick in ticks for nap in (HOUR * 0, HOUR / 12)]
        assert seen == pairs[:-1]
        assert len(app.enqueued(hourly)) == len(ticks)
        assert len(app.enqueued(rare)) == 4
    assert real.scheduler() is None, "what the test planned is forgotten with it"


async def test_it_is_not_idle_while_a_job_runs(app: testing.TestApp) -> None:
    """Nothing is pending, and the job that runs may still bring more."""
    ran: list[str] = []

    @app.task
    async def after() -> None:
        ran.append("after")

    @app.task
    async def slow() -> None:
        await asyncio.sleep(LOOK)
        await after.enqueue()

    await slow.enqueue()
    await app.run_until_idle()
    assert ran == ["after"]


def test_a_test_without_a_loop_has_the_twins(app: testing.TestApp) -> None:
    @app.task
    def double(n: int) -> int:
        return 2 * n

    job = double.enqueue_sync(4)
    later = double.options(delay="1h").enqueue_sync(5)
    app.run_until_idle_sync()
    assert job.result_sync() == 8
    app.advance_sync("1h")
    assert later.result_sync() == 10


async def test_the_clock_goes_from_one_due_moment_to_the_next(app: testing.TestApp) -> None:
    """A job sees the moment at which it was due, and what it puts off is due within the hour."""
    seen: list[timedelta] = []
    start = app.clock.now

    @app.task
    async def tick(ctx: Context, more: int) -> None:
        seen.append(await ctx.now() - start)
        if more:
            await tick.options(delay="20m").enqueue(more - 1)

    await tick.options(delay="20m").enqueue(5)
    await app.run_until_idle()
    assert seen == []
    await app.advance("1h")
    assert seen == [HOUR / 3, HOUR * 2 / 3, HOUR]
    assert app.clock.now == start + HOUR


async def test_retries_and_back_offs_of_steps_take_no_time(app: testing.TestApp) -> None:
    tries: list[str] = []

    def fetch() -> str:
        tries.append("step")
        if len(tries) < 3:
            raise Transient("away")
        return "page"

    @app.task(retry=Retry(3, first=600))
    async def load(ctx: Context) -> str:
        page = await ctx.step(fetch, retry=Retry(5, first=3))()
        if ctx.attempt < 5:
            tries.append("job")
            raise Transient("away again")
        return page

    job = await load.enqueue()
    await app.run_until_idle()
    assert (tries, (await job.get()).state) == (["step"], "scheduled")
    await app.advance("2h")
    assert await job.result() == "page"
    assert tries == ["step", "step", "step", "job", "job"]


async def test_a_question_stays_until_it_is_answered_or_over(app: testing.TestApp) -> None:
    @app.task
    async def asks(ctx: Context) -> str:
        return await ctx.ask("Who?", timeout="1h", default="nobody")

    job, silent = await asks.enqueue(), await asks.enqueue()
    await app.run_until_idle()
    assert [(await one.get()).state for one in (job, silent)] == ["input_required"] * 2
    await job.answer("Mai")
    await app.run_until_idle()
    assert await job.result() == "Mai"
    await app.advance("59m")
    assert (await silent.get()).state == "input_required"
    await app.advance("1m")
    assert await silent.result() == "nobody"


async def test_a_job_in_any_queue_runs(app: testing.TestApp) -> None:
    @app.task
    def where() -> str:
        return "here"

    job = await where.options(queue="of another fleet").enqueue()
    await app.run_until_idle()
    assert await job.result() == "here"


async def test_a_job_that_does_not_end_is_named(app: testing.TestApp) -> None:
    @app.task(grace=0.05)
    async def stuck() -> None:
        await asyncio.Event().wait()

    job = await stuck.enqueue()
    with pytest.raises(TimeoutError, match=rf"stuck \({job.id}, running\)"):
        await app.run_until_idle(timeout=0.2)


async def test_what_was_enqueued_is_answered_with_its_arguments(app: testing.TestApp) -> None:
    @app.task
    def mail(to: str, copies: int = 1, at: datetime | None = None) -> None: ...

    @app.task
    def other() -> None: ...

    noon = datetime(2026, 11, 30, 12, tzinfo=UTC)
    await mail.options(delay=60, owner="mai").enqueue("mai")
    await mail.enqueue("anh", copies=2, at=noon)
    await other.enqueue()

    first, second = app.enqueued(mail)
    assert first.arguments == {"to": "mai", "copies": 1, "at": None}
    assert (first.job.owner, first.job.state) == ("mai", "scheduled")
    assert second.arguments["at"] == noon
    assert app.enqueued(mail, "anh") == app.enqueued(mail, copies=2) == [second]
    assert testing.enqueued(mail, to="mai") == [first]
    assert app.enqueued(mail, "nobody") == []
    assert [found.job.task for found in app.enqueued()] == ["mail", "mail", "other"]
    assert len(app.enqueued("other")) == 1
    with pytest.raises(TypeError, match="mail takes to, copies, at"):
        app.enqueued(mail, too="mai")


async def test_an_override_reaches_the_worker_of_the_test(app: testing.TestApp) -> None:
    sent: list[str] = []

    @app.resource
    def mailer() -> list[str]:
        raise ConnectionError("no mail from tests")

    @app.task
    async def mail(ctx: Context, to: str) -> None:
        (await ctx.resource(mailer)).append(to)

    with app.override(mailer, lambda: sent):
        await mail.enqueue("mai")
        await app.run_until_idle()
    assert sent == ["mai"]


def test_the_app_is_as_it_was_afterwards(real: Benbi) -> None:
    @real.task
    def kept() -> None: ...

    kept.enqueue_sync()
    with testing.fresh(real) as app:
        assert app.jobs_sync() == []
        assert isinstance(app, Benbi)

        @app.task
        def forgotten() -> None: ...

        @app.around
        async def around(ctx: Context) -> AsyncIterator[None]:
            yield

        kept.enqueue_sync()
        assert len(app.enqueued()) == 1
        assert replay.WAIT_IN_PLACE_SECONDS == 0
        context = app.override(app.resource(forgotten.fn), forgotten.fn)
        context.__enter__()
    assert len(real.jobs_sync()) == 1
    assert list(real.tasks) == ["kept"]
    assert (real._arounds, real._overrides, real._resources) == ((), {}, {})
    assert replay.WAIT_IN_PLACE_SECONDS > 0
    with pytest.raises(TypeError, match="not under test"):
        testing.enqueued(kept)


def test_a_subclass_keeps_its_own_methods() -> None:
    class Shop(Benbi):
        def greet(self) -> str:
            return f"{len(self.tasks)} tasks"

    with testing.fresh(Shop("/nowhere/jobs.db")) as app:
        assert isinstance(app, Shop)
        assert app.greet() == "0 tasks"
        assert app.jobs_sync() == []


async def test_the_twins_are_refused_where_a_loop_runs(app: testing.TestApp) -> None:
    for blocking in (app.run_until_idle_sync, lambda: app.advance_sync("1h")):
        with pytest.raises(Exception, match="blocks the running event loop"):
            blocking()


def test_the_clock_never_goes_back() -> None:
    clock = testing.FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance("90m")
    assert clock.now == datetime(2026, 1, 1, 1, 30, tzinfo=UTC)
    clock.move_to(datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(ValueError, match="is over"):
        clock.move_to(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="time zone"):
        testing.FakeClock(datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="advance"):
        clock.advance("soon")


# Plain calls.


class Order:
    def __init__(self) -> None:
        self.app = Benbi(":memory:")
        self.charged: list[str] = []

        def charge(amount: int) -> str:
            self.charged.append(f"{amount}")
            return f"receipt over {amount}"

        @self.app.resource
        def mailer() -> list[str]:
            raise AssertionError("not in a plain call")

        @self.app.task
        async def order(ctx: Context, amount: int) -> str:
            await ctx.progress(1, 3, "charging")
            receipt = await ctx.step(charge)(amount)
            await ctx.partial({"receipt": receipt})
            if await ctx.ask("Wrap it?", bool, key="wrap"):
                size = await ctx.ask("Which size?", Literal["s", "m"], timeout=60, default="s")
                await ctx.sleep("1h")
                receipt += f", wrapped ({size})"
            (await ctx.resource(mailer)).append(receipt)
            await ctx.progress(3, 3, "done")
            return receipt

        @self.app.task
        def order_in_a_thread(ctx: SyncContext, amount: int) -> str:
            ctx.progress(1, 2)
            receipt = ctx.step(charge)(amount)
            ctx.partial(receipt)
            if ctx.ask("Wrap it?", bool):
                ctx.sleep(60)
            ctx.resource(mailer).append(receipt)
            return receipt

        self.mailer, self.order, self.order_in_a_thread = mailer, order, order_in_a_thread


@pytest.fixture
def shop() -> Order:
    return Order()


async def test_a_task_is_called_like_a_function(shop: Order) -> None:
    sent: list[str] = []
    ctx = testing.context(answers={"wrap": True}, resources={shop.mailer: sent}, owner="mai")
    before = ctx.clock.now
    assert await shop.order(ctx, 30) == "receipt over 30, wrapped (s)"
    assert sent == ["receipt over 30, wrapped (s)"]
    assert [(report.done, report.message) for report in ctx.reports] == [
        (1, "charging"),
        (3, "done"),
    ]
    assert ctx.partials == [{"receipt": "receipt over 30"}]
    assert ctx.steps == [("charge", "receipt over 30")]
    assert ctx.questions == [("Wrap it?", True), ("Which size?", "s")]
    assert (ctx.sleeps, ctx.clock.now - before) == ([3600.0], HOUR)
    assert (ctx.owner, ctx.attempt, ctx.task) == ("mai", 1, "task")


def test_a_sync_task_is_called_like_a_function(shop: Order) -> None:
    ctx = testing.sync_context(answers={"Wrap it?": True}, resources={shop.mailer: []})
    assert shop.order_in_a_thread(ctx, 30) == "receipt over 30"
    assert ctx.reports[0].total == 2
    assert (ctx.partials, ctx.sleeps) == (["receipt over 30"], [60.0])
    assert ctx.steps == [("charge", "receipt over 30")]


async def test_a_prepared_step_does_not_run(shop: Order) -> None:
    ctx = testing.context(
        answers={"wrap": False}, steps={"charge": "r"}, resources={shop.mailer: []}
    )
    assert await shop.order(ctx, 30) == "r"
    assert (shop.charged, ctx.steps) == ([], [("charge", "r")])
    refused = testing.context(steps={"charge": PermissionError("no credit")})
    with pytest.raises(PermissionError, match="no credit"):
        await shop.order(refused, 30)


async def test_what_was_not_prepared_is_named(shop: Order) -> None:
    with pytest.raises(LookupError, match="no answer to 'Wrap it"):
        await shop.order(testing.context(), 30)
    with pytest.raises(LookupError, match="no value for <Resource mailer>"):
        await shop.order(testing.context(answers={"wrap": False}), 30)


async def test_the_rules_of_recording_hold_in_a_plain_call() -> None:
    def unwritable() -> object:
        return object()

    async def slow() -> None:
        await asyncio.sleep(0)

    ctx = testing.context()
    with pytest.raises(NotEncodable):
        await ctx.step(unwritable)()
    with pytest.raises(NotEncodable, match="prepared answer"):
        await testing.context(answers={"How many?": "many"}).ask("How many?", int)
    with pytest.raises(StepNameRepeated):
        await asyncio.gather(ctx.step(slow)(), ctx.step(slow)())
    assert await ctx.now() == ctx.clock.now


@pytest.mark.parametrize("first", [0.5, 3600])
async def test_a_step_is_tried_again_at_once(first: float) -> None:
    tries: list[str] = []

    def fetch() -> str:
        tries.append("try")
        if len(tries) < 3:
            raise Transient("away")
        return "page"

    async with asyncio.timeout(5):
        ctx = testing.context()
        assert await ctx.step(fetch, retry=Retry(3, first=first))() == "page"
        assert (ctx.steps, len(tries)) == ([("fetch", "page")], 3)
        tries.clear()
        in_thread = testing.sync_context()
        assert in_thread.step(fetch, retry=Retry(3, first=first))() == "page"
        assert len(tries) == 3


async def test_a_canceled_context_ends_what_tells(shop: Order) -> None:
    ctx = testing.context()
    ctx.cancel()
    assert ctx.canceled
    with pytest.raises(Abandon):
        await shop.order(ctx, 30)


async def test_what_a_task_raises_to_say_what_should_happen_is_raised() -> None:
    async def later(ctx: Context) -> None:
        raise Snooze("10m")

    with pytest.raises(Snooze):
        await later(testing.context(attempt=2))


async def test_a_job_that_fails_says_so(app: testing.TestApp) -> None:
    @app.task
    def broken() -> None:
        raise TypeError("a bug")

    job = await broken.enqueue()
    await app.run_until_idle()
    with pytest.raises(JobFailed, match="a bug"):
        await job.result()


async def test_a_plain_call_keeps_what_the_task_saves() -> None:
    ctx = testing.context()
    saved = await ctx.save("report.txt", b"all of it")
    assert ctx.files == {"report.txt": b"all of it"}
    assert (saved.name, saved.size) == ("report.txt", 9)
    with pytest.raises(Refused, match="saved already"):
        await ctx.save("report.txt", b"another")


async def test_a_plain_call_has_no_other_jobs_to_wait_for() -> None:
    with pytest.raises(LookupError, match="benbi_app"):
        await testing.context().wait("0193a0c5-0000-7000-8000-000000000000")
    with pytest.raises(LookupError, match="benbi_app"):
        testing.sync_context().run([])
