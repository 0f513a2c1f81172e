"""Files of jobs: written whole, recorded once under the fence, removed when nobody needs them."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from benbi import (
    Artifact,
    Benbi,
    ConfigurationError,
    Context,
    JobFailed,
    JobNotFound,
    Retry,
    SyncContext,
    Transient,
)
from benbi.engine.upkeep import Upkeep
from benbi.errors import ArtifactNotFound
from benbi.store import artifacts, workers
from benbi.store.artifacts import sweep
from benbi.store.database import Transaction
from benbi.store.files import SETTLED_SECONDS, Files
from tests.support import wait_until_async
from tests.support.working import state_reached, working

SOON = Retry(attempts=3, first=0.01, jitter=0)
LATER = 2 * SETTLED_SECONDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db-artifacts"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db"), max_artifact=1000) as app:
        yield app


async def run(app: Benbi, save: Callable[[Context], Awaitable[Artifact]]) -> Artifact:
    """Runs ``save(ctx)`` as a job; its result."""

    async def task(ctx: Context) -> Artifact:
        return await save(ctx)

    made = app.task(name="task")(task)
    async with working(app):
        return await (await made.enqueue()).result(10)


def take_away(tx: Transaction, worker: int) -> None:
    ((n, token, _),) = tx.rows("held", worker=worker)
    workers.release(tx, worker, [(n, token)], "unheld")


@pytest.mark.parametrize(
    "name", ["bericht.pdf", "báo cáo.txt", "🎁.png", "a" * 255, ".env", "a..b", "CON", "%2e%2e"]
)
async def test_a_name_is_kept_as_it_is(app: Benbi, name: str, folder: Path) -> None:
    await run(app, lambda ctx: ctx.save(name, b"x"))
    (job,) = await app.jobs()
    assert [artifact.name for artifact in await app.artifacts(job.id)] == [name]
    with await app.open_artifact(job.id, name) as file:
        assert file.read() == b"x"
    (stored,) = folder.iterdir()
    assert stored.name != name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        " ",
        "a/b",
        "../up",
        "/etc/passwd",
        "a\\b",
        "a\0b",
        "a\nb",
        "\ud800",
        "é" * 128,
        7,
    ],
)
async def test_what_is_no_name_is_refused(app: Benbi, name: Any, folder: Path) -> None:
    with pytest.raises(JobFailed, match="artifact"):
        await run(app, lambda ctx: ctx.save(name, b"x"))
    assert not folder.exists()


async def test_two_ways_to_write_a_letter_are_one_name(app: Benbi) -> None:
    await run(app, lambda ctx: ctx.save("cafe\u0301", b"x"))
    (job,) = await app.jobs()
    (artifact,) = await app.artifacts(job.id)
    assert artifact.name == "caf\u00e9"
    (await app.open_artifact(job.id, "cafe\u0301")).close()


async def test_content_over_the_limit_is_refused_and_nothing_is_left(
    app: Benbi, folder: Path
) -> None:
    await run(app, lambda ctx: ctx.save("whole", b"x" * 1000))
    with pytest.raises(JobFailed, match=r"over the limit of 1,000 bytes.*max_artifact"):
        await more(app)
    assert len(list(folder.iterdir())) == 1


async def _too_much(ctx: Context) -> None:
    await ctx.save("more", b"x" * 1001)


async def more(app: Benbi) -> None:
    task = app.task(name="more")(_too_much)
    async with working(app):
        await (await task.enqueue()).result(10)


@pytest.mark.parametrize("content", [7, None, ["x"]])
async def test_what_is_no_content_is_refused(app: Benbi, content: Any) -> None:
    with pytest.raises(JobFailed, match="content is bytes, the path of a file"):
        await run(app, lambda ctx: ctx.save("x", content))


async def test_an_open_file_is_read_from_where_it_stands(app: Benbi, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"head body")

    async def save(ctx: Context) -> Artifact:
        with source.open("rb") as file:
            file.read(5)
            return await ctx.save("body", file)

    assert (await run(app, save)).size == 4


def test_a_large_file_is_never_in_memory_whole(tmp_path: Path) -> None:
    source = tmp_path / "large"
    with source.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    files = Files(tmp_path / "files")
    tracemalloc.start()
    try:
        pending = files.save("p", "large", source, lambda: None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    pending.close()
    assert pending.size == 64 * 1024 * 1024
    assert peak < 8 * 1024 * 1024


async def test_saves_may_run_side_by_side_and_come_back_in_any_order(app: Benbi) -> None:
    names = ["a", "b", "c", "d"]

    @app.task(retry=SOON)
    async def draw(ctx: Context) -> list[str]:
        turn = names if ctx.attempt == 1 else names[::-1]
        saved = await asyncio.gather(*(ctx.save(name, name.encode()) for name in turn))
        if ctx.attempt == 1:
            raise Transient
        return [artifact.name for artifact in saved]

    async with working(app):
        job = await draw.enqueue()
        assert await job.result(10) == names[::-1]
    for name in names:
        with await app.open_artifact(job.id, name) as file:
            assert file.read() == name.encode()


async def test_a_step_that_is_tried_again_saves_its_file_once(app: Benbi, folder: Path) -> None:
    tries: list[Artifact] = []

    @app.task
    def make(ctx: SyncContext) -> Artifact:
        def draw() -> Artifact:
            tries.append(ctx.save("page", f"try {len(tries)}".encode()))
            if len(tries) == 1:
                raise ConnectionError
            return tries[-1]

        return ctx.step(draw, retry=SOON)()

    async with working(app):
        artifact = await (await make.enqueue()).result(10)
    assert tries == [artifact, artifact] and isinstance(artifact, Artifact)
    assert len(list(folder.iterdir())) == 1


async def test_code_that_saves_at_another_place_finds_what_was_saved(app: Benbi) -> None:
    @app.task(retry=SOON)
    async def draw(ctx: Context) -> bytes:
        async def inside() -> Artifact:
            return await ctx.save("page", b"new")

        if ctx.attempt == 1:
            await ctx.save("page", b"old")
            raise Transient
        artifact = await ctx.step(inside)()
        with await app.open_artifact(ctx.job_id, artifact.name) as file:
            return file.read()

    async with working(app):
        assert await (await draw.enqueue()).result(10) == b"old"


async def test_a_save_that_failed_leaves_its_name_free(app: Benbi, tmp_path: Path) -> None:
    async def save(ctx: Context) -> Artifact:
        with pytest.raises(FileNotFoundError):
            await ctx.save("page", tmp_path / "missing")
        return await ctx.save("page", b"here")

    assert (await run(app, save)).size == 4


async def test_a_file_goes_with_an_event_and_the_record(app: Benbi) -> None:
    await run(app, lambda ctx: ctx.save("page", b"four"))
    (job,) = await app.jobs()
    told = [event.data for event in await app.events(job.id) if event.type == "artifact_saved"]
    assert told == [{"name": "page", "size": 4}]


async def test_a_lost_claim_shows_no_file_and_leaves_none(app: Benbi, folder: Path) -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Source:
        def __init__(self) -> None:
            self.chunks = [b"stale", b""]

        def read(self, _: int) -> bytes:
            if len(self.chunks) == 2:
                reading.set()
                go_on.wait(10)
            return self.chunks.pop(0)

    @app.task
    def draw(ctx: SyncContext) -> int:
        if ctx.attempt == 1:
            ctx.save("page", Source())  # type: ignore[arg-type]
        return ctx.attempt

    async with working(app):
        job = await draw.enqueue()
        await wait_until_async(reading.is_set)
        (worker,) = app.workers_here
        await app.store.write(take_away, worker._n)
        go_on.set()
        assert await job.result(10) == 2
        await wait_until_async(lambda: not list(folder.iterdir()))
    assert await app.artifacts(job.id) == []


async def test_a_save_under_way_ends_with_a_cancel_and_leaves_nothing(
    app: Benbi, folder: Path
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    class Endless:
        def read(self, _: int) -> bytes:
            reading.set()
            go_on.wait(10)
            return b"x"

    @app.task
    async def draw(ctx: Context) -> None:
        await ctx.save("page", Endless())  # type: ignore[arg-type]

    async with working(app):
        job = await draw.enqueue()
        await wait_until_async(reading.is_set)
        assert len(list(folder.iterdir())) == 1
        await job.cancel()
        await state_reached(app, job.id, "canceled")
        go_on.set()
        await wait_until_async(lambda: not list(folder.iterdir()))


# Removal.


async def saved(app: Benbi, content: bytes = b"x") -> str:
    """The id of a job that saved ``page``."""

    @app.task(name="saves", keep=0.001)
    async def saves(ctx: Context) -> None:
        await ctx.save("page", content)

    async with working(app):
        job = await saves.enqueue()
        await job.result(10)
    return job.id


async def test_retention_removes_the_files_of_a_job_with_it(app: Benbi, folder: Path) -> None:
    job_id = await saved(app)
    assert len(list(folder.iterdir())) == 1
    # The newest job stays, whatever its age.
    await app.task(name="newer")(_too_much).enqueue()
    upkeep = Upkeep(app.store, heartbeat_timeout=10)
    upkeep._prune_at = time.monotonic()
    await upkeep.round()
    with pytest.raises(JobNotFound):
        await app.get(job_id)
    assert list(folder.iterdir()) == []


async def test_a_retry_with_fresh_steps_forgets_the_files(app: Benbi) -> None:
    contents = iter([b"first", b"second"])

    @app.task(retry=1)
    async def draw(ctx: Context) -> None:
        await ctx.save("page", next(contents))
        raise RuntimeError

    async with working(app):
        job = await draw.enqueue()
        await state_reached(app, job.id, "failed")
        await app.retry(job.id, fresh=True)
        await state_reached(app, job.id, "failed")
    with await app.open_artifact(job.id, "page") as file:
        assert file.read() == b"second"


async def test_the_sweep_removes_what_nothing_records(app: Benbi, folder: Path) -> None:
    job_id = await saved(app)
    prefix = await app.store.read(artifacts.prefix)
    # As a crash leaves them: between writing and renaming, and between renaming and the record.
    for name in (f"{prefix}-0.part", f"{prefix}-1", "another-2", "a file of somebody's"):
        (folder / name).write_bytes(b"left")
    assert sweep(app.store) == 0, "they are too young to be told from a save that begins"
    assert sweep(app.store, time.time() + LATER) == 2
    assert {path.name for path in folder.iterdir()} > {"another-2", "a file of somebody's"}
    with await app.open_artifact(job_id, "page") as file:
        assert file.read() == b"x"


async def test_the_sweep_leaves_a_save_under_way_alone(app: Benbi, folder: Path) -> None:
    """However long it takes: its lock is held until its record is durable."""
    prefix = await app.store.read(artifacts.prefix)
    pending = app.store.files.save(prefix, "page", b"x", lambda: None)
    assert sweep(app.store, time.time() + LATER) == 0
    assert [path.name for path in folder.iterdir()] == [pending.file]
    pending.close()
    assert sweep(app.store, time.time() + LATER) == 1


async def test_the_sweep_asks_again_once_it_has_the_lock(app: Benbi, folder: Path) -> None:
    """What was recorded between its first look and the lock is recorded."""
    prefix = await app.store.read(artifacts.prefix)
    app.store.files.save(prefix, "page", b"x", lambda: None).close()
    (file,) = folder.iterdir()
    asked: list[bool] = []

    def is_recorded() -> bool:
        asked.append(True)
        return True

    assert not app.store.files.remove_orphan(file.name, is_recorded)
    assert asked and file.exists()


async def test_the_sweep_runs_with_the_upkeep(app: Benbi, folder: Path) -> None:
    await saved(app)
    prefix = await app.store.read(artifacts.prefix)
    orphan = folder / f"{prefix}-0"
    orphan.write_bytes(b"left")
    os.utime(orphan, (0, 0))
    upkeep = Upkeep(app.store, heartbeat_timeout=10)
    upkeep._sweep_at = time.monotonic()
    await upkeep.round()
    assert not orphan.exists()


# Where they are.


async def test_a_file_that_is_not_here_is_said_without_its_place(
    app: Benbi, tmp_path: Path
) -> None:
    job_id = await saved(app)
    async with Benbi(str(tmp_path / "jobs.db"), artifacts=tmp_path / "elsewhere") as other:
        with pytest.raises(ArtifactNotFound, match="BENBI_ARTIFACTS") as missing:
            await other.open_artifact(job_id, "page")
    assert str(tmp_path) not in str(missing.value)
    with pytest.raises(ArtifactNotFound, match="has no artifact 'other'"):
        await app.open_artifact(job_id, "other")


async def test_the_folder_may_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("by name", "by variable"):
        folder = tmp_path / place
        named = folder if place == "by name" else None
        monkeypatch.setenv("BENBI_ARTIFACTS", str(folder))
        async with Benbi(str(tmp_path / "jobs.db"), artifacts=named) as app:
            await saved(app)
        assert len(list(folder.iterdir())) == 1
    for wrong in (7, b"x"):
        with pytest.raises(ConfigurationError, match="artifacts="):
            Benbi(artifacts=wrong)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="max_artifact="):
        Benbi(max_artifact=0)


async def test_the_files_of_memory_go_with_the_app() -> None:
    app = Benbi(":memory:")
    async with app:
        job_id = await saved(app)
        _, path = await app.artifact_path(job_id, "page")
        assert path.read_bytes() == b"x"
    assert not path.parent.exists()


async def test_files_have_the_rights_of_the_database(tmp_path: Path, folder: Path) -> None:
    database = tmp_path / "jobs.db"
    async with Benbi(str(database)) as app:
        database.chmod(0o640)
        await saved(app)
    (file,) = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o640, 0o750)


async def test_files_belong_to_the_owner_of_their_job(app: Benbi) -> None:
    @app.task
    async def draw(ctx: Context) -> None:
        await ctx.save("page", b"x")

    async with working(app):
        job = await draw.options(owner="ann").enqueue()
        await job.result(10)
    assert len(await app.artifacts(job.id, owner="ann")) == 1
    for call in (
        app.artifacts(job.id, owner="bob"),
        app.open_artifact(job.id, "page", owner="bob"),
    ):
        with pytest.raises(JobNotFound):
            await call


async def test_the_blocking_forms_give_the_same(app: Benbi) -> None:
    job_id = await saved(app)

    def look() -> tuple[list[Artifact], bytes]:
        with app.open_artifact_sync(job_id, "page") as file:
            return app.artifacts_sync(job_id), file.read()

    assert await asyncio.to_thread(look) == (await app.artifacts(job_id), b"x")
    with pytest.raises(ConfigurationError):
        app.artifacts_sync(job_id)
