"""Everything at once, in one process: workers come and go, are buried alive, find the database
locked; people cancel, answer and retry. Afterwards every job ends, and its log tells every move."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from benbi import Benbi, Context, NotPermitted, Retry, Snooze, SyncContext, Transient
from benbi.errors import AnswerRefused
from benbi.job import Question
from benbi.store import workers
from benbi.store.database import Transaction
from tests.support import shadow
from tests.support.foreign import write_lock

SECONDS = 4.0
SOAK_SECONDS = 30.0
AGAIN = Retry(attempts=4, first=0.01, jitter=0)
# Jobs that lost a worker run one at a time: many of them would take their time to end.
BURIALS = 4


def app_on(path: Path, choice: random.Random) -> Benbi:
    """An app whose tasks behave in every way there is."""
    app = Benbi(str(path), heartbeat_timeout=1.5, slots=8, durability="normal")

    async def effect(number: int) -> int:
        await asyncio.sleep(choice.random() * 0.05)
        if choice.random() < 0.1:
            raise Transient("a step fails")
        return number

    def in_thread(number: int) -> int:
        time.sleep(choice.random() * 0.05)
        return number

    @app.task(retry=AGAIN, grace=0.5, timeout=3, max_losses=1000)
    async def steps(ctx: Context) -> None:
        for number in range(3):
            await ctx.step(effect, retry=AGAIN)(number)
            await ctx.progress(number, 3, f"step {number}")
        match choice.randrange(8):
            case 0:
                await ctx.sleep(0.05)
            case 1:
                raise Transient("the body fails")
            case 2 if ctx.attempt < 5:
                raise Snooze(0.05)
            case _:
                pass

    @app.task(retry=AGAIN, grace=0.5, timeout=2, max_losses=1000)
    def blocks(ctx: SyncContext) -> None:
        for number in range(3):
            ctx.step(in_thread)(number)
            ctx.partial(number)

    @app.task(retry=AGAIN, grace=0.3, max_losses=1000)
    async def asks(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step(effect, key="beside")(1))
            group.create_task(ctx.ask("Name?", str, key="name"))
            group.create_task(ctx.ask("Size?", int, key="size", timeout=0.5, default=3))

    @app.task(retry=1, grace=0.1, timeout=0.2, max_losses=1000)
    async def deaf(ctx: Context) -> None:
        over = time.monotonic() + 0.5
        while time.monotonic() < over:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.5)
        await ctx.partial("too late")

    @app.task(retry=AGAIN, grace=0.2, max_losses=1000)
    async def leaves(ctx: Context) -> None:
        left = asyncio.ensure_future(ctx.step(effect)(1))
        left.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.sleep(choice.random() * 0.05)

    return app


async def work(app: Benbi, over: threading.Event, choice: random.Random) -> None:
    """One worker after the other: drained with and without grace, or canceled."""
    while not over.is_set():
        stop = asyncio.Event()
        worker = asyncio.create_task(app.work(stop=stop, grace=choice.choice([0.0, 0.2, 1.0])))
        await asyncio.sleep(choice.uniform(0.3, 1.5))
        if choice.random() < 0.2:
            worker.cancel()
        stop.set()
        with suppress(asyncio.CancelledError):
            await worker


def answer_to(question: Question) -> object:
    return "Mai" if question.key == "name" else 5


async def answer_all(app: Benbi) -> None:
    for job in await app.jobs(state="input_required", limit=20):
        for question in job.questions:
            with suppress(AnswerRefused):
                await app.answer(job.id, answer_to(question), question=question.key)


async def meddle(app: Benbi, path: Path, over: threading.Event, choice: random.Random) -> None:
    """Enqueues, and does to jobs and workers what people and fate do."""
    ids: list[str] = []
    burials = 0

    def bury_alive(tx: Transaction) -> None:
        beats = workers.beats(tx)
        if beats:
            worker = choice.choice(list(beats))
            workers.bury(tx, worker, beats[worker])

    def hold_lock(seconds: float) -> None:
        with write_lock(path):
            time.sleep(seconds)

    while not over.is_set():
        await asyncio.sleep(choice.random() * 0.02)
        act = choice.random()
        with suppress(NotPermitted):
            if act < 0.4 or not ids:
                ids.append((await app.tasks[choice.choice(list(app.tasks))].enqueue()).id)
            elif act < 0.5:
                await app.cancel(choice.choice(ids))
            elif act < 0.6:
                await app.retry(choice.choice(ids), fresh=choice.random() < 0.5)
            elif act < 0.9:
                await answer_all(app)
            elif act < 0.93 and burials < BURIALS:
                burials += 1
                await app.store.write(bury_alive)
            elif act > 0.99:
                await asyncio.to_thread(hold_lock, choice.random() * 0.5)


async def all_ended(app: Benbi) -> None:
    stop = asyncio.Event()
    worker = asyncio.create_task(app.work(stop=stop, slots=30))
    async with asyncio.timeout(40):
        while live := [job for job in await app.jobs(limit=100_000) if not job.final]:
            await answer_all(app)
            await asyncio.sleep(0.05)
    assert not live
    stop.set()
    await worker


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("seed", "seconds"),
    [
        (1, SECONDS),
        *(pytest.param(seed, SOAK_SECONDS, marks=pytest.mark.soak) for seed in range(2, 6)),
    ],
)
def test_whatever_happens_every_job_ends_and_every_move_is_told(
    seed: int, seconds: float, tmp_path: Path
) -> None:
    path, choice, over = tmp_path / "jobs.db", random.Random(seed), threading.Event()

    async def elsewhere() -> None:
        async with app_on(path, choice) as app:
            await work(app, over, choice)

    async def here() -> None:
        async with app_on(path, choice) as app:
            shadow.watch(path)
            thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
            thread.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(work(app, over, choice))
                for _ in range(3):
                    group.create_task(meddle(app, path, over, choice))
                await asyncio.sleep(seconds)
                over.set()
            await asyncio.to_thread(thread.join)
            await all_ended(app)

    asyncio.run(here())
    assert shadow.disagreements(path) == []
    connection = sqlite3.connect(path)
    ((jobs, odd),) = connection.execute(
        "SELECT count(*), sum(reason IN ('unstorable', 'fault')) FROM benbi_jobs"
    ).fetchall()
    assert jobs > 50 and odd in (0, None)
    assert connection.execute("SELECT count(*) FROM benbi_workers").fetchone() == (0,)
    connection.close()
