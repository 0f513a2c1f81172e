"""Forks: what is idle is closed before, what runs is refused in the child, nothing is shared."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable
from pathlib import Path

from benbi import Benbi, StoreError
from tests.support.working import working


def app_on(path: Path) -> Benbi:
    app = Benbi(str(path))

    @app.task
    async def note(number: int) -> int:
        return number

    return app


def in_child(body: Callable[[], None]) -> int:
    """The exit status of a forked child that runs ``body``."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_parent_and_child_go_on_after_a_fork(tmp_path: Path) -> None:
    app = app_on(tmp_path / "jobs.db")
    note = app.tasks["note"]
    note.enqueue_sync(1)
    assert in_child(lambda: [note.enqueue_sync(n) for n in (2, 3)].clear()) == 0
    note.enqueue_sync(4)
    numbers = [app.arguments_json_sync(job.id) for job in app.jobs_sync()]
    assert numbers == ['{"number":4}', '{"number":3}', '{"number":2}', '{"number":1}']
    app.close_sync()


async def test_a_fork_beside_a_running_worker_is_refused_in_the_child(tmp_path: Path) -> None:
    app = app_on(tmp_path / "jobs.db")

    def refused() -> None:
        asyncio.events._set_running_loop(None)
        try:
            app.tasks["note"].enqueue_sync(2)
        except StoreError as error:
            assert "forked while" in str(error)
            return
        raise AssertionError("the child must not use the inherited locks")

    async with app, working(app):
        job = await app.tasks["note"].enqueue(1)
        assert await job.result(10) == 1
        assert in_child(refused) == 0
        assert await (await app.tasks["note"].enqueue(3)).result(10) == 3


def test_several_loops_one_after_the_other(tmp_path: Path) -> None:
    app = app_on(tmp_path / "jobs.db")

    async def once(number: int) -> int:
        async with working(app):
            return await (await app.tasks["note"].enqueue(number)).result(10)

    assert [asyncio.run(once(number)) for number in (1, 2)] == [1, 2]
    app.close_sync()
