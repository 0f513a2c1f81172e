"""Behind PgBouncer in transaction mode: whatever a connection keeps, the next transaction lacks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import psycopg
import pytest

from benbi import Benbi, Context, State, connections
from benbi.engine import tail, worker
from benbi.errors import JobCanceled
from benbi.store.postgresql import PostgresDatabase, channel
from benbi.wake.postgresql import PostgresWake
from tests.support import pgbouncer, postgresql
from tests.support.polling import wait_until, wait_until_async

SOON = 30.0
BY_ITSELF = "looks by itself"


@pytest.fixture
def url() -> Iterator[str]:
    """A database of the server itself."""
    with postgresql.own_database() as found:
        yield found


@pytest.fixture
def pooled(url: str) -> str:
    """The same behind the pooler."""
    return pgbouncer.pooled(url)


@pytest.fixture
def look(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection.execute


@pytest.fixture
def by_hints_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the look of every second."""
    for module in (tail, worker):
        monkeypatch.setattr(module, "POLL_SECONDS", 600.0)


def app_on(url: str, **settings: Any) -> Benbi:
    app = Benbi(url, heartbeat_timeout=4, **settings)

    @app.task
    async def count(ctx: Context, to: int) -> int:
        for number in range(to):
            await ctx.progress(number, to, "counting")
        return to

    @app.task
    async def hang() -> None:
        await asyncio.Event().wait()

    return app


async def out_of_work(app: Benbi) -> None:
    await wait_until_async(lambda: app.workers_here)
    await asyncio.wait_for(app.workers_here[0].out_of_work.wait(), SOON)


@pytest.mark.parametrize("listens", [True, False])
async def test_a_worker_behind_it_does_all_that_one_at_the_server_does(
    url: str, pooled: str, listens: bool
) -> None:
    listen_url = url if listens else None
    async with (
        app_on(pooled, listen_url=listen_url) as here,
        app_on(pooled, listen_url=listen_url) as there,
        there.working(slots=8),
    ):
        calls = [here.tasks["count"].call(number) for number in range(40)]
        handles = await here.enqueue_many(calls)
        assert [await job.result(timeout=SOON) for job in handles] == list(range(40))
        counted = await here.tasks["count"].enqueue(5)
        told = [event async for event in counted.events()]
        assert [event.seq for event in told] == list(range(1, len(told) + 1))
        assert [told[0].type, told[1].type, told[-1].type] == ["created", "started", "completed"]
        endless = await here.tasks["hang"].enqueue()
        await wait_until_async(lambda: _is(endless, State.RUNNING), SOON)
        await endless.cancel()
        with pytest.raises(JobCanceled):
            await endless.result(timeout=SOON)


async def _is(job: Any, state: State) -> bool:
    return (await job.get()).state == state


@pytest.mark.usefixtures("by_hints_alone")
async def test_with_a_listen_url_a_worker_is_told(url: str, pooled: str, look: Any) -> None:
    async with (
        app_on(pooled, listen_url=url) as here,
        app_on(pooled, listen_url=url) as there,
        there.working(),
    ):
        await out_of_work(there)
        await wait_until_async(lambda: postgresql.listeners(look), SOON)
        job = await here.tasks["count"].enqueue(1)
        assert await job.result(timeout=SOON) == 1
        assert (here.hints_lost, there.hints_lost) == (None, None)


@pytest.mark.usefixtures("by_hints_alone")
async def test_a_pooler_that_keeps_sessions_apart_is_listened_to(url: str, look: Any) -> None:
    with pgbouncer.pooler("session") as server:
        at = pgbouncer.pooled(url, server.url)
        async with app_on(at) as here, app_on(at) as there, there.working():
            await out_of_work(there)
            await wait_until_async(lambda: postgresql.listeners(look), SOON)
            job = await here.tasks["count"].enqueue(1)
            assert await job.result(timeout=SOON) == 1
            assert (here.hints_lost, there.hints_lost) == (None, None)


async def test_without_one_it_says_so_once_and_looks_by_itself(
    pooled: str, look: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = count(1)

    class Counted(PostgresWake):
        def _listen(self, *arguments: Any) -> None:
            next(tries)
            super()._listen(*arguments)

    monkeypatch.setattr(connections, "PostgresWake", Counted)
    # A server, which listens while somebody waits for a job, and a worker.
    async with app_on(pooled) as here, app_on(pooled) as there, there.working():
        for number in range(3):
            job = await here.tasks["count"].enqueue(number)
            assert await job.result(timeout=SOON) == number
        assert "pooler" in (here.hints_lost or "")
        assert "pooler" in (there.hints_lost or "")
        assert not postgresql.listeners(look)
        # Nothing is left on a connection that others will be given.
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as other:
            assert other.execute("SELECT pg_listening_channels()").fetchall() == []
    said = [record for record in caplog.records if BY_ITSELF in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING] * 2, "once in each app"
    assert "listen_url=" in said[0].getMessage()
    assert next(tries) == 3, "it is not tried again for everybody who waits"


@pytest.mark.parametrize("where", ["pooled", "elsewhere"])
async def test_a_listen_url_that_leads_to_nothing_is_said(
    pooled: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler again; another database, where LISTEN works and nobody speaks."""
    monkeypatch.setattr(channel, "PROOF_SECONDS", 0.5)
    with postgresql.own_database() as other:
        listen_url = pooled if where == "pooled" else other
        async with app_on(pooled, listen_url=listen_url) as app, app.working():
            lost = await wait_until_async(lambda: app.hints_lost, SOON)
            assert "server itself" in lost
            job = await app.tasks["count"].enqueue(1)
            assert await job.result(timeout=SOON) == 1


def test_what_is_prepared_stays_on_a_connection_of_ours(url: str, pooled: str) -> None:
    """Three connections to the server, and more clients than that, one of them in a transaction."""
    for place, expected in ((url, True), (pooled, False)):
        database = PostgresDatabase(place)
        with ExitStack() as stack:
            sessions = [database.connect() for _ in range(4)]
            for session in sessions:
                stack.callback(session.close)
            pids: set[int] = set()
            with sessions[0].write() as tx:
                tx.rows("tables")
                for session in sessions[1:] * 10:
                    with session.read() as view:
                        view.rows("tables")
                        ((pid, prepared),) = postgresql.looked(
                            view, "SELECT pg_backend_pid(), count(*) FROM pg_prepared_statements"
                        )
                        assert (prepared > 0) == expected
                        pids.add(pid)
            assert (len(pids) < 3) != expected, "the pooler shares its connections"


async def test_a_worker_outlives_the_end_of_what_the_pooler_has(look: Any, pooled: str) -> None:
    async with app_on(pooled) as app, app.working():
        for round in range(5):
            jobs = await app.enqueue_many([app.tasks["count"].call(n) for n in range(10)])
            look(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            results = [await job.result(timeout=SOON) for job in jobs]
            assert results == list(range(10)), round


def test_a_caller_behind_it_and_an_app_at_the_server(url: str, pooled: str) -> None:
    with app_on(url) as app, psycopg.connect(pooled, prepare_threshold=None) as connection:
        jobs = [
            app.tasks["count"].options(connection=connection).enqueue_sync(1) for _ in range(10)
        ]
        assert app.jobs_sync() == []
        connection.commit()
        assert {found.id for found in app.jobs_sync()} == {job.id for job in jobs}


def test_a_look_at_the_database_says_how_it_is_reached(url: str, pooled: str) -> None:
    def told(listen_url: str | None) -> list[tuple[str, str]]:
        found = PostgresDatabase(pooled, listen_url=listen_url).check()
        return [(finding["level"], finding["text"]) for finding in found]

    (_, by, deaf) = told(None)
    assert by == ("ok", "reached by a pooler: nothing is prepared")
    assert deaf[0] == "warning" and "LISTEN" in deaf[1]
    assert told(url)[2] == ("ok", "hints from other processes are heard")


def test_who_waited_too_long_for_a_connection_tries_again(url: str) -> None:
    """All that the pooler has are in transactions of others, for longer than it lets one wait."""
    with pgbouncer.pooler(patience=1) as server, ExitStack() as stack:
        there = pgbouncer.pooled(url, server.url)
        app = stack.enter_context(app_on(there))
        for _ in range(pgbouncer.CONNECTIONS):
            other = stack.enter_context(psycopg.connect(there, prepare_threshold=None))
            other.execute("SELECT 1")
        jobs: list[Any] = []
        caller = threading.Thread(
            target=lambda: jobs.append(app.tasks["count"].enqueue_sync(1)), daemon=True
        )
        caller.start()
        wait_until(lambda: "query_wait_timeout" in server.log.read_text("utf-8"), SOON)
        assert not jobs
        other.commit()
        caller.join(SOON)
        assert [found.id for found in app.jobs_sync()] == [job.id for job in jobs]
