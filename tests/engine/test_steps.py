"""Steps at awkward moments: what was done is recorded, and a recorded step is known again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context, JobFailed, Retry, SyncContext, Transient
from benbi.store.database import Transaction
from tests.support import wait_until_async
from tests.support.foreign import write_lock
from tests.support.working import state_reached, working

SOON = Retry(attempts=3, first=0.01, jitter=0)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


# Between effect and record.


async def test_a_time_limit_of_the_task_does_not_cut_a_step_off_from_its_record(
    app: Benbi, tmp_path: Path
) -> None:
    effects: list[int] = []
    reached, locked = asyncio.Event(), asyncio.Event()

    async def charge() -> int:
        reached.set()
        await locked.wait()
        effects.append(1)
        return 1

    @app.task
    async def other() -> None: ...

    @app.task(retry=SOON)
    async def pay(ctx: Context) -> int:
        if ctx.attempt == 1:
            try:
                async with asyncio.timeout(0.2):
                    await ctx.step(charge)()
            except TimeoutError:
                raise Transient("once more") from None
        return await ctx.step(charge)()

    async with working(app):
        job = await pay.enqueue()
        await reached.wait()
        with write_lock(tmp_path / "jobs.db"):
            # The writer waits with somebody else's write: the step's own has not been taken.
            first = asyncio.create_task(other.enqueue())
            await wait_until_async(lambda: app.store.stalled() is not None)
            locked.set()
            await asyncio.sleep(0.4)
        await first
        assert await job.result(10) == 1
    assert effects == [1]


async def test_a_canceled_step_has_unwound_before_its_job_ends(app: Benbi) -> None:
    begun = asyncio.Event()
    order: list[str] = []

    async def careful() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            order.append("step")

    @app.task
    async def work(ctx: Context) -> None:
        try:
            await ctx.step(careful)()
        finally:
            order.append("task")

    async with working(app):
        job = await work.enqueue()
        await begun.wait()
        await job.cancel()
        await state_reached(app, job.id, "canceled")
    assert order == ["step", "task"]


def let_grow(tx: Transaction, pages: int | None) -> None:
    """The database may grow by so many pages; None: as it likes. Its disk is full otherwise."""
    cursor = tx._cursor  # type: ignore[attr-defined]
    ((count,),) = cursor.execute("PRAGMA page_count").fetchall()
    most = 1 << 30 if pages is None else count + pages
    cursor.execute(f"PRAGMA max_page_count = {most}").fetchall()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_full_disk_does_not_repeat_a_step_that_was_done(app: Benbi, kind: str) -> None:
    effects: list[int] = []

    def large() -> str:
        effects.append(1)
        return "x" * 500_000

    async def with_context(ctx: Context) -> int:
        return len(await ctx.step(large)())

    def in_thread(ctx: SyncContext) -> int:
        return len(ctx.step(large)())

    task: Any = app.task(name="work", retry=1)(with_context if kind == "async" else in_thread)
    async with working(app):
        await app.store.write(let_grow, 40)
        job = await task.enqueue()
        await wait_until_async(lambda: effects)
        await asyncio.sleep(0.3)
        assert (await job.get()).state == "running", "it waits for room"
        await app.store.write(let_grow, None)
        assert await job.result(10) == 500_000
    assert effects == [1]


async def test_a_step_that_the_task_did_not_wait_for_does_not_undo_its_end(
    app: Benbi, tmp_path: Path
) -> None:
    """The finish is the claim's last write, whatever the body left behind."""
    attempts: list[int] = []
    left: list[asyncio.Future[Any]] = []
    go_on = asyncio.Event()

    async def slow() -> int:
        await go_on.wait()
        return 1

    @app.task
    async def other() -> None: ...

    @app.task
    async def hasty(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        left.append(asyncio.ensure_future(ctx.step(slow)()))
        await locked.wait()
        return "done"

    locked = asyncio.Event()
    async with working(app):
        job = await hasty.enqueue()
        await wait_until_async(lambda: attempts)
        with write_lock(tmp_path / "jobs.db"):
            first = asyncio.create_task(other.enqueue())
            await wait_until_async(lambda: app.store.stalled() is not None)
            locked.set()
            # The finish waits for the writer; now the step comes after it.
            await wait_until_async(lambda: app.store._batcher._items >= 2)
            go_on.set()
            await asyncio.wait(left, timeout=0.3)
        await first
        assert await job.result(10) == "done"
        await asyncio.gather(*left, return_exceptions=True)
    assert attempts == [1]
    assert [event.type for event in await app.events(job.id)] == ["created", "started", "completed"]


# Which use of a name it is.


async def test_a_step_within_a_step_is_no_use_of_the_name_outside(app: Benbi) -> None:
    """The outer one is recorded and not run again: what it called must not be missed."""
    loaded: list[int] = []

    async def load(number: int) -> int:
        loaded.append(number)
        return number

    @app.task(retry=SOON)
    async def nested(ctx: Context) -> list[int]:
        async def outer() -> int:
            return await ctx.step(load)(1)

        both = [await ctx.step(outer)(), await ctx.step(load)(2)]
        if ctx.attempt == 1:
            raise Transient("once more")
        return both

    async with working(app):
        assert await (await nested.enqueue()).result(10) == [1, 2]
    assert loaded == [1, 2]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_step_that_is_tried_again_finds_the_steps_within_it(app: Benbi, kind: str) -> None:
    loaded: list[int] = []
    tries: list[int] = []

    def load(number: int) -> int:
        loaded.append(number)
        return number

    def fail_once(value: int) -> int:
        tries.append(value)
        if len(tries) == 1:
            raise Transient("not yet")
        return value

    async def with_context(ctx: Context) -> int:
        async def outer() -> int:
            return fail_once(await ctx.step(load)(1) + await ctx.step(load)(2))

        return await ctx.step(outer, retry=SOON)()

    def in_thread(ctx: SyncContext) -> int:
        def outer() -> int:
            return fail_once(ctx.step(load)(1) + ctx.step(load)(2))

        return ctx.step(outer, retry=SOON)()

    task: Any = app.task(name="work")(with_context if kind == "async" else in_thread)
    async with working(app):
        assert await (await task.enqueue()).result(10) == 3
    assert loaded == [1, 2]


async def test_questions_within_a_step_do_not_count_outside(app: Benbi) -> None:
    @app.task
    async def asks(ctx: Context) -> list[str]:
        async def outer() -> str:
            return await ctx.ask("Inside?")

        return [await ctx.step(outer)(), await ctx.ask("Outside?")]

    async with working(app):
        job = await asks.enqueue()
        for answer in ("in", "out"):
            await state_reached(app, job.id, "input_required")
            await job.answer(answer)
        assert await job.result(10) == ["in", "out"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_step_that_catches_its_suspension_is_not_done(app: Benbi, kind: str) -> None:
    async def with_context(ctx: Context) -> str:
        async def outer() -> str:
            try:
                return await ctx.ask("Colour?")
            except BaseException:
                return "caught"

        return await ctx.step(outer)()

    def in_thread(ctx: SyncContext) -> str:
        def outer() -> str:
            try:
                return ctx.ask("Colour?")
            except BaseException:
                return "caught"

        return ctx.step(outer)()

    task: Any = app.task(name="work")(with_context if kind == "async" else in_thread)
    async with working(app):
        job = await task.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("red")
        assert await job.result(10) == "red"


async def test_a_key_that_comes_twice_is_one_step(app: Benbi) -> None:
    bodies: list[int] = []

    async def load(number: int) -> int:
        bodies.append(number)
        return number

    @app.task(retry=1)
    async def twice(ctx: Context, second: int) -> list[int]:
        return [await ctx.step(load, key="a")(1), await ctx.step(load, key="a")(second)]

    async with working(app):
        assert await (await twice.enqueue(1)).result(10) == [1, 1]
        assert bodies == [1]
        with pytest.raises(JobFailed, match="recorded with other arguments"):
            await (await twice.enqueue(2)).result(10)


async def test_a_key_can_not_be_under_way_twice(app: Benbi) -> None:
    async def load(number: int) -> int:
        await asyncio.sleep(0.01)
        return number

    @app.task
    async def both(ctx: Context) -> list[int]:
        return await asyncio.gather(*(ctx.step(load, key="a")(1) for _ in range(2)))

    async with working(app):
        with pytest.raises(JobFailed, match="with key 'a' is under way already"):
            await (await both.enqueue()).result(10)


async def test_a_keyed_step_that_ends_does_not_open_its_name_to_others(app: Benbi) -> None:
    done = asyncio.Event()

    async def load(event: str) -> str:
        if event == "slow":
            await asyncio.sleep(0.2)
        return event

    @app.task
    async def three(ctx: Context) -> list[str]:
        async def keyed_then_plain() -> str:
            await ctx.step(load, key="k")("quick")
            done.set()
            return await ctx.step(load)("quick")

        return await asyncio.gather(ctx.step(load)("slow"), keyed_then_plain())

    async with working(app):
        with pytest.raises(JobFailed, match="tell them apart with key="):
            await (await three.enqueue()).result(10)
    assert done.is_set()


async def test_a_key_is_never_taken_for_a_count(app: Benbi) -> None:
    async def load(number: int) -> int:
        return number

    @app.task(retry=SOON)
    async def mixed(ctx: Context) -> list[int]:
        values = [await ctx.step(load)(1), await ctx.step(load, key="#1")(2)]
        if ctx.attempt == 1:
            raise Transient("once more")
        return values

    async with working(app):
        assert await (await mixed.enqueue()).result(10) == [1, 2]


# What functions may be and do.


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_step_that_quits_does_not_take_the_worker_with_it(
    app: Benbi, error: BaseException, kind: str
) -> None:
    async def quits() -> None:
        raise error

    def quits_in_thread() -> None:
        raise error

    @app.task(retry=1)
    async def work(ctx: Context) -> None:
        await ctx.step(quits if kind == "coroutine" else quits_in_thread, name="quits")()

    @app.task
    async def fine() -> int:
        return 1

    async with working(app):
        with pytest.raises(JobFailed, match=type(error).__name__):
            await (await work.enqueue()).result(10)
        assert await (await fine.enqueue()).result(10) == 1


@dataclass
class Add:
    """A callable without a hash."""

    by: int

    def __call__(self, number: int) -> int:
        return number + self.by


async def test_any_callable_can_be_a_step(app: Benbi) -> None:
    @app.task
    async def work(ctx: Context) -> list[int]:
        return [await ctx.step(Add(2), name="add")(1), await ctx.step(int("7").__add__)(1)]

    async with working(app):
        assert await (await work.enqueue()).result(10) == [3, 8]


async def test_a_step_made_in_its_job_is_not_kept_with_all_it_closes_over(app: Benbi) -> None:
    class Data: ...

    made: list[weakref.ref[Data]] = []

    @app.task
    async def work(ctx: Context) -> bool:
        data = Data()
        made.append(weakref.ref(data))

        async def uses_it() -> bool:
            return data is not None

        return await ctx.step(uses_it)()

    async with working(app):
        for _ in range(5):
            assert await (await work.enqueue()).result(10)

        def kept() -> bool:
            gc.collect()
            return any(one() is not None for one in made)

        await wait_until_async(lambda: not kept())


async def test_a_sync_task_asks_from_threads_of_its_own(app: Benbi) -> None:
    @app.task
    def asks(ctx: SyncContext) -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda key: ctx.ask(f"{key}?", key=key), ["a", "b"]))

    async with working(app):
        job = await asks.enqueue()
        for key in ("a", "b"):
            await state_reached(app, job.id, "input_required")
            if key in [question.key for question in (await job.get()).questions]:
                await job.answer(key.upper(), question=key)
        assert await job.result(10) == ["A", "B"]
