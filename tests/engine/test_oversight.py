"""Queues, workers, statistics and explanations, as an app with a worker gives them."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, ConfigurationError, Refused
from benbi.engine import worker as worker_module
from benbi.oversight import Oversight
from tests.support import wait_until_async
from tests.support.working import state_reached, working


def shop(path: Path | str, **settings: Any) -> Benbi:
    app = Benbi(str(path), durability="normal", **settings)

    @app.task
    async def work(number: int) -> int:
        return number

    @app.task(queue="mail")
    async def send(number: int) -> int:
        return number

    return app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


async def test_a_paused_queue_waits_while_another_goes_on(path: Path) -> None:
    async with shop(path) as app:
        paused = await app.pause_queue("mail", by="ann")
        assert (paused.name, paused.paused_by, paused.pending) == ("mail", "ann", 0)
        async with working(app):
            held = await app.enqueue("send", {"number": 1})
            # It comes later, and the worker that runs it has looked at both queues.
            other = await app.enqueue("work", {"number": 2})
            await state_reached(app, other.id, "completed")
            assert (await held.get()).state == "pending"
            assert (await app.explain(held.id)).cause == "queue_paused"
            opened = await app.resume_queue("mail")
            assert (opened.paused_at, opened.workers) == (None, 1)
            await state_reached(app, held.id, "completed")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
async def test_a_resume_wakes_an_idle_worker(
    path: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    # Neither its poll nor a beat wakes it in the time of this test.
    monkeypatch.setattr(worker_module, "POLL_SECONDS", 600.0)
    async with shop(path, heartbeat_timeout=600.0) as app, shop(path) as other:
        await app.pause_queue("mail")
        async with working(app):
            held = await app.enqueue("send", {"number": 1})
            looked = await app.enqueue("work", {"number": 2})
            await state_reached(app, looked.id, "completed")
            await (other if elsewhere else app).resume_queue("mail")
            await state_reached(app, held.id, "completed")


async def test_what_a_worker_does_is_seen(path: Path) -> None:
    async with shop(path) as app:
        assert await app.workers() == []
        async with working(app, slots=3):
            job = await app.enqueue("work", {"number": 1})
            await state_reached(app, job.id, "completed")
            (worker,) = await app.workers()
            assert (worker.slots, worker.silent) == (3, False)
            assert (worker.queues, worker.tasks) == (("default", "mail"), ("send", "work"))
            assert worker.heartbeat_timeout == app.heartbeat_timeout
            assert [queue.workers for queue in await app.queues()] == [1, 1]
        assert await app.workers() == []
        (told,) = (await app.stats()).tasks
        assert (told.task, told.completed, told.success_rate) == ("work", 1, 1.0)
        assert (told.waited.count, told.ran.count) == (1, 1)
        assert (await app.explain(job.id)).cause == "completed"


async def test_workers_of_memory_need_no_beat() -> None:
    async with shop(":memory:", heartbeat_timeout=0.5) as app, working(app):
        await app.publish()
        # A worker on a file would be silent by then, if it did not beat.
        beat_at = (await app.workers())[0].beat_at.timestamp()
        await wait_until_async(lambda: app.database.now() / 1e6 - beat_at > 0.5)
        assert [worker.silent for worker in await app.workers()] == [False]


def test_every_operation_has_its_twin_for_threads(path: Path) -> None:
    names = [name for name, value in vars(Oversight).items() if inspect.iscoroutinefunction(value)]
    assert sorted(names) == ["explain", "pause_queue", "queues", "resume_queue", "stats", "workers"]
    with shop(path) as app:
        job = app.enqueue_sync("send", {"number": 1})
        given = {"explain": (job.id,), "pause_queue": ("mail",), "resume_queue": ("mail",)}

        async def both(name: str) -> tuple[Any, Any]:
            asked = getattr(app, name)
            twin = getattr(app, f"{name}_sync")
            assert inspect.signature(asked).parameters == inspect.signature(twin).parameters
            with pytest.raises(ConfigurationError, match=name):
                twin(*given.get(name, ()))
            return await asked(*given.get(name, ())), twin

        for name in names:
            answer, twin = asyncio.run(both(name))
            again = twin(*given.get(name, ()))
            if name == "stats":
                answer, again = answer.tasks, again.tasks
            assert answer == again, name


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "a\x00b", None])
async def test_what_is_no_name_of_a_queue_is_refused(path: Path, name: Any) -> None:
    async with shop(path) as app:
        for act in (app.pause_queue, app.resume_queue):
            with pytest.raises(Refused, match="queue="):
                await act(name)
        assert [queue.name for queue in await app.queues()] == []


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 10_000, "7"])
async def test_what_is_no_number_of_days_is_refused(path: Path, days: Any) -> None:
    async with shop(path) as app:
        with pytest.raises(Refused, match="days="):
            await app.stats(days)


def test_settings_say_where_they_came_from(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENBI_URL", str(path))
    told = {setting.name: setting for setting in Benbi(slots=3, max_payload=1_048_576).settings()}
    assert {name: setting.source for name, setting in told.items()} == {
        "url": "BENBI_URL",
        "slots": "code",
        "heartbeat_timeout": "default",
        "max_payload": "default",
        "durability": "default",
        "artifacts": "default",
        "max_artifact": "default",
        "schema": "default",
        "listen_url": "default",
    }
    assert told["artifacts"].value == f"{path}-artifacts"
    assert (told["url"].value, told["slots"].value) == (f"sqlite:///{path}", 3)
    assert list(told) == list(inspect.signature(Benbi).parameters)
    (url, *_, durability, files, _, _, _) = Benbi(":memory:", durability="normal").settings()
    assert (url.source, durability) == ("code", ("durability", "normal", "code"))
    assert files == ("artifacts", None, "default")
    monkeypatch.setenv("BENBI_ARTIFACTS", str(tmp_path))
    files = Benbi(":memory:").settings()[-4]
    assert files == ("artifacts", str(tmp_path), "BENBI_ARTIFACTS")
    assert Benbi(artifacts="here").settings()[-4].source == "code"
    monkeypatch.delenv("BENBI_URL")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert Benbi().settings()[0].source == "default"
    assert not path.exists()


def test_where_it_listens_is_told_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENBI_URL", "postgresql://shop@pooler.internal/shop")
    assert Benbi().settings()[-1] == ("listen_url", None, "default")
    shown, named = "postgresql://shop@db.internal/shop", "postgresql://shop:secret@db.internal/shop"
    assert Benbi(listen_url=named).settings()[-1] == ("listen_url", shown, "code")
    monkeypatch.setenv("BENBI_LISTEN_URL", named)
    assert Benbi().settings()[-1] == ("listen_url", shown, "BENBI_LISTEN_URL")
    # A file tells of its changes itself.
    assert Benbi(":memory:").settings()[-1] == ("listen_url", None, "default")


@pytest.mark.parametrize("listen_url", [5, "", "db.internal", "sqlite:///jobs.db", "jobs.db"])
def test_a_place_where_nobody_can_listen_is_refused(listen_url: Any) -> None:
    with pytest.raises(ConfigurationError, match="listen_url="):
        Benbi("postgresql://shop@pooler.internal/shop", listen_url=listen_url)


def test_each_has_its_blocking_twin(path: Path) -> None:
    with Benbi(str(path)) as app:

        @app.task
        async def work() -> None: ...

        job = work.enqueue_sync()
        app.pause_queue_sync("default", by="mai")
        (queue,) = app.queues_sync()
        assert (queue.name, queue.paused_by, queue.pending) == ("default", "mai", 1)
        assert app.explain_sync(job.id).cause == "queue_paused"
        app.resume_queue_sync("default")
        assert app.explain_sync(job.id).cause == "no_worker"
        assert app.workers_sync() == []
        (figures,) = app.stats_sync(days=1).tasks
        assert (figures.task, figures.pending) == ("work", 1)
