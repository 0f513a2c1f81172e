"""What is logged inside a job: labelled, bounded, kept with the job, and never in its way."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context, JobNotFound, Retry, SyncContext, Transient
from benbi.engine import telling
from benbi.engine.joblog import KEPT_ATTEMPTS, KEPT_BYTES, PIECE_BYTES, Lines
from benbi.engine.upkeep import Upkeep
from benbi.job import LogLine
from benbi.store import workers
from benbi.store.database import Transaction
from tests.support import wait_until_async
from tests.support.working import state_reached, working

log = logging.getLogger("test.joblog")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """What a handler of the user's sees."""
    seen: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = seen.append  # type: ignore[method-assign]
    log.addHandler(handler)
    yield seen
    log.removeHandler(handler)


async def messages(app: Benbi, job_id: str, attempt: int | None = None) -> list[str]:
    return [line.message for line in await app.logs(job_id, attempt=attempt)]


async def run(app: Benbi, body: Any) -> str:
    """Runs ``body()`` as a job; its id."""

    @app.task(name="body")
    async def task() -> None:
        body()

    async with working(app):
        job = await task.enqueue()
        await job.result(10)
    return job.id


def stored(app: Benbi) -> list[tuple[int, int, str]]:
    """(attempt, piece, body) of every row."""

    def look(tx: Transaction) -> list[tuple[int, int, str]]:
        cursor = tx._cursor  # type: ignore[attr-defined]
        return cursor.execute("SELECT attempt, piece, body FROM benbi_logs").fetchall()

    return app.store.read_sync(look)


async def test_the_last_64_kib_are_kept(app: Benbi) -> None:
    def talk() -> None:
        for number in range(1, 4001):
            log.warning("line %d %s", number, "é" * 20)

    job_id = await run(app, talk)
    lines = await app.logs(job_id)
    assert lines[-1].number == 4000
    assert [line.number for line in lines] == list(range(lines[0].number, 4001))
    rows = await asyncio.to_thread(stored, app)
    size = sum(len(body.encode()) for _, _, body in rows)
    assert KEPT_BYTES - PIECE_BYTES < size <= KEPT_BYTES + PIECE_BYTES


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("test", logging.INFO, __file__, 1, message, (), None)


def test_what_waits_to_be_written_is_bounded() -> None:
    """As long as the database is away."""
    lines = Lines()
    for number in range(5000):
        lines.add(record(f"{number} " + "x" * 50))
    bodies = [values["body"] for statement, values in lines.taken() if statement == "log"]
    assert KEPT_BYTES - 200 < sum(map(len, bodies)) <= KEPT_BYTES
    assert "4999 x" in bodies[-1]


def test_what_is_written_in_many_turns_is_bounded_as_well() -> None:
    lines, pieces = Lines(), dict[int, str]()
    for turn in range(400):
        for number in range(7):
            lines.add(record(f"turn {turn} line {number} " + "x" * 100))
        for statement, values in lines.taken():
            if statement == "log":
                pieces[values["piece"]] = pieces.get(values["piece"], "") + values["body"]
            if statement == "trim_log":
                pieces = {piece: body for piece, body in pieces.items() if piece >= values["piece"]}
        size = sum(len(body) for body in pieces.values())
        assert size <= KEPT_BYTES + 2 * PIECE_BYTES
        assert all(len(body) < PIECE_BYTES + 1000 for body in pieces.values())
    assert size >= KEPT_BYTES
    assert "turn 399 line 6" in pieces[max(pieces)]


async def test_a_job_that_logs_nothing_stores_nothing(app: Benbi) -> None:
    job_id = await run(app, lambda: None)
    assert await app.logs(job_id) == []
    assert await asyncio.to_thread(stored, app) == []


async def test_lines_are_there_while_the_job_runs(app: Benbi) -> None:
    go_on = asyncio.Event()

    @app.task
    async def talk() -> None:
        log.warning("begun")
        await go_on.wait()
        log.warning("done")

    async with working(app):
        job = await talk.enqueue()
        await wait_until_async(lambda: app.logs(job.id))
        assert await messages(app, job.id) == ["begun"]
        assert not (await app.get(job.id)).final
        go_on.set()
        await job.result(10)
        assert await messages(app, job.id) == ["begun", "done"]


async def test_lines_are_no_events_and_are_written_at_most_once_a_second(
    app: Benbi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go with the other writes of the attempt, where it is time."""
    monkeypatch.setattr(telling, "FLUSH_SECONDS", 1000.0)
    seen: list[list[str]] = []

    @app.task
    async def talk(ctx: Context) -> None:
        for number in range(3):
            log.warning("line %d", number)
            await ctx.partial(number)
            seen.append(await messages(app, ctx.job_id))

    async with working(app):
        job = await talk.enqueue()
        await job.result(10)
    assert seen == [["line 0"]] * 3
    assert await messages(app, job.id) == ["line 0", "line 1", "line 2"], "its end writes the rest"
    assert [event.type for event in await app.events(job.id)] == [
        *("created", "started", "partial", "partial", "partial", "completed")
    ]


async def test_a_lost_claim_writes_no_lines(app: Benbi) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def talk(ctx: Context) -> None:
        if ctx.attempt == 1:
            begun.set()
            await go_on.wait()
            log.warning("stale")

    def take_away(tx: Transaction, worker: int) -> None:
        ((n, token, _),) = tx.rows("held", worker=worker)
        workers.release(tx, worker, [(n, token)], "unheld")

    async with working(app):
        job = await talk.enqueue()
        await begun.wait()
        (worker,) = app.workers_here
        await app.store.write(take_away, worker._n)
        go_on.set()
        await job.result(10)
    assert await asyncio.to_thread(stored, app) == []


async def test_threads_and_steps_belong_to_the_job(app: Benbi) -> None:
    def inside(where: str) -> None:
        log.warning("in %s", where)

    @app.task
    async def talk(ctx: Context) -> None:
        await asyncio.to_thread(inside, "a thread")
        await ctx.step(inside)("a step")
        await asyncio.create_task(asyncio.to_thread(inside, "a branch"))

    @app.task
    def plain(ctx: SyncContext) -> None:
        inside("a plain function")
        ctx.step(inside, timeout=10)("a step with a time limit")

    async with working(app):
        first, second = await talk.enqueue(), await plain.enqueue()
        await first.result(10)
        await second.result(10)
    assert await messages(app, first.id) == ["in a thread", "in a step", "in a branch"]
    assert await messages(app, second.id) == ["in a plain function", "in a step with a time limit"]


async def test_jobs_side_by_side_keep_their_lines_apart(app: Benbi) -> None:
    @app.task
    async def talk(number: int) -> None:
        for _ in range(3):
            log.warning("job %d", number)
            await asyncio.sleep(0)

    async with working(app):
        jobs = [await talk.enqueue(number) for number in range(5)]
        for job in jobs:
            await job.result(10)
    for number, job in enumerate(jobs):
        assert await messages(app, job.id) == [f"job {number}"] * 3


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (("%d", "no number"), "'%d' (TypeError in its arguments)"),
        (("a\0b\nc",), "a\0b\nc"),
        (("lone \ud800",), "lone ?"),
        (("x" * 100_000,), "x" * 16_384 + " …"),
    ],
    ids=["arguments that do not fit", "control characters", "a lone surrogate", "too long"],
)
async def test_no_line_fails_its_job(app: Benbi, args: Any, kept: str) -> None:
    raising, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        job_id = await run(app, lambda: log.warning(*args))
    finally:
        logging.raiseExceptions = raising
    assert await messages(app, job_id) == [kept]


async def test_a_traceback_is_part_of_its_line(app: Benbi) -> None:
    def fail() -> None:
        try:
            raise ValueError("out of stock")
        except ValueError:
            log.exception("no kite")

    (message,) = await messages(app, await run(app, fail))
    assert message.startswith("no kite\nTraceback") and message.endswith("ValueError: out of stock")


async def test_the_users_own_extra_goes_first(app: Benbi, records: list[logging.LogRecord]) -> None:
    """Labels that were there already would make logging refuse it with a KeyError."""
    job_id = await run(app, lambda: log.warning("x", extra={"task": "mine", "job": 7}))
    (found,) = records
    assert logging.Formatter("%(task)s %(job)s %(attempt)s").format(found) == "mine 7 1"
    assert await messages(app, job_id) == ["x"]


async def test_labels_can_be_asked_for_before_a_format(
    app: Benbi, records: list[logging.LogRecord]
) -> None:
    job_id = await run(app, lambda: log.warning("x"))
    (found,) = records
    assert (found.job, found.task, found.attempt) == (job_id, "body", 1)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        _ = found.other  # type: ignore[attr-defined]


async def test_records_can_be_copied_and_sent(app: Benbi, records: list[logging.LogRecord]) -> None:
    """As queue and socket handlers do."""
    job_id = await run(app, lambda: log.warning("x"))
    for sent in (copy.copy(records[0]), pickle.loads(pickle.dumps(records[0]))):
        assert type(sent) is logging.LogRecord
        assert logging.Formatter("%(job)s %(message)s").format(sent) == f"{job_id} x"


async def test_outside_jobs_records_are_as_they_were(
    app: Benbi, records: list[logging.LogRecord]
) -> None:
    await run(app, lambda: None)
    log.warning("outside")
    assert type(records[0]) is logging.LogRecord
    assert not hasattr(records[0], "job")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_factory_of_the_users_goes_on_working(
    app: Benbi, records: list[logging.LogRecord], when: str
) -> None:
    class Own(logging.LogRecord):
        pass

    before = logging.getLogRecordFactory()
    if when == "after":
        await run(app, lambda: None)
        wrapped = logging.getLogRecordFactory()

        def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
            made = wrapped(*args, **kwargs)
            made.own = True
            return made

        logging.setLogRecordFactory(make)
    else:
        logging.setLogRecordFactory(Own)
    try:
        app.tasks.clear()
        job_id = await run(app, lambda: log.warning("x"))
    finally:
        logging.setLogRecordFactory(before)
    assert await messages(app, job_id) == ["x"], "once, not twice"
    assert isinstance(records[0], Own) or getattr(records[0], "own", False)


async def test_a_signal_or_thread_that_logs_at_the_same_time_waits_for_nobody() -> None:
    lines = Lines()

    def talk() -> None:
        # All of them fit into what may wait.
        for number in range(250):
            lines.add(record(str(number)))

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken: list[Any] = []
    while any(thread.is_alive() for thread in threads):
        taken += lines.taken()
    taken += lines.taken()
    bodies = [values["body"] for statement, values in taken if statement == "log"]
    numbers = [int(line[1 : line.index(",")]) for line in "".join(bodies).split("\n") if line]
    assert numbers == list(range(1, 1001))


async def test_old_attempts_go(app: Benbi) -> None:
    attempts = KEPT_ATTEMPTS + 5

    @app.task(retry=Retry(attempts, first=0.001, longest=0.001, jitter=0))
    async def talk(ctx: Context) -> None:
        log.warning("attempt %d", ctx.attempt)
        if ctx.attempt < attempts:
            raise Transient

    async with working(app):
        job = await talk.enqueue()
        await job.result(30)
    assert await messages(app, job.id) == [f"attempt {attempts}"]
    rows = await asyncio.to_thread(stored, app)
    assert [attempt for attempt, *_ in rows] == list(range(6, attempts + 1))


async def test_retention_removes_the_lines_of_a_job_with_it(app: Benbi) -> None:
    @app.task(keep=0.001)
    async def talk() -> None:
        log.warning("x")

    async with working(app):
        await (await talk.enqueue()).result(10)
    await talk.enqueue()
    upkeep = Upkeep(app.store, heartbeat_timeout=10)
    upkeep._prune_at = time.monotonic()
    await upkeep.round()
    assert await asyncio.to_thread(stored, app) == []


async def test_lines_belong_to_the_owner_of_their_job(app: Benbi) -> None:
    @app.task
    async def talk() -> None:
        log.warning("x")

    async with working(app):
        job = await talk.options(owner="ann").enqueue()
        await job.result(10)
    assert len(await app.logs(job.id, owner="ann")) == 1
    with pytest.raises(JobNotFound):
        await app.logs(job.id, owner="bob")
    with pytest.raises(JobNotFound):
        async for _ in app.follow_logs(job.id, owner="bob"):
            pass


async def test_lines_are_followed_over_attempts_to_the_end(app: Benbi) -> None:
    go_on = asyncio.Event()

    @app.task(retry=Retry(2, first=0.01))
    async def talk(ctx: Context) -> None:
        log.warning("attempt %d begins", ctx.attempt)
        if ctx.attempt == 1:
            raise Transient
        await go_on.wait()
        log.warning("attempt 2 ends")

    seen: list[LogLine] = []

    async def follow(attempt: int | None, into: list[LogLine]) -> None:
        async for line in app.follow_logs(job.id, attempt=attempt):
            into.append(line)

    async with working(app):
        job = await talk.enqueue()
        following = asyncio.create_task(follow(None, seen))
        await state_reached(app, job.id, "running")
        await wait_until_async(lambda: any(line.attempt == 2 for line in seen))
        one: list[LogLine] = []
        await asyncio.wait_for(follow(1, one), 10)
        assert not following.done()
        go_on.set()
        await asyncio.wait_for(following, 10)
    assert [line.message for line in one] == ["attempt 1 begins"]
    assert [line.message for line in seen][-2:] == ["attempt 2 begins", "attempt 2 ends"]
    assert len(seen) == len({(line.attempt, line.number) for line in seen})


async def test_the_blocking_form_gives_the_same(app: Benbi) -> None:
    job_id = await run(app, lambda: log.warning("x"))
    assert await asyncio.to_thread(app.logs_sync, job_id) == await app.logs(job_id)
