"""PostgreSQL's own ways: hints, late commits, locks, the caller's transaction, clear errors."""

from __future__ import annotations

import asyncio
import multiprocessing
import select
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from benbi import Benbi, JobHandle
from benbi.engine.marks import FROM_THE_START_SECONDS
from benbi.errors import (
    ConfigurationError,
    Refused,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreReadOnly,
)
from benbi.job import Claim, NewJob
from benbi.store import lifecycle, moves, upstream, views
from benbi.store.database import Transaction
from benbi.store.linked import enqueue_linked
from benbi.store.postgresql import PostgresDatabase
from benbi.store.statements import parse
from benbi.store.store import Store
from benbi.wake.postgresql import Notifier
from tests.support import postgresql
from tests.support.polling import wait_until, wait_until_async
from tests.support.rig import Clock, Rig

SOON = 20.0
# How long a test looks whether something happens that must not.
LOOK = 0.3


@pytest.fixture
def url() -> Iterator[str]:
    with postgresql.own_database() as found:
        yield found


@pytest.fixture
def rig(url: str) -> Iterator[Rig]:
    clock = Clock()
    rig = Rig(PostgresDatabase(url, durability="normal", clock=clock), clock)
    yield rig
    rig.store.close()


@pytest.fixture
def look(url: str) -> Iterator[Any]:
    """Somebody else's connection, to look and to hold locks with."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection.execute


def app_on(url: str, **settings: Any) -> Benbi:
    app = Benbi(url, **settings)

    @app.task
    async def double(number: int) -> int:
        return 2 * number

    return app


def double(app: Benbi, number: int, **options: Any) -> JobHandle[Any]:
    return app.tasks["double"].options(**options).enqueue_sync(number)


async def out_of_work(app: Benbi) -> None:
    await wait_until_async(lambda: app.workers_here)
    await asyncio.wait_for(app.workers_here[0].out_of_work.wait(), SOON)


def at_once(call: Callable[[], object]) -> None:
    """Calls it beside an open transaction, for which it must not wait."""
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(4.0)  # less than a statement waits for a lock
    assert not caller.is_alive(), "it waits for the open transaction"


def one_waits(tx: Any) -> None:
    """Waits until another connection to this database waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    wait_until(lambda: postgresql.looked(tx, waiting) == [(1,)], SOON, "one waits")


# Two apps: nothing but the server is between them.


async def test_a_worker_elsewhere_is_told_at_once(url: str) -> None:
    async with app_on(url) as here, app_on(url) as there, there.working():
        # It has looked, found nothing, and would look again after a second.
        await out_of_work(there)
        began = time.monotonic()
        job = await here.tasks["double"].enqueue(21)
        assert await job.result(timeout=SOON) == 42
        assert time.monotonic() - began < 0.8


async def test_a_worker_outlives_the_end_of_all_its_connections(url: str, look: Any) -> None:
    async with app_on(url) as app, app.working():
        first = await app.tasks["double"].enqueue(1)
        assert await first.result(timeout=SOON) == 2
        look(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'benbi' AND datname = current_database()"
        )
        # What waits is repeated whole on new connections.
        handles = await app.enqueue_many([app.tasks["double"].call(n) for n in range(50)])
        assert [await job.result(timeout=SOON) for job in handles] == [2 * n for n in range(50)]


def test_an_end_that_answers_no_statement_is_a_lost_connection(rig: Rig, look: Any) -> None:
    session = rig.database.connect()
    pipeline = session._pipeline  # type: ignore[attr-defined]
    pipeline.begin()
    backend = parse("-- name: look\nSELECT pg_backend_pid()", "$")["look"]
    ((pid,),) = pipeline.rows(pipeline.send(backend))
    look("SELECT pg_terminate_backend(%s)", [pid])
    with pytest.raises(psycopg.errors.AdminShutdown):
        pipeline.end()
    session.close()


def test_no_other_process_is_told_of_a_job_before_its_commit(rig: Rig) -> None:
    listener = rig.database.channel()
    listener.listen("")
    notifier = Notifier(rig.database.channel, "told")
    rig.store.on_commit.append(notifier.hint)
    early: list[bool] = []

    def before(point: str) -> None:
        if point == "before:enqueue.commit":
            select.select([listener], [], [], LOOK)
            early.append(listener.heard())

    rig.store._crash = before
    rig.put()
    assert early == [False]
    wait_until(listener.heard, SOON, "it is told after the commit")
    notifier.close()
    listener.close()


# Where claims go on.


def test_claims_go_on_behind_the_mark(rig: Rig) -> None:
    worker = rig.worker()
    marks: dict[str, lifecycle.Place] = {}
    ids = [rig.put() for _ in range(4)]
    assert [claim.job_id for claim in rig.claim(worker, 2, marks=marks)] == ids[:2]
    first = rig.put(rank=-1)
    assert [claim.job_id for claim in rig.claim(worker, 2, marks=marks)] == ids[2:]
    # Nothing is left behind the mark; one from the start finds what came before it.
    assert rig.claim(worker, 2, marks=marks) == []
    assert rig.claim_one(worker).job_id == first


async def test_a_job_that_becomes_the_first_does_not_wait_for_the_end_of_a_backlog(
    url: str,
) -> None:
    app = Benbi(url, slots=1)
    order: list[int] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    @app.task
    async def note(number: int) -> None:
        order.append(number)
        (ended if number == 99 else begun).set()
        # Several looks from the start fall into the whole of it.
        await asyncio.sleep(FROM_THE_START_SECONDS / 10)

    async with app, app.working():
        await app.enqueue_many([note.call(n) for n in range(100)])
        await begun.wait()
        await note.options(priority=1).enqueue(-1)
        await asyncio.wait_for(ended.wait(), SOON)
        assert -1 in order


# Readers of many jobs.


def arrived(tx: Transaction, job: NewJob) -> None:
    """Nothing of a transaction has to be at the server before somebody waits for it."""
    assert tx.rows("existing", id=job.id)


def test_what_commits_late_is_not_skipped(rig: Rig) -> None:
    """Two transactions, committed in the reverse order of their events."""
    ((cursor,),) = rig.rows("newest_position")
    early, late = rig.database.connect(), rig.database.connect()
    first, second = rig.new(), rig.new()
    with early.write() as tx:
        lifecycle.enqueue(tx, [[first]])
        arrived(tx, first)
        with late.write() as other:
            lifecycle.enqueue(other, [[second]])
        # The later one is committed, the earlier one still open.
        seen = rig.store.read_sync(views.events_since, None, cursor, 100)
        assert seen == []
    # A stream waits for every open transaction of the server, a stranger's too.
    rest = wait_until(lambda: rig.store.read_sync(views.events_since, None, cursor, 100), SOON)
    assert [event.job_id for event in rest] == [views.as_text(job.id) for job in (first, second)]
    early.close()
    late.close()


def test_a_stream_has_the_events_of_a_job_in_their_order(rig: Rig) -> None:
    """A claim began before the job that it gets was stored."""
    ((cursor,),) = rig.rows("newest_position")
    worker, other = rig.worker(), rig.database.connect()
    with other.write() as tx:
        assert tx.rows("worker_alive", worker=worker)
        job_id = rig.put()
        request = lifecycle.ClaimRequest(worker, 1, ["default"], '["work"]', 1, True)
        (claim,) = lifecycle.claim(tx, request)
    other.close()
    rig.complete(claim)
    seen = [event for event in rig.since(cursor) if event.job_id == job_id]
    assert [event.seq for event in seen] == [1, 2, 3]


def test_a_tail_hears_of_a_late_commit(rig: Rig) -> None:
    ((position,),) = rig.rows("newest_change")
    early = rig.database.connect()
    with early.write() as tx:
        job = rig.new()
        lifecycle.enqueue(tx, [[job]])
        arrived(tx, job)
        other = rig.found(rig.put()).n
        (news,) = rig.rows("changed_since", cursor=position, most=10)
        assert news[1] == other, "whoever commits first is told of, whatever is open"
        position = news[0]
    assert len(rig.rows("changed_since", cursor=position, most=10)) == 2
    early.close()


# Side by side.


def test_claims_pass_over_what_another_is_claiming(rig: Rig) -> None:
    rig.put_rows(*[rig.new() for _ in range(10)])
    workers = [rig.worker(), rig.worker()]
    other = rig.database.connect()
    with other.write() as tx:
        request = lifecycle.ClaimRequest(workers[0], 1, ["default"], '["work"]', 6, True)
        first = lifecycle.claim(tx, request)
        second: list[Claim] = []
        at_once(lambda: second.extend(rig.claim(workers[1], 10)))
    other.close()
    assert (len(first), len(second)) == (6, 4)
    assert not {claim.n for claim in first} & {claim.n for claim in second}


def test_a_burial_waits_for_the_claim_under_way_and_takes_what_it_took(rig: Rig) -> None:
    job_id, worker = rig.put(), rig.worker()
    other = rig.database.connect()
    with other.write() as tx:
        request = lifecycle.ClaimRequest(worker, 1, ["default"], '["work"]', 1, True)
        (claim,) = lifecycle.claim(tx, request)
        buried: list[list[int] | None] = []
        burial = threading.Thread(target=lambda: buried.append(rig.bury(worker)))
        burial.start()
        one_waits(tx)
    burial.join(SOON)
    other.close()
    assert buried == [[claim.n]]
    assert rig.last(job_id) == ("pending", "lost")


def test_an_edge_and_the_end_of_its_parent_meet(rig: Rig) -> None:
    """The child is being stored while its parent ends: one of the two sees the other."""
    claim = rig.running()
    parent = claim.job_id
    other = rig.database.connect()
    with other.write() as tx:
        child = rig.new(after=[parent])
        enqueue_linked(tx, [[child]])
        ending = threading.Thread(target=rig.complete, args=(claim,))
        ending.start()
        one_waits(tx)
    ending.join(SOON)
    other.close()
    assert rig.types(views.as_text(child.id)) == ["created", "pending"]


def test_equal_calls_at_the_same_moment_are_one_job(rig: Rig) -> None:
    first, second = rig.new(within=60), rig.new(within=60)
    other = rig.database.connect()
    with other.write() as tx:
        ((kept,),) = lifecycle.enqueue(tx, [[first]])
        ids: list[str] = []
        caller = threading.Thread(target=lambda: ids.extend(rig.put_rows(second)))
        caller.start()
        one_waits(tx)
    caller.join(SOON)
    other.close()
    assert ids == [views.as_text(kept)]


def test_retention_leaves_a_job_that_is_being_retried(rig: Rig) -> None:
    job_id = rig.put()
    rig.cancel(job_id)
    rig.put()
    rig.clock.tick(100 * 86400)
    other = rig.database.connect()
    with other.write() as tx:
        moves.again(tx, rig.found(job_id).n, 1, 1, False)
        removed: list[int] = []
        at_once(lambda: removed.append(rig.prune()))
        assert removed == [0]
    other.close()
    assert rig.state(job_id) == "pending"


def _open(url: str, told: Any) -> None:
    store = Store(PostgresDatabase(url))
    store.open()
    told.put(len(store.applied))
    store.close()


def test_ten_that_start_at_once_migrate_once(url: str) -> None:
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    starting = [context.Process(target=_open, args=(url, told)) for _ in range(10)]
    for process in starting:
        process.start()
    applied = sorted(told.get(timeout=SOON) for _ in starting)
    for process in starting:
        process.join(SOON)
    assert applied[:9] == [0] * 9
    assert applied[9] > 0


# The caller's transaction.


@pytest.mark.parametrize("commits", [True, False])
def test_a_job_goes_with_the_callers_transaction(url: str, commits: bool) -> None:
    with app_on(url) as app, psycopg.connect(url) as connection:
        job = double(app, 21, connection=connection)
        assert app.jobs_sync() == []
        if commits:
            connection.commit()
        else:
            connection.rollback()
        assert [found.id for found in app.jobs_sync()] == ([job.id] if commits else [])


def test_a_connection_without_a_transaction_is_refused(url: str) -> None:
    with app_on(url) as app, psycopg.connect(url, autocommit=True) as connection:
        with pytest.raises(Refused, match="autocommit"):
            double(app, 1, connection=connection)
        with connection.transaction():
            job = double(app, 2, connection=connection)
        assert [found.id for found in app.jobs_sync()] == [job.id]


def test_another_database_is_refused(url: str) -> None:
    with (
        postgresql.own_database() as other,
        app_on(url) as app,
        psycopg.connect(other) as there,
        pytest.raises(Refused, match="another database"),
    ):
        double(app, 1, connection=there)


def test_a_callers_transaction_keeps_no_parent_from_ending(url: str, rig: Rig) -> None:
    claim = rig.running()
    with app_on(url) as app, psycopg.connect(url) as connection:
        job = double(app, 1, connection=connection, after=[app.handle(claim.job_id)])
        assert rig.complete(claim) == "completed"
        connection.commit()
        assert rig.state(job.id) == "waiting", "whoever ended its parent could not see it"
        _, found = rig.store.read_sync(upstream.adrift, 0)
        rig.store.write_sync(upstream.rescue, found)
        assert rig.state(job.id) == "pending"


def test_the_time_of_a_callers_transaction_is_the_servers(url: str, look: Any) -> None:
    with app_on(url) as app, psycopg.connect(url) as connection:
        job = double(app, 1, connection=connection, delay=60)
        connection.commit()
        found = app.get_sync(job.id)
        ((now,),) = look("SELECT clock_timestamp()").fetchall()
        assert 50 < (found.run_at - now).total_seconds() <= 60


# Where everything lies, and what is refused.


def test_two_schemas_of_one_database_know_nothing_of_each_other(url: str) -> None:
    with app_on(url) as one, app_on(url, schema="other") as two:
        job = double(one, 1)
        assert two.jobs_sync() == []
        assert [found.id for found in one.jobs_sync()] == [job.id]


def test_a_url_may_name_the_schema(url: str) -> None:
    with app_on(url, schema="jobs_of_shop") as app, app_on(f"{url}?schema=jobs_of_shop") as named:
        job = double(app, 1)
        assert [found.id for found in named.jobs_sync()] == [job.id]
        assert named.url == app.url
        assert named.url.endswith("?schema=jobs_of_shop")


@pytest.mark.parametrize("schema", ["", "Big", "a b", "x; drop", "1st", "é"])
def test_a_schema_that_would_need_quotes_is_refused(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="schema"):
        Benbi("postgresql://postgres@127.0.0.1/none", schema=schema).database  # noqa: B018


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"port": 1}, "can not be reached"),
        ({"user": "nobody_of_that_name", "password": "wrong"}, "can not be reached"),
        ({"dbname": "no_such_database"}, "no_such_database"),
        ({"host": "no-such-host.invalid"}, "can not be reached"),
    ],
)
def test_a_server_that_can_not_be_used_is_said_soon(
    url: str, change: dict[str, Any], says: str
) -> None:
    wrong = psycopg.conninfo.make_conninfo(url, **change)
    began = time.monotonic()
    with pytest.raises(StoreError, match=says) as refused:
        Store(PostgresDatabase(wrong)).open()
    assert time.monotonic() - began < 6
    assert "wrong" not in str(refused.value).replace("wrong password", "")


def test_a_role_without_rights_is_told_so(url: str, look: Any) -> None:
    look("DROP ROLE IF EXISTS benbi_no_rights")
    look("CREATE ROLE benbi_no_rights LOGIN PASSWORD 'x'")
    look("REVOKE CREATE ON DATABASE " + url.rsplit("/", 1)[1] + " FROM PUBLIC")
    weak = psycopg.conninfo.make_conninfo(url, user="benbi_no_rights", password="x")
    try:
        with pytest.raises(StoreReadOnly, match="rights"):
            Store(PostgresDatabase(weak)).open()
    finally:
        look("DROP ROLE benbi_no_rights")


def test_a_database_that_can_only_be_read_is_told_so(url: str, look: Any) -> None:
    with app_on(url) as app:
        double(app, 1)
    # As a standby: every transaction is read-only.
    weak = psycopg.conninfo.make_conninfo(url, options="-c transaction_read_only=on")
    store = Store(PostgresDatabase(weak))
    assert store.read_sync(views.jobs, None, None, None, None, None, 10)
    store.close()


def test_a_newer_schema_is_refused(url: str, look: Any) -> None:
    with app_on(url) as app:
        double(app, 1)
    look("UPDATE benbi.migrations SET needs_code = 99")
    with pytest.raises(SchemaTooNew), app_on(url) as app:
        pass


def test_a_text_that_the_server_can_not_keep_hurts_nobody_else(rig: Rig) -> None:
    tickets: list[Any] = []
    bad = rig.new(key="a\0b")
    good = rig.new(key="fine")

    def put(job: Any) -> None:
        try:
            tickets.append(rig.store.enqueue_sync([job]))
        except Exception as error:
            tickets.append(error)

    callers = [threading.Thread(target=put, args=(job,)) for job in (bad, good)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(SOON)
    assert rig.state(views.as_text(good.id)) == "pending"
    assert [type(one).__name__ for one in tickets if isinstance(one, Exception)] == ["DataError"]


# Connections.


def test_a_refusal_at_the_commit_costs_no_connection(rig: Rig) -> None:
    """Nothing is waited for before the COMMIT: the server refuses what was sent before it."""
    session = rig.database.connect()
    event = (rig.running().n, 1, "created", None, 0, rig.clock.now, None)

    def connected() -> Any:
        with session.write() as tx:
            return postgresql.looked(tx, "SELECT pg_backend_pid()")

    before = connected()
    with pytest.raises(psycopg.errors.UniqueViolation), session.write() as tx:
        tx.many("event", [event])
    assert connected() == before
    session.close()


async def test_hundreds_of_callers_share_a_few_connections(url: str, look: Any) -> None:
    ours = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE application_name = 'benbi' AND datname = current_database()"
    )
    most = 0

    async with app_on(url) as app:

        def call(number: int) -> int:
            handle = app.tasks["double"].enqueue_sync(number)
            assert app.get_sync(handle.id).state == "pending"
            return number

        # Threads of their own, all at once; not the loop's, which are few.
        with ThreadPoolExecutor(300) as callers:
            calls = [callers.submit(call, number) for number in range(300)]
            while not all(called.done() for called in calls):
                ((count,),) = await asyncio.to_thread(lambda: look(ours).fetchall())
                most = max(most, count)
            assert [called.result() for called in calls] == list(range(300))
        assert len(await app.jobs(limit=1000)) == 300
    # The writer, those that read, and the one that tells others.
    assert 1 < most <= 1 + PostgresDatabase.readers + 1


def test_who_waits_for_a_connection_is_told_why_in_the_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benbi.store.store.READ_AGAIN_SECONDS", 0.2)
    rig = Rig(PostgresDatabase(url), Clock())
    busy = threading.Barrier(PostgresDatabase.readers + 1)
    over = threading.Event()

    def hold(_: Transaction) -> None:
        busy.wait(SOON)
        over.wait(SOON)

    with ThreadPoolExecutor(PostgresDatabase.readers) as readers:
        holding = [
            readers.submit(rig.store.read_sync, hold) for _ in range(PostgresDatabase.readers)
        ]
        busy.wait(SOON)
        with pytest.raises(StoreBusy, match="all 4 connections that read"):
            rig.store.read_sync(lambda _: None)
        over.set()
        for held in holding:
            held.result(SOON)
    rig.store.read_sync(lambda _: None)
    rig.store.close()
