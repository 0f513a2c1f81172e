"""The story that the demo tells, and checks while it tells it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
from mcp.client import Client
from mcp_types import CallToolResult

from benbi import Benbi
from examples.giftgenius import client as tasks
from examples.giftgenius.analysis import weeks
from examples.giftgenius.models import Report
from examples.giftgenius.place import place_in
from examples.giftgenius.processes import Process, benbi, free_port
from examples.giftgenius.screen import Screen

ROOT = Path(__file__).resolve().parents[2]
TARGET = "examples.giftgenius.server:app"
HEARTBEAT_SECONDS = 3
KILL_AT = 0.4
TOO_LONG_SECONDS = 600.0


class NoAnswer(RuntimeError):
    """The tool said no; the message is what it said."""


class Story:
    """One showing: what was seen, and what it proves."""

    def __init__(self, screen: Screen, folder: Path, household: int, budget: float) -> None:
        self.screen = screen
        self.board = screen.board
        self.arguments = {"household_id": household, "budget": budget}
        self.folder = folder
        self.place = place_in(folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.began = time.time()
        self.events: list[dict[str, Any]] = []
        self.stack = AsyncExitStack()
        self.claims: list[tuple[str, bool]] = []
        self.killed_at = 0.0
        self.before_kill = 0
        # On a server a second worker is there from the start of the job on.
        self.second: asyncio.Task[Process] | None = None

    async def tell(self) -> Report:
        """The whole of it; the processes are gone when it returns, however it does."""
        async with asyncio.timeout(TOO_LONG_SECONDS), self.stack as stack:
            server = await self.start("server", "serve", TARGET, "--no-worker", *self._port())
            worker = await self.start("worker A", "work", TARGET)
            connection = Client(f"{self.url}/mcp", extensions=[tasks.Tasks()])
            client = await stack.enter_async_context(connection)
            job_id = await self.call(client)
            # The client waits from now on, and is never told that anything happened.
            waiting = asyncio.create_task(tasks.result(client.session, job_id))
            stack.callback(waiting.cancel)
            await self.follow(job_id, worker)
            answer = await waiting
            if answer.is_error:
                raise NoAnswer(_text(answer))
            report = self.judge(answer)
            await self.restart(client, server, job_id, answer)
            return report

    async def start(self, name: str, *arguments: str) -> Process:
        """Starts a ``benbi`` process, and sees to it that it ends."""
        process = await Process.start(
            name,
            benbi(*arguments),
            ready=self.url if "serve" in arguments else "worker",
            environment={
                "BENBI_URL": self.place.url,
                "BENBI_ARTIFACTS": str(self.folder / "artifacts"),
                "GIFT_HEARTBEAT": str(HEARTBEAT_SECONDS),
            },
            folder=ROOT,
            log=self.folder / f"{name.replace(' ', '-')}.log",
        )
        self.stack.push_async_callback(process.end)
        self.board.processes[name] = (process.pid, "running", "green")
        self.screen.tell(name, f"started (pid {process.pid}): benbi {' '.join(arguments)}")
        return process

    async def kill(self, process: Process) -> None:
        """Kills a process as a crash would, and says so."""
        code = await process.kill()
        self.board.processes[process.name] = (
            process.pid,
            f"killed with SIGKILL after {self.board.seconds:.1f} s",
            "red",
        )
        self.screen.tell("kill -9", f"{process.name} (pid {process.pid}) is dead", "bold red")
        self.claim(f"{process.name} died of SIGKILL", code == -signal.SIGKILL)

    async def call(self, client: Client) -> str:
        """Calls the tool, as any MCP client would; returns the job's id."""
        before = time.monotonic()
        created = await client.session.call_tool(
            "deep_gift_analysis", self.arguments, allow_claimed=True
        )
        took = 1000 * (time.monotonic() - before)
        if isinstance(created, CallToolResult):
            raise NoAnswer(_text(created))
        assert isinstance(created, tasks.Created)
        job_id = created.task_id
        self.board.job_id = job_id
        self.screen.tell("client", f"called deep_gift_analysis{tuple(self.arguments.values())}")
        self.screen.tell("client", f"has its answer after {took:.0f} ms: job {job_id}", "bold")
        # Read by this process, which has nothing of the server's but the database.
        async with Benbi(self.place.url) as reader:
            stored = await reader.get(job_id)
        self.claim("the job is on disk, with its id", stored.task == "deep_gift_analysis")
        return job_id

    async def follow(self, job_id: str, worker: Process) -> None:
        """Shows events as they come; kills the worker in the middle and starts another."""
        address = f"{self.url}/api/jobs/{job_id}/events"
        async with (
            httpx2.AsyncClient(timeout=None) as http,
            http.sse(address) as stream,
            asyncio.TaskGroup() as group,
        ):
            async for frame in stream:
                if not frame.data:
                    continue
                event = json.loads(frame.data)
                if event["seq"] is not None:
                    self.events.append(event)
                self.show(event)
                if self.place.server and event["type"] == "started" and not self.second:
                    self.second = group.create_task(self.start("worker B", "work", TARGET))
                if not self.before_kill and self.counted() >= KILL_AT * self.board.weeks:
                    self.before_kill = self.counted()
                    group.create_task(self.crash(worker))

    async def crash(self, worker: Process) -> None:
        """Kills the worker in the middle of a week, and starts its successor."""
        self.board.lost_week = self.before_kill + 1
        self.killed_at = time.time()
        await self.kill(worker)
        self.screen.tell(
            "worker B",
            f"is {'waiting' if self.second else 'on its way'}; the job is free once worker A has "
            f"missed its heartbeat ({HEARTBEAT_SECONDS} s in this demo, 10 s by default)",
        )
        await (self.second or self.start("worker B", "work", TARGET))

    def counted(self) -> int:
        """How many weeks are on record."""
        return len(self.board.recorded)

    def show(self, event: dict[str, Any]) -> None:
        """What one event changes on the board."""
        board, data = self.board, event["data"] or {}
        match event["type"]:
            case "progress":
                # A replay passes through what was reported before.
                if data["done"] >= board.done:
                    board.done, board.message = data["done"], data["message"]
            case "step_completed" if data["name"] == "count_week":
                board.recorded[self.counted() + 1] = event["attempt"]
            case "step_completed":
                self.tell_event(event, f"step {data['name']} is on record")
            case "partial":
                board.draft = f"after week {data['after_weeks']}: {'; '.join(data['ideas'])}"
                self.tell_event(event, f"draft {board.draft}", "yellow")
            case kind:
                board.state = "running" if kind == "started" else kind
                board.attempt = event["attempt"]
                why = f" ({event['reason']})" if event["reason"] else ""
                self.tell_event(event, f"{kind}{why}, attempt {event['attempt']}")
                if kind == "started" and self.killed_at:
                    gap = _timestamp(event) - self.killed_at
                    self.tell_event(event, f"goes on {gap:.1f} s after the kill", "bold green")

    def tell_event(self, event: dict[str, Any], text: str, style: str = "") -> None:
        """An event in the log, at the second in which it happened."""
        seconds = _timestamp(event) - self.began
        self.screen.tell(f"event {event['seq']}", text, style, seconds=seconds)

    def judge(self, answer: CallToolResult) -> Report:
        """What the events and the answer prove."""
        # A step_completed event carries what tells its step from all others of the job.
        steps = Counter(
            json.dumps(event["data"], sort_keys=True)
            for event in self.events
            if event["type"] == "step_completed"
        )
        types = Counter(event["type"] for event in self.events)
        counted = self.board.recorded
        first = sum(attempt == 1 for attempt in counted.values())
        attempts = max((event["attempt"] for event in self.events), default=0)
        numbers = [event["seq"] for event in self.events]
        self.claim("its worker was killed in the middle", 0 < self.before_kill < len(weeks()))
        self.claim(f"another worker took the job over, in attempt {attempts}", attempts >= 2)
        self.claim(
            f"the {first} weeks on record were not counted again, "
            f"only the {len(counted) - first} that were missing",
            self.before_kill <= first < len(counted) == len(weeks()),
        )
        self.claim("each step was recorded exactly once", set(steps.values()) == {1})
        self.claim("the job has one end", types["completed"] == 1)
        self.claim("its event log has no gap", numbers == list(range(1, len(numbers) + 1)))
        self.claim("the client that made the call got the result", not answer.is_error)
        # A durable tool answers with one envelope: job, state, and the result.
        content = answer.structured_content or {}
        report = Report.model_validate(content["result"])
        self.screen.tell("client", f"has the result: {len(report.ideas)} ideas", "bold green")
        self.claim("all 1.47 million receipt lines were read", report.lines_read > 1_469_000)
        self.claim("the ideas fit the budget together", 0 < report.total <= report.budget)
        return report

    async def restart(
        self, client: Client, server: Process, job_id: str, answer: CallToolResult
    ) -> None:
        """Kills the server, starts it again, and asks the same client for the same job."""
        await self.kill(server)
        await self.start("new server", "serve", TARGET, "--no-worker", *self._port())
        task = await tasks.get(client.session, job_id)
        again = CallToolResult.model_validate(task.result or {"content": []})
        self.screen.tell("client", f"asks for job {job_id} again: {task.status}", "bold green")
        self.claim(
            "after the server's restart the job id still answers, with the same result",
            task.status == "completed" and again.structured_content == answer.structured_content,
        )

    def claim(self, text: str, held: bool) -> None:
        """Notes what was promised, and whether it was so."""
        self.claims.append((text, held))

    def _port(self) -> tuple[str, str]:
        return "--port", str(self.port)


def _text(answer: CallToolResult) -> str:
    return " ".join(getattr(part, "text", "") for part in answer.content)


def _timestamp(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["at"]).timestamp()
