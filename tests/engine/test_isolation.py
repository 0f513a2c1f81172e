"""``isolation="process"``: the body runs in a child, which can be killed and may die."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benbi import Benbi, JobFailed, JobSkipped
from benbi.engine import frames
from benbi.engine.frames import packed
from benbi.errors import TaskDefinitionError
from benbi.job import Claim, ErrorRecord
from benbi.outcome import (
    Canceled,
    Completed,
    Failed,
    Lost,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    Suspended,
    decide,
)
from benbi.processes.ends import kill_group
from benbi.processes.groups import Groups
from benbi.retry import Retry
from benbi.store.lifecycle import Write
from tests.support.polling import wait_until, wait_until_async
from tests.support.processes import alive, pids_in
from tests.support.working import state_reached, working

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The tasks, on a database of this test."""
    monkeypatch.setenv("ISOLATED_DB", str(tmp_path / "jobs.db"))
    sys.modules.pop("tests.engine.isolated_tasks", None)
    found = importlib.import_module("tests.engine.isolated_tasks")
    yield found
    found.app.close_sync()


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


async def told(app: Benbi, job_id: str) -> list[tuple[str, str | None]]:
    return [(event.type, event.reason) async for event in app.handle(job_id).events()]


async def test_what_a_child_tells_is_told_as_by_any_job(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app):
        job = await tasks.tells.enqueue(4, str(traces))
        result = await job.result()
        types = [type for type, _ in await told(app, job.id)]
        assert types == ["created", "started", "progress", "partial", "step_completed", "completed"]
        assert result["doubled"] == 8
        assert result["key"] == f"{job.id}:1"
        assert pids_in(traces) == {result["pid"]}
        (line,) = await app.logs(job.id)
        assert (line.level, line.message) == ("WARNING", "said in the child")
        assert (result["around"], tasks.entered) == (0, []), "nothing is around an isolated body"


async def test_a_child_is_used_again(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app):
        pids = [(await (await tasks.tells.enqueue(n, str(traces))).result())["pid"] for n in (1, 2)]
        assert pids[0] == pids[1]
    wait_until(lambda: not alive(pids[0]), what="the idle child ends with its worker")


async def test_what_a_body_leaves_running_holds_up_no_other_job(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app, slots=1), asyncio.timeout(15):
        first = await (await tasks.leaves_a_thread_running.enqueue()).result()
        job = await tasks.tells.enqueue(1, str(traces))
        assert (await job.result())["pid"] != first
        assert (await app.get(job.id)).attempt == 1
        wait_until(lambda: not alive(first), what="it is thrown away")


async def test_steps_sleeps_and_asks_are_replayed(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app):
        job = await tasks.pauses.enqueue(str(traces))
        await state_reached(app, job.id, "input_required")
        await job.answer("Mai")
        assert await job.result() == "Mai 3"
        states = [
            (type, reason) for type, reason in await told(app, job.id) if type != "step_completed"
        ]
        assert states == [
            ("created", None),
            ("started", None),
            ("scheduled", "sleeping"),
            ("pending", "due"),
            ("started", None),
            ("input_required", "asked"),
            ("answered", "who"),
            ("pending", "answered"),
            ("started", None),
            ("completed", None),
        ]
        assert len(pids_in(traces)) == 1, "its step ran once"


@pytest.mark.parametrize(
    ("task", "how", "said", "types"),
    [
        ("dies", "SIGSEGV", "was killed by SIGSEGV", ["pending", "failed"]),
        ("dies_once", "exit", "exited with code 3", ["failed"]),
        ("dies_once", "gibberish", "sent what is no message", ["failed"]),
    ],
)
async def test_a_dead_child_is_a_loss_with_a_reason(
    tasks: Any, task: str, how: str, said: str, types: list[str]
) -> None:
    async with tasks.app as app, working(app):
        job = await getattr(tasks, task).enqueue(how)
        with pytest.raises(JobFailed, match=said):
            await job.result()
        record = await app.get(job.id)
        assert (record.reason, record.losses, record.failures) == ("lost", len(types), 0)
        lost = [event async for event in job.events() if event.reason == "lost"]
        assert [event.type for event in lost] == types
        assert all(said in event.data["message"] for event in lost)


async def test_a_loss_is_of_that_job_alone(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app):
        other = await tasks.listens.enqueue(str(traces))
        await wait_until_async(traces.with_name("started").exists)
        job = await tasks.dies_once.enqueue("SIGKILL")
        with pytest.raises(JobFailed):
            await job.result()
        record = await app.get(other.id)
        assert (record.state, record.attempt, record.losses) == ("running", 1, 0)
        await other.cancel()
        await state_reached(app, other.id, "completed")


@pytest.mark.parametrize("task", ["forks", "forks_in_thread"])
async def test_what_a_body_forks_can_not_speak_for_it(tasks: Any, traces: Path, task: str) -> None:
    async with tasks.app as app, working(app):
        for _ in range(2):
            assert await (await getattr(tasks, task).enqueue()).result() == "PARENT"
        assert (await (await tasks.tells.enqueue(1, str(traces))).result())["doubled"] == 2


async def test_what_an_earlier_job_says_is_not_taken_for_this_one(tasks: Any, traces: Path) -> None:
    gate = str(traces.with_name("gate"))
    async with tasks.app as app, working(app):
        first = await (await tasks.leaves_a_copy.enqueue(gate)).result()
        job = await tasks.opens.enqueue(gate)
        assert await job.result() != first, "in another child"
        record = await app.get(job.id)
        assert (record.attempt, record.losses, record.failures) == (2, 0, 0)


@pytest.mark.parametrize("apart", [False, True])
async def test_a_death_is_seen_while_a_copy_has_the_line(
    tasks: Any, traces: Path, apart: bool
) -> None:
    try:
        async with tasks.app as app, working(app):
            job = await tasks.dies_before_its_copy.enqueue(str(traces), apart)
            async with asyncio.timeout(10):
                with pytest.raises(JobFailed, match="exited with code 3"):
                    await job.result()
            (copy,) = pids_in(traces)
            if not apart:
                wait_until(lambda: not alive(copy), what="it is killed with the group")
    finally:
        for copy in pids_in(traces):
            with suppress(ProcessLookupError):
                os.kill(copy, signal.SIGKILL)


@pytest.mark.parametrize("task", ["closes_all", "closes_all_in_loop"])
async def test_who_closes_what_its_child_lives_by_is_lost(tasks: Any, task: str) -> None:
    async with tasks.app as app, working(app), asyncio.timeout(10):
        with pytest.raises(JobFailed, match="while it ran this job"):
            await (await getattr(tasks, task).enqueue()).result()


@pytest.mark.parametrize(("losses", "state"), [(0, "pending"), (1, "retrying"), (2, "failed")])
def test_a_loss_is_charged_as_for_a_dead_worker(losses: int, state: str) -> None:
    claim = Claim(1, 1, bytes(16), "work", "q", "", 5, 1, losses, 3, 3, 1, 1, None, 1, "{}", 1)
    decision = decide(claim, Lost("why"), Retry(3))
    assert (decision.state, decision.reason) == (state, "lost")
    assert (decision.losses, decision.failures) == (1, 0)


async def test_errors_keep_their_class(tasks: Any) -> None:
    async with tasks.app as app, working(app):
        for what, kind in {
            "permanent": "permanent",
            "memory": "unknown",
            "exit": "unknown",
        }.items():
            job = await tasks.raises.enqueue(what)
            event = await anext(
                event async for event in job.events() if event.type in ("failed", "retrying")
            )
            assert event.data["kind"] == kind, what
            record = await app.get(job.id)
            assert (record.failures, record.losses) == (1, 0), what


@pytest.mark.parametrize("task", ["tries", "tries_in_thread"])
async def test_what_needs_the_worker_is_refused_at_once(tasks: Any, task: str) -> None:
    async with tasks.app as app, working(app):
        for what in ("save", "wait", "run", "resource"):
            job = await getattr(tasks, task).enqueue(what)
            with pytest.raises(JobFailed, match=f"ctx.{what} does not work in a task with isol"):
                await job.result()
            record = await app.get(job.id)
            assert (record.error.type, record.error.kind) == ("Refused", "permanent")


async def test_a_secret_reaches_a_child_and_is_hidden_there(
    tasks: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BENBI_KEY", base64.b64encode(bytes(32)).decode())
    async with tasks.app as app, working(app):
        job = await tasks.charges.enqueue(token="sk-live-51H8m2")
        assert await job.result() == len("sk-live-51H8m2")
        assert [line.message for line in await app.logs(job.id)] == ["it is ***"]
    assert "sk-live" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "outcome",
    [
        Canceled(),
        Completed("1"),
        Failed(ErrorRecord("E", "m", "bug", "r"), 2.0),
        Lost("why"),
        Released("drain"),
        Skipped("why"),
        Snoozed(1.5),
        Suspended(asks=False, awaits=True),
    ],
)
def test_outcomes_survive_the_line(outcome: Outcome) -> None:
    frame = json.loads(packed(frames.from_outcome(outcome))[frames.LENGTH_BYTES :])
    assert frames.as_outcome(frame) == outcome


def test_a_claim_survives_the_line_without_its_token() -> None:
    claim = Claim(1, 7, bytes(16), "t", "q", "o", 5, 1, 0, 3, 3, 1, 1, None, 1, "{}", 1, 123)
    frame = json.loads(packed(frames.from_claim(claim))[frames.LENGTH_BYTES :])
    assert frames.as_claim(frame) == claim._replace(token=0)


@pytest.mark.parametrize(
    "said", [["finish", {}], ["log", {"piece": 1}], ["log", {"piece": 1, "body": "b", "n": 2}]]
)
def test_a_child_says_nothing_but_log_lines_to_the_database(said: Any) -> None:
    claim = Claim(1, 7, bytes(16), "t", "q", "o", 5, 1, 0, 3, 3, 1, 1, None, 1, "{}", 1)
    told = frames.from_write(Write(claim, 0)) | {"logs": [said]}
    with pytest.raises(TypeError, match="may not say"):
        frames.as_write(claim, told)


async def test_a_child_may_skip(tasks: Any) -> None:
    async with tasks.app as app, working(app):
        with pytest.raises(JobSkipped):
            await (await tasks.raises.enqueue("skip")).result()


async def test_a_cancel_kills_what_does_not_stop_with_all_it_started(
    tasks: Any, traces: Path
) -> None:
    async with tasks.app as app, working(app):
        job = await tasks.deaf.enqueue(str(traces))
        await wait_until_async(traces.with_name("started").exists)
        await job.cancel()
        record = await state_reached(app, job.id, "canceled")
        assert record.reason == "requested", "not abandoned: it was killed"
        assert len(pids_in(traces)) == 2
        wait_until(lambda: not any(map(alive, pids_in(traces))), what="its processes are gone")


@pytest.mark.parametrize("task", ["listens", "waits"])
async def test_a_cancel_is_heard_in_a_child(tasks: Any, traces: Path, task: str) -> None:
    async with tasks.app as app, working(app):
        job = await getattr(tasks, task).enqueue(str(traces))
        await wait_until_async(traces.with_name("started").exists)
        await job.cancel()
        await wait_until_async(traces.with_name("heard").exists, what="long before its grace")
        await state_reached(app, job.id, "completed" if task == "listens" else "canceled")


async def test_a_timeout_kills_a_child(tasks: Any, traces: Path) -> None:
    async with tasks.app as app, working(app):
        job = await tasks.late.enqueue(str(traces))
        with pytest.raises(JobFailed):
            await job.result()
        record = await app.get(job.id)
        assert record.error is not None and record.error.kind == "timeout"
        assert (record.failures, record.losses) == (1, 0)
        wait_until(lambda: not any(map(alive, pids_in(traces))), what="its process is gone")


async def test_a_drain_kills_and_gives_back_uncharged(tasks: Any, traces: Path) -> None:
    async with tasks.app as app:
        async with working(app, grace=0.0):
            job = await tasks.deaf.enqueue(str(traces))
            await wait_until_async(traces.with_name("started").exists)
        assert not any(map(alive, pids_in(traces))), "gone before the job was given back"
        record = await app.get(job.id)
        assert (record.state, record.losses, record.failures) == ("pending", 0, 0)


async def test_a_drain_while_a_child_starts(tasks: Any, traces: Path) -> None:
    async with tasks.app as app:
        async with working(app, grace=0.0):
            job = await tasks.tells.enqueue(1, str(traces))
            await state_reached(app, job.id, "running")
        record = await app.get(job.id)
        assert (record.state, record.losses, record.failures) == ("pending", 0, 0)


def test_what_a_child_could_not_import_is_refused(tmp_path: Path) -> None:
    app = Benbi(str(tmp_path / "jobs.db"))

    @app.task(isolation="process")
    def hidden() -> None: ...

    with pytest.raises(TaskDefinitionError, match="define it at the top of its module"):
        asyncio.run(app.work())


def test_another_isolation_is_refused(tmp_path: Path) -> None:
    app = Benbi(str(tmp_path / "jobs.db"))
    with pytest.raises(TaskDefinitionError, match=r'isolation=.thread.: "process", or None'):
        app.task(isolation="thread")(print_nothing)  # pyright: ignore


def print_nothing() -> None: ...


def test_a_sentinel_ends_what_its_process_left_behind(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, os\n"
        "from benbi.processes.groups import Groups\n"
        "groups = Groups(0.0)\n"
        "child = subprocess.Popen(['sleep', '600'], process_group=0, stdout=2)\n"
        "groups.add(child.pid)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(done.stdout)
    try:
        wait_until(lambda: not alive(pid), 5.0, "the sentinel killed it")
    finally:
        kill_group(pid)


def test_a_sentinel_leaves_alone_what_was_taken_back() -> None:
    groups = Groups(0.0)
    with subprocess.Popen(["sleep", "600"], process_group=0) as child:
        groups.add(child.pid)
        groups.discard(child.pid)
        groups.close()
        assert alive(child.pid)
        child.kill()
