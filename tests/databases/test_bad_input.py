"""Bad input: refused with what is wrong and what to do, and nothing is half stored."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context, JobFailed
from benbi.errors import (
    AnswerRefused,
    BenbiError,
    ConfigurationError,
    ForeignDatabase,
    IdempotencyConflict,
    InvalidArguments,
    JobNotFound,
    NotEncodable,
    PayloadTooLarge,
    Refused,
    SchemaTooNew,
    StoreError,
    StoreFull,
    StoreReadOnly,
    UnknownTask,
)
from benbi.store.database import Transaction
from tests.shape.source import ROOT
from tests.support.working import state_reached, working

MEBIBYTE = 1024 * 1024
TABLES = ["jobs", "arguments", "events", "results", "steps", "questions", "progress"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
async def app(path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(path)) as app:

        @app.task
        async def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task
        async def note(text: str) -> str:
            return text

        yield app


def stored(path: Path) -> dict[str, int]:
    """Rows in each table that a job touches."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM benbi_{table}").fetchone()[0]
            for table in TABLES
        }


NOTHING = dict.fromkeys(TABLES, 0)


# Calls.


@pytest.mark.parametrize(
    ("name", "arguments", "error", "said"),
    [
        ("subtract", {"a": 1}, UnknownTask, "subtract"),
        ("", {}, UnknownTask, ""),
        ("add", {"a": "many"}, InvalidArguments, "a"),
        ("add", {}, InvalidArguments, "a"),
        ("add", {"a": 1, "c": 2}, InvalidArguments, "c"),
        ("add", {"a": None}, InvalidArguments, "a"),
        ("add", {"a": float("nan")}, Refused, "a"),
        ("note", {"text": "\ud800"}, Refused, "text"),
        ("note", {"text": {1, 2}}, Refused, "text"),
        ("note", {"text": "x" * 5 * MEBIBYTE}, PayloadTooLarge, "5,242,"),
    ],
)
async def test_a_bad_call_is_refused_by_name_and_stores_nothing(
    app: Benbi, path: Path, name: str, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as refusal:
        await app.enqueue(name, arguments)
    assert said in str(refusal.value)
    assert stored(path) == NOTHING


async def test_an_unknown_task_says_what_is_known(app: Benbi) -> None:
    with pytest.raises(UnknownTask, match=r"known are add, note"):
        await app.enqueue("subtract", {"a": 1})


async def test_a_payload_that_is_too_large_names_size_limit_and_remedy(app: Benbi) -> None:
    with pytest.raises(PayloadTooLarge) as refusal:
        await app.enqueue("note", {"text": "x" * 5 * MEBIBYTE})
    said = str(refusal.value)
    assert "5,242,891" in said and "1,048,576" in said
    assert "pass a reference" in said and "max_payload" in said


async def test_who_raises_the_limit_may_send_more(path: Path) -> None:
    async with Benbi(str(path), max_payload=8 * MEBIBYTE) as app:

        @app.task
        async def size_of(text: str) -> int:
            return len(text)

        async with working(app):
            job = await size_of.enqueue("x" * 5 * MEBIBYTE)
            assert await job.result(20) == 5 * MEBIBYTE


async def test_one_bad_call_among_many_stores_none_of_them(app: Benbi, path: Path) -> None:
    note = app.tasks["note"]
    await note.options(key="k").enqueue("first")
    before = stored(path)
    calls = [note.call("fine"), note.options(key="k").call("other"), note.call("fine too")]
    with pytest.raises(IdempotencyConflict):
        await app.enqueue_many(calls)
    with pytest.raises(PayloadTooLarge):
        await app.enqueue_many([note.call("fine"), note.call("x" * 2 * MEBIBYTE)])
    assert stored(path) == before


async def test_more_than_one_transaction_takes_is_refused_with_the_remedy(
    app: Benbi, path: Path
) -> None:
    call = app.tasks["add"].call(1)
    with pytest.raises(Refused, match="atomic=False"):
        await app.enqueue_many([call] * 10_001)
    assert stored(path) == NOTHING


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"when": float("inf")}, r"\$\.when"),
        ({1, 2}, "set"),
        ("x" * 2 * MEBIBYTE, "1,048,576"),
        ("\ud800", "result"),
    ],
)
async def test_a_result_that_can_not_be_stored_fails_the_job_once(
    app: Benbi, result: object, said: str
) -> None:
    @app.task(retry=5)
    async def odd() -> Any:
        return result

    async with working(app):
        job = await odd.enqueue()
        with pytest.raises(JobFailed, match=said):
            await job.result(10)
    record = await job.get()
    assert (record.attempt, record.state) == (1, "failed")
    assert await app.result_json(job.id) is None


async def test_a_bad_answer_leaves_the_question_open(app: Benbi) -> None:
    @app.task
    async def asks(ctx: Context) -> int:
        return await ctx.ask("How many?", int, key="many")

    async with working(app):
        job = await asks.enqueue()
        before = await state_reached(app, job.id, "input_required")
        for answer, question in [("lots", None), (3, "few"), (None, None)]:
            with pytest.raises(AnswerRefused):
                await job.answer(answer, question=question)
        assert await job.get() == before
        await job.answer(3)
        assert await job.result(10) == 3
        with pytest.raises(AnswerRefused):
            await job.answer(4)


@pytest.mark.parametrize("job_id", ["", "nonsense", "1", "00000000-0000-0000-0000-000000000000"])
async def test_an_id_of_no_job_is_told_as_that(app: Benbi, job_id: str) -> None:
    for asked in (app.get, app.cancel, app.retry, app.events, app.result_json):
        with pytest.raises(JobNotFound):
            await asked(job_id)


# Files.


def opening(path: Path | str) -> None:
    app = Benbi(str(path))
    try:
        app.jobs_sync()
    finally:
        app.close_sync()


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_bytes(b"dear diary\n" * 500)
    with pytest.raises(ForeignDatabase, match="choose another file"):
        opening(path)
    assert path.read_bytes() == b"dear diary\n" * 500


def make_database(path: Path, jobs: int = 50) -> None:
    app = Benbi(str(path))

    @app.task
    async def work(text: str) -> None: ...

    app.enqueue_many_sync([work.call("x" * 100) for _ in range(jobs)])
    app.close_sync()


def test_a_damaged_file_is_named_as_such(path: Path) -> None:
    make_database(path)
    raw = bytearray(path.read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    path.write_bytes(raw)
    with pytest.raises(ForeignDatabase, match="restore it from a copy"):
        opening(path)
    assert path.read_bytes() == raw


def test_a_file_that_was_cut_off_is_named_as_such(path: Path) -> None:
    make_database(path)
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(ForeignDatabase):
        opening(path)


def test_tables_of_our_names_that_are_not_ours_are_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE benbi_jobs (title TEXT)")
        connection.execute("INSERT INTO benbi_jobs VALUES ('clerk')")
        connection.commit()
    with pytest.raises(ForeignDatabase, match="benbi_jobs"):
        opening(path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM benbi_jobs").fetchall() == [("clerk",)]
        names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert names == [("benbi_jobs",)]


def test_a_file_with_the_users_own_tables_takes_ours_beside_them(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
        connection.execute("INSERT INTO customers VALUES ('mai')")
        connection.commit()
    make_database(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM customers").fetchall() == [("mai",)]


def test_a_database_of_newer_code_is_refused_and_left_as_it_was(path: Path) -> None:
    make_database(path, 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO benbi_migrations VALUES (9999, 'later', 99, 0)")
        connection.commit()
    before = stored(path)
    app = Benbi(str(path))

    @app.task
    async def work(text: str) -> None: ...

    with pytest.raises(SchemaTooNew, match="pip install -U benbi"):
        work.enqueue_sync("x")
    app.close_sync()
    assert stored(path) == before


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("{folder}/missing/jobs.db", "does not exist; make it"),
        ("{folder}", "can not be opened"),
        ("redis://localhost", "redis"),
        ("mysql://localhost/jobs", "mysql"),
    ],
)
def test_a_place_that_can_not_be_says_what_to_do(tmp_path: Path, url: str, said: str) -> None:
    with pytest.raises(BenbiError, match=said):
        opening(url.format(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def run(script: str, *words: str, cwd: Path | str = ROOT) -> str:
    """What the script prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


REFUSED = """
import sys
from benbi import Benbi
from benbi.errors import BenbiError
{prepare}
app = Benbi(sys.argv[1])

@app.task
async def work(text: str) -> None: ...

try:
    work.enqueue_sync("x")
except BenbiError as error:
    print(type(error).__name__, error)
else:
    print("accepted")
"""
NO_OVERRIDES = "from tests.support.rights import give_up_overrides; give_up_overrides()"


@pytest.mark.parametrize("url", ["jobs.db", "sqlite:///jobs.db", "./jobs.db"])
def test_a_relative_path_in_the_root_folder_is_refused(url: str) -> None:
    said = run(REFUSED.format(prepare=""), url, cwd="/")
    assert said.startswith("ConfigurationError")
    assert "give an absolute one" in said
    assert not Path("/jobs.db").exists()


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody may write; what is put in it before it is closed may be read."""
    folder = tmp_path / "closed"
    folder.mkdir()
    yield folder
    folder.chmod(0o755)


def test_a_folder_that_can_not_be_written_is_named(closed_folder: Path) -> None:
    closed_folder.chmod(0o555)
    said = run(REFUSED.format(prepare=NO_OVERRIDES), str(closed_folder / "jobs.db"))
    assert said.startswith((StoreError.__name__, StoreReadOnly.__name__)), said
    assert str(closed_folder) in said and "rights" in said
    assert list(closed_folder.iterdir()) == []


@pytest.mark.parametrize("folder_mode", [0o555, 0o755])
def test_a_file_that_can_not_be_written_is_named(closed_folder: Path, folder_mode: int) -> None:
    path = closed_folder / "jobs.db"
    make_database(path, 3)
    before = path.read_bytes()
    path.chmod(0o444)
    closed_folder.chmod(folder_mode)
    said = run(REFUSED.format(prepare=NO_OVERRIDES), str(path))
    assert said.startswith(StoreReadOnly.__name__), said
    assert str(path) in said and "rights" in said
    assert path.read_bytes() == before


# A full disk.


def let_grow(tx: Transaction, pages: int | None) -> None:
    """The database may grow by so many pages, and is full then; None: as it likes."""
    cursor = tx._cursor  # type: ignore[attr-defined]
    ((count,),) = cursor.execute("PRAGMA page_count").fetchall()
    most = 1 << 30 if pages is None else count + pages
    cursor.execute(f"PRAGMA max_page_count = {most}").fetchall()


async def test_a_full_disk_refuses_whole_jobs_and_recovers(app: Benbi, path: Path) -> None:
    note = app.tasks["note"]
    accepted = [(await note.enqueue("before")).id]
    await app.store.write(let_grow, 60)
    with pytest.raises(StoreFull, match="the disk is full; nothing was stored"):
        while True:
            accepted.append((await note.enqueue("x" * 50_000)).id)
    rows = stored(path)
    assert rows["jobs"] == rows["arguments"] == rows["events"] == len(accepted)
    with pytest.raises(StoreFull):
        await app.enqueue_many([note.call("x" * 50_000)] * 3)
    assert stored(path) == rows
    assert len(await app.jobs()) == len(accepted), "reading goes on"
    await app.store.write(let_grow, None)
    accepted.append((await note.enqueue("x" * 50_000)).id)
    assert {job.id for job in await app.jobs()} == set(accepted)


FILL = """
import json, sys
from pathlib import Path
from benbi import Benbi
from benbi.errors import StoreError, StoreFull

app = Benbi(sys.argv[1])

@app.task
async def work(text: str) -> None: ...

work.enqueue_sync("before")
accepted, refused = 1, []
while not refused:
    try:
        work.enqueue_sync("x" * 20_000)
        accepted += 1
    except StoreError as error:
        refused.append(f"{type(error).__name__}: {error}")
before = len(app.jobs_sync(limit=10_000))
for file in sys.argv[2:]:
    Path(file).unlink()
    work.enqueue_sync("after")
    accepted += 1
jobs = app.jobs_sync(limit=10_000)
app.close_sync()
print(json.dumps([accepted, len(jobs), before, refused]))
"""
# A small file system of our own, where this process may make one.
PRIVATE = ["unshare", "--user", "--map-root-user", "--mount"]


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run([*PRIVATE, *probe], capture_output=True).returncode == 0


@pytest.mark.parametrize("way", ["limit", *(["disk"] if can_mount() else [])])
def test_a_disk_that_fills_up_loses_nothing_that_was_accepted(tmp_path: Path, way: str) -> None:
    """``disk``: a file system of 3 MiB with a file that makes room; ``limit``: of the process."""
    folder = tmp_path / "disk"
    folder.mkdir()
    script = tmp_path / "fill.py"
    script.write_text(FILL, "utf-8")
    command = [sys.executable, str(script), str(folder / "jobs.db")]
    if way == "disk":
        shell = (
            f"mount -t tmpfs -o size=3m none {folder} && "
            f'head -c 1048576 /dev/zero > {folder}/filler && exec "$@" {folder}/filler'
        )
        command = [*PRIVATE, "sh", "-c", shell, "sh", *command]

    def limit() -> None:
        if way == "limit":
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MEBIBYTE, 2 * MEBIBYTE))

    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])},
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    accepted, there, before, (refused,) = json.loads(done.stdout)
    assert there == accepted
    assert before == accepted - (way == "disk")
    assert str(folder / "jobs.db") in refused and "nothing was stored" in refused
    if way == "disk":
        assert refused.startswith(StoreFull.__name__)


def test_what_the_tests_above_name_is_told_apart() -> None:
    """Each of these is caught on its own by who can do something about it."""
    assert issubclass(StoreFull, StoreError) and issubclass(StoreReadOnly, StoreError)
    assert issubclass(NotEncodable, Refused)
    assert not issubclass(ConfigurationError, StoreError)
