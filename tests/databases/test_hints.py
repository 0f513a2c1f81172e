"""Hints between processes: whoever can not hear or send them works on, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from benbi import Benbi
from benbi.engine import tail, worker
from benbi.wake import postgresql as wake
from scripts import services
from tests.doors.http.served import serving
from tests.support import postgresql
from tests.support.polling import wait_until_async

SOON = 30.0
UNTOLD = "other processes are not told"


@pytest.fixture
def url() -> Iterator[str]:
    with postgresql.own_database() as found:
        yield found


@pytest.fixture
def look(url: str) -> Iterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection.execute


def app_on(url: str, **settings: Any) -> Benbi:
    app = Benbi(url, **settings)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    return app


async def test_a_lost_listener_is_replaced_and_told_of(
    url: str, look: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "benbi.wake")
    name = url.rpartition("/")[2]
    async with app_on(url) as app, serving(app) as client:
        ((listener,),) = await wait_until_async(lambda: postgresql.listeners(look), SOON)
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        with psycopg.connect(postgresql.url_of("postgres"), autocommit=True) as other:
            # Nobody comes in again until this is taken back.
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            other.execute("SELECT pg_terminate_backend(%s)", [listener])
            await wait_until_async(lambda: app.hints_lost, SOON)
            answer = await client.get("/healthz")
            assert (answer.status_code, answer.json()) == (200, {"status": "ok", "hints": "off"})
            job = await app.tasks["double"].enqueue(4)
            assert await job.result(timeout=SOON) == 8
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await wait_until_async(lambda: app.hints_lost is None, SOON)
        ((again,),) = postgresql.listeners(look)
        assert again != listener
        assert (await client.get("/healthz")).json() == {"status": "ok"}
    said = [record.getMessage() for record in caplog.records]
    assert sum("no hints from other processes" in line for line in said) == 1
    assert sum("arrive again" in line for line in said) == 1


@contextmanager
def without_the_right() -> Iterator[tuple[str, str]]:
    """A database and a user who may not notify there: the URL of both, and another user's."""
    with postgresql.own_database() as url:
        user = url.rpartition("/")[2] + "_mute"
        with psycopg.connect(url, autocommit=True) as other:
            other.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'x'")
            other.execute(f"GRANT CREATE ON DATABASE {url.rpartition('/')[2]} TO {user}")
            other.execute("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC")
            try:
                there = urlsplit(url).netloc.rpartition("@")[2]
                yield urlsplit(url)._replace(netloc=f"{user}:x@{there}").geturl(), url
            finally:
                other.execute(f"DROP OWNED BY {user} CASCADE")
                other.execute(f"DROP ROLE {user}")


@contextmanager
def with_a_full_queue() -> Iterator[tuple[str, str]]:
    """A server on which somebody listens and does not hear, until no more can be told."""
    with (
        postgresql.own_server(max_notify_queue_pages="64", fsync="off") as url,
        psycopg.connect(url) as deaf,
        psycopg.connect(url, autocommit=True) as other,
    ):
        deaf.execute("LISTEN anything")
        deaf.commit()
        deaf.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="too many notifications"):
            while True:
                other.execute("SELECT pg_notify('anything', repeat('x', 7900))")
        yield url, url


WAYS = [without_the_right]
# Before, its size could not be set, and was 8 GB.
if services.major() >= 17:
    WAYS.append(with_a_full_queue)


@pytest.mark.parametrize("way", WAYS)
async def test_a_notify_that_is_refused_fails_no_enqueue(
    way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with way() as (mute, url):
        settings = {"durability": "normal"}
        async with app_on(mute, **settings) as here, app_on(url, **settings) as there:
            jobs = [await here.tasks["double"].enqueue(n) for n in range(20)]
            await wait_until_async(lambda: here.hints_lost, SOON)
            async with there.working():
                jobs += [await here.tasks["double"].enqueue(n) for n in range(20)]
                results = [await job.result(timeout=SOON) for job in jobs]
            assert results == [2 * n for n in range(20)] * 2
        said = [record.getMessage() for record in caplog.records]
        assert sum(UNTOLD in line for line in said) == (2 if mute == url else 1), "once in each app"


async def test_others_are_told_again_once_they_can_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wake, "AGAIN_LATER", 0.05)
    caplog.set_level("INFO", "benbi.wake")
    with without_the_right() as (mute, url), psycopg.connect(url, autocommit=True) as other:
        async with app_on(mute) as app:
            await app.tasks["double"].enqueue(1)
            await wait_until_async(lambda: app.hints_lost, SOON)
            other.execute("GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO PUBLIC")
            await wait_until_async(lambda: app.hints_lost is None, SOON)
    said = [record.getMessage() for record in caplog.records]
    assert sum(UNTOLD in line for line in said) == 1
    assert sum("told of new jobs again" in line for line in said) == 1


async def test_a_schema_and_a_queue_of_any_length_can_be_told_of(
    url: str, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (tail, worker):
        monkeypatch.setattr(module, "POLL_SECONDS", 600.0)
    schema, queue = "s" * 51, "q" * 200
    async with (
        app_on(url, schema=schema) as here,
        app_on(url, schema=schema) as there,
        there.working(queues=[queue]),
    ):
        await wait_until_async(lambda: there.workers_here)
        await asyncio.wait_for(there.workers_here[0].out_of_work.wait(), SOON)
        await wait_until_async(lambda: postgresql.listeners(look, schema), SOON)
        job = await here.tasks["double"].options(queue=queue).enqueue(3)
        assert await job.result(timeout=SOON) == 6
