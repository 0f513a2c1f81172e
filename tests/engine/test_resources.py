"""Resources: opened once by their first use, shared, closed after the drain, replaced in tests."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, BenbiError, Context, JobFailed, Retry, SyncContext
from benbi.engine import resources
from tests.support.working import state_reached, working

NOW = Retry(attempts=3, first=0)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


async def test_many_first_uses_share_one_opening(app: Benbi) -> None:
    opened: list[str] = []
    both_wait = asyncio.Event()

    @app.resource
    async def pool() -> AsyncIterator[dict[str, int]]:
        opened.append("pool")
        await both_wait.wait()
        yield {"size": 5}
        opened.append("closed")

    waiting: list[int] = []

    @app.task
    async def use(ctx: Context) -> int:
        waiting.append(1)
        if len(waiting) == 3:
            both_wait.set()
        return (await ctx.resource(pool))["size"]

    async with working(app):
        jobs = await app.enqueue_many([use.call() for _ in range(3)])
        assert [await job.result(10) for job in jobs] == [5, 5, 5]
        assert opened == ["pool"]
    assert opened == ["pool", "closed"]


def every_kind(app: Benbi, told: list[str]) -> list[Any]:
    """One resource of each kind; those that are closed tell it."""

    @app.resource
    async def agen() -> AsyncIterator[str]:
        yield "agen"
        told.append("agen")

    @app.resource
    def gen() -> Iterator[str]:
        assert threading.current_thread() is not threading.main_thread()
        yield "gen"
        told.append("gen")

    @app.resource
    @asynccontextmanager
    async def amanager() -> AsyncIterator[str]:
        yield "amanager"
        told.append("amanager")

    @app.resource
    @contextmanager
    def manager() -> Iterator[str]:
        yield "manager"
        told.append("manager")

    @app.resource
    async def coroutine() -> str:
        return "coroutine"

    @app.resource
    def plain() -> str:
        assert threading.current_thread() is not threading.main_thread()
        return "plain"

    return [agen, gen, amanager, manager, coroutine, plain]


async def test_each_kind_is_opened_and_closed_the_last_one_first(app: Benbi) -> None:
    told: list[str] = []
    kinds = every_kind(app, told)

    @app.task
    async def use(ctx: Context) -> list[str]:
        return [await ctx.resource(kind) for kind in kinds]

    @app.task
    def use_in_a_thread(ctx: SyncContext) -> list[str]:
        return [ctx.resource(kind) for kind in kinds]

    names = [kind.name for kind in kinds]
    async with working(app):
        assert await (await use.enqueue()).result(10) == names
        assert await (await use_in_a_thread.enqueue()).result(10) == names
    assert told == ["manager", "amanager", "gen", "agen"]


async def test_what_only_looks_like_a_context_manager_is_handed_over_as_it_is(app: Benbi) -> None:
    @app.resource
    async def limit() -> asyncio.Semaphore:
        return asyncio.Semaphore(1)

    @app.resource
    def lock() -> Any:
        return threading.Lock()

    @app.task
    async def use(ctx: Context) -> list[bool]:
        return [(await ctx.resource(limit)).locked(), (await ctx.resource(lock)).locked()]

    async with working(app):
        assert await (await use.enqueue()).result(10) == [False, False]


async def test_it_closes_after_the_last_body_has_ended(app: Benbi) -> None:
    told: list[str] = []
    began = asyncio.Event()

    @app.resource
    async def pool() -> AsyncIterator[str]:
        yield "pool"
        told.append("closed")

    @app.task
    async def use(ctx: Context) -> None:
        await ctx.resource(pool)
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.append("body ended")

    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.1))
    await use.enqueue()
    await began.wait()
    stop.set()
    await worker
    assert told == ["body ended", "closed"]


async def test_each_worker_opens_its_own(app: Benbi) -> None:
    opened: list[object] = []

    @app.resource
    async def pool() -> object:
        opened.append(object())
        return opened[-1]

    @app.task
    async def use(ctx: Context) -> None:
        await ctx.resource(pool)

    for _ in range(2):
        async with working(app):
            await (await use.enqueue()).result(10)
    assert len(opened) == 2


async def test_an_opening_that_fails_is_tried_again_by_the_next_use(app: Benbi) -> None:
    tries: list[int] = []

    @app.resource
    async def pool() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("not yet")
        return "open"

    @app.task(retry=NOW)
    async def use(ctx: Context) -> str:
        return await ctx.resource(pool)

    async with working(app):
        job = await use.enqueue()
        assert [event.type async for event in job.events()][-1] == "completed"
    retrying = [event for event in await app.events(job.id) if event.type == "retrying"]
    assert [event.data["kind"] for event in retrying] == ["transient"]
    assert len(tries) == 2


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), StopIteration()])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_whatever_an_opening_raises_fails_one_attempt(
    app: Benbi, error: BaseException, kind: str
) -> None:
    @app.resource
    async def pool() -> str:
        raise error

    @app.task(retry=1)
    async def in_loop(ctx: Context) -> str:
        return await ctx.resource(pool)

    @app.task(retry=1)
    def in_thread(ctx: SyncContext) -> str:
        return ctx.resource(pool)

    async with working(app):
        job = await (in_loop if kind == "async" else in_thread).enqueue()
        with pytest.raises(JobFailed, match="raised"):
            await job.result(10)


async def test_a_canceled_attempt_takes_no_opening_with_it(app: Benbi) -> None:
    go_on = asyncio.Event()
    opened: list[int] = []

    @app.resource
    async def pool() -> str:
        opened.append(1)
        await go_on.wait()
        return "open"

    @app.task
    async def use(ctx: Context) -> str:
        return await ctx.resource(pool)

    async with working(app):
        first = await use.enqueue()
        await state_reached(app, first.id, "running")
        second = await use.enqueue()
        await state_reached(app, second.id, "running")
        await first.cancel()
        await state_reached(app, first.id, "canceled")
        go_on.set()
        assert await second.result(10) == "open"
    assert len(opened) == 1


async def test_it_ends_in_the_asyncio_task_in_which_it_began(app: Benbi) -> None:
    """Cancel scopes and context variables want that; and no attempt's own are left in it."""
    seen = contextvars.ContextVar("seen", default="nothing")
    places: list[Any] = []

    @app.resource
    async def session() -> AsyncIterator[str]:
        places.append(asyncio.current_task())
        async with asyncio.TaskGroup():
            yield seen.get()
        places.append(asyncio.current_task())

    @app.task
    async def use(ctx: Context) -> str:
        seen.set("of the attempt")
        return await ctx.resource(session)

    async with working(app):
        assert await (await use.enqueue()).result(10) == "nothing"
    assert places[0] is places[1]


async def test_a_resource_takes_another_by_its_name(app: Benbi) -> None:
    told: list[str] = []

    @app.resource
    async def pool() -> AsyncIterator[str]:
        yield "pool"
        told.append("pool closed")

    @app.resource
    def cache(pool: str) -> Iterator[str]:
        yield f"cache over {pool}"
        told.append("cache closed")

    @app.task
    async def use(ctx: Context) -> str:
        return await ctx.resource(cache)

    async with working(app):
        assert await (await use.enqueue()).result(10) == "cache over pool"
        with app.override(pool, lambda: "a fake"):
            assert await (await use.enqueue()).result(10) == "cache over a fake"
        assert await (await use.enqueue()).result(10) == "cache over pool"
    assert told == ["cache closed", "cache closed", "pool closed"]


async def test_an_override_ends_with_its_block_and_nests(app: Benbi) -> None:
    @app.resource
    def mailer() -> str:
        return "real"

    @app.task
    async def use(ctx: Context) -> str:
        return await ctx.resource(mailer)

    async def used() -> str:
        return await (await use.enqueue()).result(10)

    async with working(app):
        with app.override(mailer, lambda: "outer"):
            with app.override(mailer, lambda: "inner"):
                assert await used() == "inner"
            assert await used() == "outer"
        assert await used() == "real"


async def test_a_closing_that_fails_or_hangs_stops_nothing(
    app: Benbi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resources, "CLOSE_SECONDS", 0.05)
    told: list[str] = []

    @app.resource
    async def good() -> AsyncIterator[None]:
        yield
        told.append("good")

    @app.resource
    async def bad() -> AsyncIterator[None]:
        yield
        raise OSError("gone")

    @app.resource
    async def slow() -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    @app.task
    async def use(ctx: Context) -> None:
        for resource in (good, bad, slow):
            await ctx.resource(resource)

    async with working(app):
        await (await use.enqueue()).result(10)
    assert told == ["good"]
    assert "resource bad: OSError('gone')" in caplog.text
    assert "resource slow did not close" in caplog.text


async def test_a_resource_that_breaks_while_it_is_open_is_opened_anew(app: Benbi) -> None:
    opened: list[asyncio.Task[Any] | None] = []

    @app.resource
    async def session() -> AsyncIterator[int]:
        opened.append(asyncio.current_task())
        yield len(opened)

    @app.task
    async def use(ctx: Context) -> int:
        return await ctx.resource(session)

    async with working(app):
        assert await (await use.enqueue()).result(10) == 1
        (keeper,) = opened
        assert keeper is not None
        keeper.cancel()
        await asyncio.wait([keeper])
        assert await (await use.enqueue()).result(10) == 2


def test_what_can_not_be_meant_is_refused() -> None:
    app = Benbi(":memory:")

    @app.resource
    def pool() -> int:
        return 1

    def needs(nothing: int) -> int:
        return nothing

    with pytest.raises(BenbiError, match="takes nothing"):
        app.resource(needs)
    with pytest.raises(BenbiError, match="two resources"):
        app.resource(pool.fn)
    with pytest.raises(BenbiError, match="lambda: value"), app.override(pool, 5):  # type: ignore[arg-type]
        pass
    with pytest.raises(BenbiError, match="is no resource"), app.override(needs, pool):  # type: ignore[arg-type]
        pass
    with (
        pytest.raises(BenbiError, match="which it replaces"),
        app.override(pool, lambda pool: pool),
    ):
        pass
    assert pool() == 1


async def test_a_function_that_is_no_resource_is_a_bug_that_says_so(app: Benbi) -> None:
    @app.task
    async def use(ctx: Context) -> None:
        await ctx.resource(dict)  # type: ignore[arg-type]

    async with working(app):
        with pytest.raises(JobFailed, match=r"put @app.resource above"):
            await (await use.enqueue()).result(10)
