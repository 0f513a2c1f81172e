"""What must be on disk before what: nothing goes on, frees or tells before its commit."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from benbi import Benbi, Context, Retry
from benbi.engine.attempt import Attempt
from benbi.engine.journal import Journal
from benbi.outcome import Completed, Released
from benbi.store.batcher import Ticket
from benbi.store.database import Transaction
from benbi.store.lifecycle import Told, Write
from benbi.store.recorded import NOTHING_RECORDED
from benbi.store.sqlite import SqliteDatabase
from benbi.store.store import Store
from tests.support import shadow, wait_until_async
from tests.support.foreign import write_lock
from tests.support.rig import Clock, Rig
from tests.support.working import state_reached, working

# How long a test looks whether something happens that must not.
LOOK = 0.3


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(path)) as app:
        yield app


async def happens(event: asyncio.Event) -> bool:
    """Does it within LOOK seconds?"""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), LOOK)
    return event.is_set()


@pytest.mark.parametrize("what", ["step", "partial"])
async def test_a_job_goes_on_only_after_its_record_is_durable(
    app: Benbi, path: Path, what: str
) -> None:
    reached, locked, went_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def effect() -> int:
        reached.set()
        await locked.wait()
        return 1

    @app.task
    async def careful(ctx: Context) -> None:
        if what == "partial":
            await effect()
            await ctx.partial(1)
        else:
            await ctx.step(effect)()
        went_on.set()

    async with working(app):
        job = await careful.enqueue()
        await reached.wait()
        with write_lock(path):
            locked.set()
            assert not await happens(went_on), f"the {what} can not have been recorded yet"
        await job.result(10)


async def test_enqueue_returns_only_after_the_commit(app: Benbi, path: Path) -> None:
    @app.task
    async def work() -> None: ...

    accepted = asyncio.Event()

    async def put() -> str:
        handle = await work.enqueue()
        accepted.set()
        return handle.id

    with write_lock(path):
        putting = asyncio.create_task(put())
        assert not await happens(accepted)
    assert (await app.get(await putting)).state == "pending"


def let_grow(tx: Transaction, pages: int | None) -> None:
    """The database may grow by so many pages; None: as it likes. Its disk is full otherwise."""
    cursor = tx._cursor  # type: ignore[attr-defined]
    ((count,),) = cursor.execute("PRAGMA page_count").fetchall()
    most = 1 << 30 if pages is None else count + pages
    cursor.execute(f"PRAGMA max_page_count = {most}").fetchall()


async def test_a_slot_is_free_only_after_the_finish_is_durable(
    app: Benbi, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk has no room for the result: the worker keeps it and takes nothing else on."""
    started, next_started = asyncio.Event(), asyncio.Event()
    full = asyncio.Event()

    @app.task
    async def large() -> str:
        started.set()
        await full.wait()
        return "x" * 500_000

    @app.task
    async def small() -> None:
        next_started.set()

    async with working(app, slots=1):
        first = await large.enqueue()
        await started.wait()
        second = await small.enqueue()
        await app.store.write(let_grow, 40)
        full.set()
        with caplog.at_level(logging.ERROR, "benbi"):
            await wait_until_async(lambda: "finishes can not be stored" in caplog.text)
        assert not await happens(next_started), "the slot still holds a finish"
        assert (await first.get()).state == "running"
        await app.store.write(let_grow, None)
        assert len(await first.result(20)) == 500_000
        await second.result(20)
    assert (await first.get()).attempt == 1, "nothing ran twice"


async def test_a_hint_is_given_only_after_the_commit(path: Path) -> None:
    store = Store(SqliteDatabase(str(path)))
    rig_rows: list[int] = []

    def look() -> None:
        connection = sqlite3.connect(path)
        ((count,),) = connection.execute("SELECT count(*) FROM benbi_jobs").fetchall()
        connection.close()
        rig_rows.append(count)

    store.open()
    store.on_commit.append(look)
    rig = Rig(store.database, Clock())
    store.enqueue_sync([rig.new()])
    store.enqueue_sync([rig.new(key="k")])
    rig.store.close()
    store.close()
    assert rig_rows == [1, 2], "whoever is told finds what it was told of"


class Listening(Store):
    """A store that remembers what was handed to it."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self.heard: list[Write] = []

    def record_many(self, tickets: Sequence[Ticket]) -> None:
        self.heard += [ticket.item for ticket in tickets]
        super().record_many(tickets)


async def test_a_claim_comes_to_exactly_one_outcome(path: Path) -> None:
    """Drain and completion race in memory: the store hears of one of them."""
    database = SqliteDatabase(str(path))
    rig = Rig(database, Clock())
    claim = rig.running()
    store = Listening(database)
    attempt = Attempt(
        claim,
        store,
        NOTHING_RECORDED,
        max_payload=1024,
        loop=asyncio.get_running_loop(),
        interrupt=lambda n, reason: None,
    )
    store.open()
    states: list[str | None] = []
    loop = asyncio.get_running_loop()
    journal = Journal(store, loop, lambda _, state: states.append(state))
    journal.finish(attempt, Completed("1"), Retry())
    journal.finish(attempt, Released("drain"), Retry())
    await wait_until_async(lambda: states)
    store.close()
    await asyncio.sleep(0)
    assert states == ["completed"]
    assert [write.decision.state for write in store.heard if write.decision] == ["completed"]
    store.close()
    rig.store.close()


async def test_a_finish_under_way_is_not_withdrawn_by_a_drain(app: Benbi, path: Path) -> None:
    """What was done and only waits for its commit is not done a second time elsewhere."""
    reached: list[int] = []
    all_reached, locked = asyncio.Event(), asyncio.Event()

    @app.task(grace=0.05)
    async def work(number: int) -> int:
        reached.append(number)
        if len(reached) == 4:
            all_reached.set()
        await locked.wait()
        for _ in range(number):
            await asyncio.sleep(0.01)
        return number

    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, grace=0.0))
    jobs = [await work.enqueue(number) for number in range(4)]
    await all_reached.wait()
    with write_lock(path):
        locked.set()
        # The first finish is with the writer, which waits for the lock; the others wait for it.
        await wait_until_async(lambda: app.store._batcher._items >= 4)
        stop.set()
        await asyncio.sleep(LOOK)
    await worker
    for job in jobs:
        record = await state_reached(app, job.id, "completed", 1)
        assert record.attempt == 1


async def test_no_commit_shows_a_change_without_its_event(path: Path) -> None:
    """Looked at after each single commit: whoever reads then finds log and record at one."""
    rig = Rig(SqliteDatabase(str(path)), Clock())
    shadow.watch(path)
    found: list[list[str]] = []
    rig.store.on_commit.append(lambda: found.append(shadow.disagreements(path)))
    worker = rig.worker()
    claim = rig.running(worker)
    rig.write(claim, Told("partial", None, "1"))
    rig.cancel(claim.job_id)
    rig.bury(worker)
    rig.again(claim.job_id)
    rig.complete(rig.claim_one())
    rig.store.close()
    assert len(found) >= 8
    assert found == [[]] * len(found)
