"""Cancel and retry of many jobs at once, as an app with workers gives them."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, ConfigurationError, Refused
from benbi.bulk import Bulk
from benbi.job import Event
from benbi.store import bulk, views
from tests.support.working import state_reached, working

MANY = 3_000


def shop(path: Path | str, **settings: Any) -> Benbi:
    return Benbi(str(path), durability="normal", **settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def log_of(app: Benbi) -> list[Event]:
    """The events of all jobs, in the order of their commits."""
    return await app.store.read(views.events_since, None, 0, 1_000_000)


async def test_thousands_are_canceled_while_others_come_and_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_more = asyncio.Event()
    async with shop(path) as app:

        @app.task
        async def work() -> None:
            one_more.set()

        there = {job.id for job in await app.enqueue_many([work.call() for _ in range(MANY)])}
        new: set[str] = set()
        write = app.store.write

        async def between(move: Any, *args: Any, **kwargs: Any) -> Any:
            if move is bulk.cancel:
                one_more.clear()
                new.add((await work.enqueue()).id)
                await one_more.wait()
            return await write(move, *args, **kwargs)

        monkeypatch.setattr(app.store, "write", between)
        async with working(app):
            changed = await app.cancel_many(task="work", reason="closing down")
            for job in await app.jobs(limit=2 * MANY):
                while not job.final:
                    job = await app.wait_for_change(job.id, after=job.seq, timeout=10)
        canceled = Counter(
            event.job_id for event in await log_of(app) if event.reason == "closing down"
        )
        assert set(canceled.values()) == {1}, "nobody was canceled twice"
        assert changed == len(canceled)
        assert set(canceled) < there, "others ended by themselves, and no newcomer was touched"
        assert len(new) > 1
        ends = Counter(event.type for event in await log_of(app) if event.job_id in there)
        assert ends["canceled"] + ends["completed"] == MANY


@pytest.mark.parametrize("verb", ["cancel_many", "retry_many"])
def test_others_write_between_two_transactions(path: Path, verb: str) -> None:
    """Another connection takes the write lock after each commit of the bulk."""
    with shop(path) as app, shop(path) as other:

        @app.task
        async def work() -> None: ...

        app.enqueue_many_sync([work.call() for _ in range(1_000)])
        if verb == "retry_many":
            assert app.cancel_many_sync(task="work") == 1_000
        app.publish_sync()
        new: list[str] = []
        app.store.on_commit.append(lambda: new.append(other.enqueue_sync("work").id))
        assert getattr(app, f"{verb}_sync")(task="work") == 1_000
        app.store.on_commit.pop()
        assert len(new) == 5
        moved = "canceled" if verb == "cancel_many" else "pending"
        told = [
            "new" if event.job_id in new else event.type
            for event in app.store.read_sync(views.events_since, None, 0, 10_000)
        ]
        order = [type for type in told if type in ("new", moved)][-1_005:]
        assert order == [*[moved] * 200, "new"] * 5
        assert {app.get_sync(job_id).state for job_id in new} == {"pending"}


async def test_what_runs_is_asked_and_what_waits_for_it_is_told(path: Path) -> None:
    async with shop(path) as app:

        @app.task
        async def never_done() -> None:
            await asyncio.Event().wait()

        @app.task
        async def after_it() -> None: ...

        running = await never_done.enqueue()
        child = await after_it.options(after=[running]).enqueue()
        later = await never_done.options(delay="1h").enqueue()
        async with working(app):
            await state_reached(app, running.id, "running")
            assert await app.cancel_many(task="never_done", dry_run=True) == 2
            assert await app.cancel_many(task="never_done") == 2
            assert (await later.get()).state == "canceled"
            await state_reached(app, running.id, "canceled")
            assert (await state_reached(app, child.id, "failed")).reason == "upstream_failed"


async def test_retried_jobs_get_the_budgets_of_their_task(path: Path) -> None:
    """As one that is retried alone: those of the code, or else those that they had."""
    older, door, newer = shop(path), shop(path), shop(path)

    @older.task(name="work", retry=2, max_losses=2)
    async def before() -> None: ...

    @newer.task(name="work", retry=4, max_losses=6)
    async def now() -> None: ...

    async with older, door, newer:
        jobs = [await before.enqueue() for _ in range(3)]
        for app, budgets in ((door, (2, 2)), (newer, (4, 6))):
            assert await app.cancel_many(task="work") == 3
            await app.retry(jobs[0].id)
            assert await app.retry_many(state="canceled") == 2
            records = [await app.get(job.id) for job in jobs]
            assert {(job.max_attempts, job.max_losses) for job in records} == {budgets}


async def test_an_owner_reaches_their_own_jobs_only(path: Path) -> None:
    async with shop(path) as app:

        @app.task
        async def work() -> None: ...

        mine, theirs, nobodys = [
            await work.options(owner=owner).enqueue() for owner in ("ann", "bob", "")
        ]
        for verb, state in ((app.cancel_many, "canceled"), (app.retry_many, "pending")):
            assert await verb(owner="ann") == 1
            assert (await mine.get()).state == state
            assert [(await job.get()).seq for job in (theirs, nobodys)] == [1, 1]


async def test_all_jobs_are_no_choice(path: Path) -> None:
    async with shop(path) as app:
        for verb in (app.cancel_many, app.retry_many):
            with pytest.raises(Refused, match="owner=, state=, task= or queue="):
                await verb()


def test_each_has_its_blocking_twin(path: Path) -> None:
    names = [name for name, value in vars(Bulk).items() if inspect.iscoroutinefunction(value)]
    assert sorted(names) == ["cancel_many", "retry_many"]
    with shop(path) as app:

        @app.task
        async def work() -> None: ...

        job = work.enqueue_sync()

        async def asked(name: str) -> tuple[int, Any]:
            verb, twin = getattr(app, name), getattr(app, f"{name}_sync")
            assert inspect.signature(verb).parameters == inspect.signature(twin).parameters
            with pytest.raises(ConfigurationError, match=name):
                twin(task="work")
            return await verb(task="work", dry_run=True), twin

        for name, state in (("cancel_many", "canceled"), ("retry_many", "pending")):
            count, twin = asyncio.run(asked(name))
            assert twin(task="work", dry_run=True) == twin(task="work") == count == 1
            assert job.get_sync().state == state
            with pytest.raises(Refused):
                twin()
