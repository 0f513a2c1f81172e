"""The Tasks extension: a call is a task on disk, watched, asked, canceled and told truthfully."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, CallToolResult

import benbi.mcp
from benbi import Benbi, State
from tests.doors.mcp.clients import (
    Task,
    TasksExtension,
    accept,
    cancel,
    get,
    listen,
    over,
    reached,
    start,
    update,
)
from tests.doors.mcp.gifts import register
from tests.support.working import working

NOBODYS = "01a22d48-63b7-77a1-a83a-9f096f2062c6"


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return register(Benbi(str(tmp_path / "jobs.db")))


async def answers(*_: Any) -> Any:
    raise AssertionError("tasks are answered by tasks/update")


@asynccontextmanager
async def connected(
    app: Benbi, *, work: bool = True, asks: bool = True, extension: TasksExtension | None = None
) -> AsyncIterator[Client]:
    server = MCPServer("gifts", **benbi.mcp.parts(app, prefix="gifts"))
    client = Client(
        server,
        extensions=[extension or TasksExtension()],
        elicitation_callback=answers if asks else None,
    )
    async with app:
        if not work:
            async with client:
                yield client
            return
        async with working(app), client:
            yield client


def waiting(tmp_path: Path, numbers: int = 3) -> dict[str, Any]:
    """Arguments of a count that waits for the file ``gate``."""
    journal = str(tmp_path / "journal")
    return {"numbers": numbers, "gate": str(tmp_path / "gate"), "journal": journal}


async def test_a_call_is_a_task_on_disk_before_it_is_answered(app: Benbi, tmp_path: Path) -> None:
    async with connected(app, work=False) as client:
        task = await start(client, "count", waiting(tmp_path))
        assert (task.status, task.status_message) == ("working", "queued")
        assert task.ttl_ms is None
        assert task.result is None
        # Another process on the same file sees it.
        async with Benbi(str(tmp_path / "jobs.db")) as other:
            job = await other.get(task.task_id)
        assert (job.task, job.state) == ("count", State.PENDING)
        assert datetime.fromisoformat(task.created_at) == job.created_at


async def test_the_result_of_a_task_is_what_the_tool_would_have_answered(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "find_gifts", {"household": 17})
        done = await over(client, task.task_id)
        assert done.status == "completed"
        assert done.result is not None
        result = CallToolResult.model_validate(done.result)
        assert not result.is_error
        # Checks it against the tool's output schema.
        await client.session.validate_tool_result("find_gifts", result)
        assert result.structured_content["result"]["household"] == 17
        assert result.structured_content["jobId"] == task.task_id
        job = await app.get(task.task_id)
        assert datetime.fromisoformat(done.last_updated_at) == job.finished_at


async def test_a_client_that_resolves_tasks_calls_as_ever(app: Benbi) -> None:
    async with connected(app) as client:
        result = await client.call_tool("shouts", {"text": "tea"})
        assert isinstance(result, CallToolResult)
        assert result.structured_content["result"] == "TEA"
        only = await client.call_tool("only_tasks", {})
        assert isinstance(only, CallToolResult)
        assert only.structured_content["result"] == "done"


async def test_each_change_is_pushed_until_the_end(app: Benbi, tmp_path: Path) -> None:
    def open_the_gate(task: Task) -> None:
        if task.status_message == "1/3 counting":
            (tmp_path / "gate").touch()

    extension = TasksExtension(on_push=open_the_gate)
    async with connected(app, extension=extension) as client:
        task = await start(client, "count", waiting(tmp_path))
        async with asyncio.timeout(15):
            await listen(client, task.task_id, NOBODYS)
        whole = await get(client, task.task_id)
    pushed = extension.pushed
    assert {note.task_id for note in pushed} == {task.task_id}
    assert [note.status for note in pushed[:-1]] == ["working"] * (len(pushed) - 1)
    assert "1/3 counting" in [note.status_message for note in pushed]
    # The last one is the whole task, as tasks/get gives it.
    last = pushed[-1].model_dump(by_alias=True)
    assert last["result"]["structuredContent"]["result"] == [0, 1, 2]
    assert last["status"] == "completed"
    assert {name: last[name] for name in ("result", "ttlMs", "lastUpdatedAt")} == {
        name: whole.model_dump(by_alias=True)[name] for name in ("result", "ttlMs", "lastUpdatedAt")
    }


async def test_a_push_stream_with_other_kinds_acknowledges_them_all(
    app: Benbi, tmp_path: Path
) -> None:
    extension = TasksExtension()
    async with connected(app, extension=extension) as client:
        task = await start(client, "count", waiting(tmp_path))
        listening = asyncio.create_task(listen(client, task.task_id, toolsListChanged=True))
        (tmp_path / "gate").touch()
        async with asyncio.timeout(15):
            while not extension.pushed or extension.pushed[-1].status != "completed":
                await asyncio.sleep(0.02)
        # The server's own part of the stream goes on when the tasks are over.
        assert not listening.done()
        listening.cancel()


async def test_what_a_task_asks_is_answered_by_update(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "asks", {"what": "mug"})
        asked = await reached(client, task.task_id, ("input_required",))
        assert asked.status_message == "asks: Sell the mug?"
        ((key, request),) = asked.input_requests.items()
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"] == "Sell the mug?"
        assert request["params"]["requestedSchema"]["properties"] == {"answer": {"type": "boolean"}}
        with pytest.raises(MCPError) as refused:
            await update(client, task.task_id, {key: accept(answer="perhaps")})
        assert refused.value.error.code == INVALID_PARAMS
        await update(client, task.task_id, {"unknown": accept(answer=True)})
        assert (await get(client, task.task_id)).status == "input_required"
        await update(client, task.task_id, {key: accept(answer=True)})
        done = await over(client, task.task_id)
        assert done.result is not None
        assert done.result["content"][0]["text"] == "sold"
        # A key that was answered is ignored.
        await update(client, task.task_id, {key: accept(answer=False)})


async def test_several_questions_are_answered_one_by_one(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "asks_twice", {})
        asked = await reached(client, task.task_id, ("input_required",))
        assert set(asked.input_requests) == {"wish", "note"}
        await update(client, task.task_id, {"wish": accept(colour="red")})
        half = await get(client, task.task_id)
        assert (half.status, set(half.input_requests)) == ("input_required", {"note"})
        await update(client, task.task_id, {"note": {"action": "decline"}})
        done = await over(client, task.task_id)
        assert done.result is not None
        assert done.result["content"][0]["text"] == "red, no note"


async def test_a_question_that_is_declined_ends_the_job(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "asks", {"what": "mug"})
        asked = await reached(client, task.task_id, ("input_required",))
        (key,) = asked.input_requests
        # Dismissed is not declined: it can still be answered.
        await update(client, task.task_id, {key: {"action": "cancel"}})
        assert (await get(client, task.task_id)).status == "input_required"
        await update(client, task.task_id, {key: {"action": "decline"}})
        ended = await over(client, task.task_id)
        assert (ended.status, ended.status_message) == (
            "cancelled",
            "canceled: declined: Sell the mug?",
        )


async def test_a_client_that_can_not_be_asked_is_told_what_is_asked(app: Benbi) -> None:
    async with connected(app, asks=False) as client:
        task = await start(client, "asks", {"what": "mug"})
        async with asyncio.timeout(10):
            while (seen := await get(client, task.task_id)).status_message != "asks: Sell the mug?":
                await asyncio.sleep(0.05)
        assert (seen.status, seen.input_requests) == ("working", {})
        answer = {"job_id": task.task_id, "answer": True}
        await client.call_tool("gifts_job_answer", answer)
        assert (await over(client, task.task_id)).status == "completed"


async def test_a_canceled_task_settles_and_may_be_canceled_again(
    app: Benbi, tmp_path: Path
) -> None:
    async with connected(app) as client:
        task = await start(client, "count", waiting(tmp_path))
        await reached(client, task.task_id, ("working",))
        await cancel(client, task.task_id)
        assert (await over(client, task.task_id)).status == "cancelled"
        await cancel(client, task.task_id)


async def test_a_task_that_raised_completed_with_an_error_result(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "breaks", {"message": "no such shelf"})
        done = await over(client, task.task_id)
        assert done.status == "completed"
        assert done.result is not None
        assert done.result["isError"] is True
        assert done.result["content"][0]["text"] == "ValueError: no such shelf"


async def test_a_planned_retry_is_told(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "fails_slowly", {})
        async with asyncio.timeout(10):
            while "retry in" not in (
                (seen := await get(client, task.task_id)).status_message or ""
            ):
                await asyncio.sleep(0.05)
        assert seen.status == "working"
        assert (seen.status_message or "").startswith("attempt 1 of 2, retry in ")
        assert seen.poll_interval_ms == 30_000


async def test_the_same_call_is_the_same_task(app: Benbi, tmp_path: Path) -> None:
    # A client whose response was lost sends the request again.
    async with connected(app, work=False) as client:
        first = await start(client, "count", waiting(tmp_path))
        assert (await start(client, "count", waiting(tmp_path))).task_id == first.task_id
        assert (await start(client, "count", waiting(tmp_path, 4))).task_id != first.task_id


async def test_bad_arguments_make_no_task(app: Benbi) -> None:
    async with connected(app) as client:
        refused = await client.session.call_tool(
            "find_gifts", {"household": "many"}, allow_claimed=True
        )
        assert isinstance(refused, CallToolResult)
        assert refused.is_error
        assert await app.jobs() == []


@pytest.mark.parametrize("task_id", [NOBODYS, "nonsense", ""])
async def test_an_unknown_task_is_an_invalid_parameter(app: Benbi, task_id: str) -> None:
    async with connected(app) as client:
        for request in (get(client, task_id), cancel(client, task_id), update(client, task_id, {})):
            with pytest.raises(MCPError) as refused:
                await request
            assert refused.value.error.code == INVALID_PARAMS


async def test_who_does_not_declare_the_extension_gets_no_task(app: Benbi, tmp_path: Path) -> None:
    server = MCPServer("gifts", **benbi.mcp.parts(app))
    async with app, Client(server) as client:
        answer = await client.call_tool("count", waiting(tmp_path))
        assert isinstance(answer, CallToolResult)
        job_id = answer.structured_content["jobId"]
        for request in (get(client, job_id), cancel(client, job_id), listen(client, job_id)):
            with pytest.raises(MCPError) as refused:
                await request
            assert refused.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_how_long_a_task_stays_is_counted_from_its_end(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "shouts", {"text": "tea"})
        done = await over(client, task.task_id)
        job = await app.get(task.task_id)
        assert job.finished_at is not None
        lived = (job.finished_at - job.created_at).total_seconds()
        assert done.ttl_ms == pytest.approx((lived + 7 * 86_400) * 1_000, abs=2)


async def test_a_question_of_the_next_generation_has_a_key_of_its_own(app: Benbi) -> None:
    async with connected(app) as client:
        task = await start(client, "asks", {"what": "mug"})
        (first,) = (await reached(client, task.task_id, ("input_required",))).input_requests
        await update(client, task.task_id, {first: {"action": "decline"}})
        await over(client, task.task_id)
        await app.retry(task.task_id, fresh=True)
        (second,) = (await reached(client, task.task_id, ("input_required",))).input_requests
        assert second != first
        await update(client, task.task_id, {second: accept(answer=False)})
        assert (await over(client, task.task_id)).status == "completed"
