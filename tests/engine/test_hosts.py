"""Programs that host an app in ways of their own: nothing hangs, nothing accepted is lost."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from benbi import Benbi
from tests.support import wait_until
from tests.support.working import working

CALLS = 40
# A program that hangs at its end is killed, and the test fails.
AT_MOST_SECONDS = 20


def app_on(path: Path) -> Benbi:
    app = Benbi(str(path))

    @app.task
    async def note(number: int) -> int:
        return number

    return app


def numbers_in(path: Path) -> list[int]:
    """What the jobs of a file were called with, in order."""
    with Benbi(str(path)) as app:
        texts = [app.arguments_json_sync(job.id) for job in app.jobs_sync(limit=1000)]
    return sorted(int(re.findall(r"\d+", text)[0]) for text in texts)


def run(tmp_path: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program beside a file ``jobs.db`` to its end."""
    script = tmp_path / "program.py"
    head = """
        import asyncio, sys, threading
        from benbi import Benbi

        app = Benbi("jobs.db", heartbeat_timeout=1.0)

        @app.task
        async def note(number: int) -> int:
            return number
    """
    script.write_text(dedent(head) + dedent(program))
    return subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=AT_MOST_SECONDS,
    )


def test_gunicorn_with_preload(tmp_path: Path) -> None:
    """The app is opened by the import, in the parent; its workers are forks of that."""
    (tmp_path / "shop.py").write_text(
        dedent("""
        from benbi import Benbi

        app = Benbi("jobs.db")

        @app.task
        async def note(number: int) -> int:
            return number

        note.enqueue_sync(0)

        def wsgi(environ, start_response):
            job = note.enqueue_sync(int(environ["QUERY_STRING"]))
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [job.id.encode()]
        """)
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "gunicorn.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "shop:wsgi", "--preload", "--workers", "2"),
                *("--threads", "4", "--bind", f"127.0.0.1:{port}", "--graceful-timeout", "5"),
            ],
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(lambda: log.read_text().count("Booting worker") == 2, timeout=AT_MOST_SECONDS)
        with ThreadPoolExecutor(8) as pool:
            ids = set(pool.map(lambda n: _get(f"http://127.0.0.1:{port}/?{n}"), range(1, CALLS)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(AT_MOST_SECONDS) == 0, log.read_text()
    finally:
        server.kill()
        server.wait()
    assert len(ids) == CALLS - 1
    assert numbers_in(tmp_path / "jobs.db") == list(range(CALLS))


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=AT_MOST_SECONDS) as response:
        return response.read().decode()


def test_several_loops_at_once(tmp_path: Path) -> None:
    """Each thread has a loop of its own and follows its own job; one of them works."""
    app = app_on(tmp_path / "jobs.db")
    stop = threading.Event()

    async def work() -> None:
        async with working(app):
            while not stop.is_set():
                await asyncio.sleep(0.01)

    async def follow(number: int) -> list[int]:
        jobs = [await app.tasks["note"].enqueue(number) for _ in range(5)]
        return [await job.result(AT_MOST_SECONDS) for job in jobs]

    with ThreadPoolExecutor(5) as pool:
        worker = pool.submit(asyncio.run, work())
        try:
            found = list(pool.map(lambda number: asyncio.run(follow(number)), range(4)))
        finally:
            stop.set()
        worker.result(AT_MOST_SECONDS)
    assert found == [[number] * 5 for number in range(4)]
    app.close_sync()


@pytest.mark.parametrize("ending", ["pass", "sys.exit(3)", "raise RuntimeError"])
def test_an_interpreter_that_ends_while_threads_enqueue(tmp_path: Path, ending: str) -> None:
    """Nobody closes the app: what was accepted is there, and the process ends."""
    done = run(
        tmp_path,
        f"""
        accepted = threading.Semaphore(0)

        def enqueue(first: int) -> None:
            for number in range(first, first + 10_000):
                note.enqueue_sync(number)
                print(f"{{number}}\\n", end="", flush=True)
                accepted.release()

        for first in (0, 100_000, 200_000):
            threading.Thread(target=enqueue, args=(first,), daemon=True).start()
        for _ in range(30):
            accepted.acquire()
        {ending}
        """,
    )
    assert done.returncode == {"pass": 0, "sys.exit(3)": 3}.get(ending, 1), done.stderr
    told = {int(line) for line in done.stdout.split()}
    assert len(told) >= 30
    assert told <= set(numbers_in(tmp_path / "jobs.db"))


def test_an_interpreter_that_ends_while_a_worker_runs(tmp_path: Path) -> None:
    """A worker in a daemon thread is cut off; its jobs are finished by the next."""
    done = run(
        tmp_path,
        """
        begun = threading.Semaphore(0)

        @app.task(retry=3)
        async def wait(number: int) -> int:
            begun.release()
            await asyncio.Event().wait()
            return number

        threading.Thread(target=asyncio.run, args=(app.work(),), daemon=True).start()
        for number in range(5):
            wait.enqueue_sync(number)
        for _ in range(5):
            begun.acquire()
        """,
    )
    assert done.returncode == 0, done.stderr
    app = Benbi(str(tmp_path / "jobs.db"), heartbeat_timeout=1.0)

    @app.task
    async def wait(number: int) -> int:
        return number

    async def finish() -> list[int]:
        async with app, working(app):
            jobs = await app.jobs(limit=10)
            return sorted([await app.handle(job.id).result(AT_MOST_SECONDS) for job in jobs])

    assert asyncio.run(finish()) == list(range(5))


def test_a_loop_that_ends_with_enqueues_and_a_worker_under_way(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        async def main() -> None:
            async def one(number: int) -> None:
                await note.enqueue(number)
                print(f"{number}\\n", end="", flush=True)

            worker = asyncio.create_task(app.work())
            tasks = [asyncio.create_task(one(number)) for number in range(200)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

        asyncio.run(main())
        asyncio.run(main())
        """,
    )
    assert done.returncode == 0, done.stderr
    told = [int(line) for line in done.stdout.split()]
    stored = numbers_in(tmp_path / "jobs.db")
    assert told
    assert all(told.count(number) <= stored.count(number) for number in set(told))


def test_a_worker_that_can_not_start_is_told_on_entering(tmp_path: Path) -> None:
    """The block never begins: it might wait for ever for a worker that is not there."""
    done = run(
        tmp_path,
        """
        @app.task(isolation="process")
        def apart() -> None: ...

        async def main():
            async with app, app.working():
                print("the block began")
                await (await apart.enqueue()).result()

        asyncio.run(main())
        """,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert "defined in the script that runs" in done.stderr.splitlines()[-1]


class Dying(Benbi):
    """Its worker starts, and dies when it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.deadly = asyncio.Event()
        self.canceled = False

    async def work(self, *args: Any, **settings: Any) -> int:
        stop = asyncio.Event()
        work = asyncio.create_task(super().work(*args[:2], stop, *args[3:], **settings))
        await self.deadly.wait()
        stop.set()
        await work
        if self.canceled:
            raise asyncio.CancelledError
        raise OSError("the worker died")


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError])
async def test_a_block_ends_when_its_worker_dies(tmp_path: Path, error: type[Exception]) -> None:
    app = Dying(str(tmp_path / "jobs.db"))
    app.canceled = error is asyncio.CancelledError

    @app.task
    async def note(number: int) -> int:
        return number

    with pytest.raises(error):
        async with app, app.working():
            assert await (await note.enqueue(1)).result(10) == 1
            app.deadly.set()
            await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_a_block_goes_on_when_its_app_is_closed_within(tmp_path: Path) -> None:
    app = app_on(tmp_path / "jobs.db")
    async with app.working():
        await app.close()
        assert await app.jobs() == []
    await app.close()
