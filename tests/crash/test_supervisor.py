"""``benbi work --processes``: whatever ends a worker, its jobs run again at once; whatever ends
the supervisor, no process is left."""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi
from tests.support import shadow
from tests.support.polling import wait_until
from tests.support.processes import alive, pids_in

ENDS = {
    "SIGKILL": "was killed by SIGKILL",
    "SIGSEGV": "was killed by SIGSEGV",
    "exit 7": "exited with code 7",
    "exit 2": "exited with code 2",
    "memory": "was killed by SIGABRT",
}


@dataclass
class Nest:
    """``benbi work`` with the tasks of nest.py, on a database of one test."""

    folder: Path
    tasks: Any
    environment: dict[str, str]
    started: list[subprocess.Popen[bytes]]

    @property
    def app(self) -> Benbi:
        return self.tasks.app

    @property
    def traces(self) -> Path:
        return self.folder / "traces"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def work(
        self, *options: str, target: str = "tests.crash.nest:app", **environment: str
    ) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "benbi", "work", target, *options],
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def workers(self) -> set[int]:
        """The worker processes that ever said that they work here."""
        return {int(pid) for pid in re.findall(r"worker \S+-(\d+)-\w+-\d+ · queues", self.log)}

    def until(self, text: str, seconds: float = 20.0) -> None:
        wait_until(lambda: text in self.log, seconds, f"{text!r} in {self.log}")

    def ended(self, job_id: str) -> Any:
        """The job's record, once it is final."""
        return wait_until(lambda: (job := self.app.get_sync(job_id)).final and job, 20.0)

    def gone(self, pids: Sequence[int] | set[int]) -> None:
        wait_until(lambda: not any(map(alive, pids)), 12.0, "no process is left")


@pytest.fixture
def nest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nest]:
    (tmp_path / "traces").mkdir()
    told = {"NEST_DB": str(tmp_path / "jobs.db"), "NEST_TRACES": str(tmp_path / "traces")}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    sys.modules.pop("tests.crash.nest", None)
    tasks = importlib.import_module("tests.crash.nest")
    found = Nest(tmp_path, tasks, os.environ | told, [])
    try:
        with found.app:
            shadow.watch(tmp_path / "jobs.db")
            yield found
    finally:
        for process in found.started:
            process.kill()
            process.wait()
    assert shadow.disagreements(tmp_path / "jobs.db") == []


@pytest.mark.parametrize(
    ("task", "hows"),
    [
        ("in_loop", ["SIGKILL", "memory"]),
        ("in_thread", ["SIGSEGV", "exit 7", "exit 2"]),
        ("in_child", ["SIGKILL", "memory"]),
    ],
)
def test_whatever_ends_a_process_its_job_runs_again_at_once(
    nest: Nest, task: str, hows: list[str]
) -> None:
    isolated = task == "in_child"
    # Without neighbours: each takes a worker of its own with it.
    supervisor = nest.work(
        "--processes",
        "1" if isolated else str(len(hows)),
        "--slots",
        str(len(hows)) if isolated else "1",
    )
    jobs = {how: nest.tasks.app.tasks[task].enqueue_sync(how) for how in hows}
    for how, job in jobs.items():
        record = nest.ended(job.id)
        assert (record.state, record.failures, record.losses) == ("completed", 0, 1), how
        events = nest.app.events_sync(job.id)
        assert [event.type for event in events].count("completed") == 1
        (lost,) = [event for event in events if event.reason == "lost"]
        assert lost.type == "pending" and ENDS[how] in lost.data["message"]
        ended_at = float((nest.folder / "ended" / how).read_text())
        assert lost.at.timestamp() - ended_at < 1.0, "released within a second"
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    nest.gone(nest.workers())


def test_a_worker_that_is_killed_is_buried(nest: Nest) -> None:
    job = nest.tasks.stays.enqueue_sync()
    nest.work("--processes", "1")
    (pid,) = wait_until(lambda: pids_in(nest.traces), 20.0)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: nest.app.get_sync(job.id).losses, 5.0, "long before its heartbeat is missed")


def test_too_many_processes_are_refused(nest: Nest) -> None:
    assert nest.work("--processes", "100000").wait(20) == 2
    assert "Must be <= 500" in nest.log


def test_a_task_that_exits_with_0_has_crashed(nest: Nest) -> None:
    job = nest.tasks.in_loop.enqueue_sync("exit 0")
    assert nest.work("--processes", "1", "--once").wait(20) == 0
    record = nest.app.get_sync(job.id)
    assert (record.state, record.losses) == ("completed", 1)
    assert "exited with code 0; another starts at once" in nest.log


@pytest.mark.parametrize("end", ["SIGKILL", "drain", "second signal", "SIGHUP"])
def test_no_process_is_left_whatever_ends_the_supervisor(nest: Nest, end: str) -> None:
    names = ["stays", "stays_in_thread", "stays_in_child"]
    jobs = [nest.app.tasks[name].enqueue_sync() for name in names]
    grace = "0.1" if end == "drain" else "1h"
    supervisor = nest.work("--processes", "2", "--grace", grace)
    wait_until(lambda: all(nest.app.get_sync(job.id).state == "running" for job in jobs), 20.0)
    # One process may run two of them; the isolated one has a child and a child of that.
    pids = wait_until(lambda: len(found := pids_in(nest.traces)) >= 3 and found, 20.0)
    match end:
        case "drain":
            supervisor.send_signal(signal.SIGTERM)
        case "second signal":
            supervisor.send_signal(signal.SIGINT)
            nest.until("draining")
            supervisor.send_signal(signal.SIGINT)
        case _:
            supervisor.send_signal(signal.Signals[end])
    expected = {"drain": 0, "second signal": 130}
    assert supervisor.wait(20) == expected.get(end, -getattr(signal, end, 0))
    nest.gone(pids | nest.workers())
    for job in jobs:
        record = nest.app.get_sync(job.id)
        assert (record.state, record.failures, record.losses) == ("pending", 0, 0)


def test_a_killed_worker_leaves_no_child_of_its_jobs(nest: Nest) -> None:
    nest.tasks.stays_in_child.enqueue_sync()
    worker = nest.work()
    pids = wait_until(lambda: len(found := pids_in(nest.traces)) == 2 and found, 20.0)
    worker.kill()
    nest.gone(pids)


def test_a_crash_loop_backs_off(nest: Nest) -> None:
    supervisor = nest.work("--processes", "1", NEST_BREAKS="1")
    for pause in ("at once", "in 0.5 s"):
        nest.until(f"exited with code 9; another starts {pause}")
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0


def test_a_wrong_setting_is_not_tried_again(nest: Nest) -> None:
    assert nest.work("--processes", "2", target="tests.crash.nowhere:app").wait(20) == 2
    assert "another starts" not in nest.log
    assert "exited with code 2 before it worked: a wrong setting" in nest.log


def test_a_task_that_can_not_be_isolated_is_a_wrong_setting(nest: Nest) -> None:
    target = nest.folder / "shop.py"
    target.write_text(
        "import os\nfrom benbi import Benbi\napp = Benbi(os.environ['NEST_DB'])\n"
        "def made():\n    def inner() -> None: ...\n    return inner\n"
        "app.task(made(), isolation='process')\n"
    )
    assert nest.work("--processes", "1", target=str(target)).wait(20) == 2
    assert "another starts" not in nest.log


def test_a_worn_process_ends_its_jobs_while_another_begins(nest: Nest) -> None:
    gate = nest.folder / "gate"
    slow = nest.tasks.waits_for.enqueue_sync(str(gate))
    supervisor = nest.work("--processes", "1", "--max-jobs", "3", "--grace", "0.1")
    wait_until(lambda: pids_in(nest.traces), 20.0)
    (first,) = pids_in(nest.traces)
    pids = {nest.tasks.who.enqueue_sync().result_sync() for _ in range(2)}
    assert pids == {first}
    nest.until("is replaced: it has run 3 jobs")
    assert nest.tasks.who.enqueue_sync().result_sync() != first
    gate.touch()
    assert slow.result_sync() == first
    nest.gone([first])
    assert nest.app.get_sync(slow.id).attempt == 1
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0


def test_a_process_runs_no_more_jobs_than_it_may(nest: Nest) -> None:
    jobs = [nest.tasks.who.enqueue_sync() for _ in range(2)]
    supervisor = nest.work("--processes", "1", "--max-jobs", "1", "--slots", "4")
    assert len({job.result_sync() for job in jobs}) == 2
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
    assert "grace 3153" not in nest.log


def test_a_process_that_grew_is_replaced(nest: Nest) -> None:
    supervisor = nest.work("--processes", "1", "--max-memory", "256M")
    large = nest.tasks.grows.enqueue_sync(300 * 2**20).result_sync()
    nest.until("is replaced: it holds")
    nest.gone([large])
    assert nest.tasks.who.enqueue_sync().result_sync() != large
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0


def test_a_limit_below_that_of_a_bare_process_is_refused(nest: Nest) -> None:
    assert nest.work("--max-memory", "64").wait(20) == 2
    assert "--max-memory 64 is 64 bytes" in nest.log and "write 512M or 2G" in nest.log


def test_a_process_that_is_too_large_at_once_backs_off(nest: Nest) -> None:
    nest.work("--processes", "1", "--max-memory", "256M", NEST_IS_LARGE="1")
    nest.until("MiB; another starts at once")
    nest.until("MiB; another starts in 0.5 s")


def test_a_worker_whose_threads_hang_makes_room_for_another(nest: Nest) -> None:
    worker = nest.work("--slots", "3")
    job = nest.tasks.stays_in_thread.enqueue_sync()
    wait_until(lambda: pids_in(nest.traces), 20.0)
    job.cancel_sync()
    assert worker.wait(20) == 70
    assert nest.ended(job.id).state == "canceled"


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
def test_once_ends_when_nothing_is_left(nest: Nest, options: list[str]) -> None:
    jobs = [nest.tasks.who.enqueue_sync() for _ in range(5)]
    crashing = nest.tasks.in_loop.enqueue_sync("exit 7") if options else jobs[0]
    later = nest.tasks.who.options(delay="1h").enqueue_sync()
    assert nest.work("--once", *options).wait(20) == 0
    states = {nest.app.get_sync(job.id).state for job in [*jobs, crashing]}
    assert states == {"completed"}
    assert nest.app.get_sync(later.id).state == "scheduled"


def test_a_changed_file_starts_the_workers_anew(nest: Nest) -> None:
    code = "from benbi import Benbi\napp = Benbi({!r})\n@app.task\ndef number() -> int: return {}\n"
    file = nest.folder / "shop.py"
    file.write_text(code.format(nest.environment["NEST_DB"], 1))
    supervisor = nest.work("--reload", target=str(file))

    async def next_number() -> int:
        return await (await nest.app.enqueue("number")).result()

    nest.until("· queues")
    assert asyncio.run(next_number()) == 1
    file.write_text("this is no Python\n")
    nest.until("another starts when a file has changed")
    file.write_text(code.format(nest.environment["NEST_DB"], 22))
    wait_until(lambda: len(nest.workers()) == 2, 20.0)
    assert asyncio.run(next_number()) == 22
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(20) == 0
