"""Callers with an identity are apart: foreign and missing jobs look alike on every tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult

import benbi.mcp
from benbi import Benbi
from tests.doors.http.served import serving
from tests.doors.mcp.clients import (
    MODERN,
    TASKS,
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

MISSING = "01a22d48-63b7-77a1-a83a-9f096f2062c6"


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return register(Benbi(str(tmp_path / "jobs.db")))


@asynccontextmanager
async def signed_in(url: str, token: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=20, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), **options) as client,
    ):
        yield client


@asynccontextmanager
async def two_people(app: Benbi, **options: Any) -> AsyncIterator[tuple[Client, Client]]:
    """Alice and Bob, each at the same server with a token of their own."""
    tokens = ["alice:secret-of-alice", "bob:secret-of-bob"]
    async with serving(app, tokens=tokens, worker=False) as http, working(app):
        url = f"{http.base_url}/mcp"
        async with (
            signed_in(url, "secret-of-alice", **options) as alice,
            signed_in(url, "secret-of-bob", **options) as bob,
        ):
            yield alice, bob


def body(result: Any) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


async def test_nobody_gets_in_without_a_token(app: Benbi) -> None:
    async with serving(app, tokens=["alice:secret-of-alice"], worker=False) as http:
        for token in ("", "secret-of-bob"):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            answer = await http.post("/mcp", json={}, headers=headers)
            assert answer.status_code == 401


async def test_a_foreign_task_is_no_task(app: Benbi) -> None:
    async with two_people(app, extensions=[TasksExtension()]) as (alice, bob):
        task = await start(alice, "asks", {"what": "mug"})
        assert (await app.get(task.task_id)).owner == "alice"
        await reached(alice, task.task_id, ("working", "input_required"))
        for task_id in (task.task_id, MISSING):
            for request in (
                get(bob, task_id),
                cancel(bob, task_id),
                update(bob, task_id, {"q": accept(answer=True)}),
            ):
                with pytest.raises(MCPError) as refused:
                    await request
                assert (refused.value.error.code, refused.value.error.message) == (
                    INVALID_PARAMS,
                    "Task not found",
                )
        # A stream of nothing but foreign tasks is over at once.
        async with asyncio.timeout(5):
            await listen(bob, task.task_id, MISSING)
        assert not (await app.get(task.task_id)).final


async def test_an_acknowledgement_names_only_ones_own_tasks(app: Benbi, tmp_path: Path) -> None:
    tokens = ["alice:secret-of-alice", "bob:secret-of-bob"]
    async with app, serving(app, tokens=tokens, worker=False) as http:
        hers = (await app.enqueue("shouts", {"text": "tea"}, owner="alice")).id
        await app.cancel(hers)
        for token, listed in (("secret-of-alice", [hers]), ("secret-of-bob", [])):
            first, *_ = await frames_of_a_stream(http, token, hers, MISSING)
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert first["params"]["notifications"] == {"taskIds": listed}


async def frames_of_a_stream(http: Any, token: str, *task_ids: str) -> list[dict[str, Any]]:
    """What is sent to who listens to these tasks, down to the wire."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}},
    }
    params = {"_meta": meta, "notifications": {"taskIds": list(task_ids)}}
    answer = await http.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params},
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "subscriptions/listen",
        },
    )
    assert answer.status_code == 200, answer.text
    lines = answer.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line[:5] == "data:"]


async def test_the_same_call_of_another_is_another_job(app: Benbi) -> None:
    async with two_people(app, extensions=[TasksExtension()]) as (alice, bob):
        hers = await start(alice, "asks", {"what": "mug"})
        his = await start(bob, "asks", {"what": "mug"})
        assert hers.task_id != his.task_id
        assert (await start(alice, "asks", {"what": "mug"})).task_id == hers.task_id


async def test_streams_with_equal_request_ids_do_not_meet(app: Benbi, tmp_path: Path) -> None:
    of_alice, of_bob = TasksExtension(), TasksExtension()
    tokens = ["alice:secret-of-alice", "bob:secret-of-bob"]
    async with serving(app, tokens=tokens, worker=False) as http, working(app):
        url = f"{http.base_url}/mcp"
        async with (
            signed_in(url, "secret-of-alice", extensions=[of_alice]) as alice,
            signed_in(url, "secret-of-bob", extensions=[of_bob]) as bob,
        ):
            clients = {"alice": alice, "bob": bob}
            tasks = {
                # Both clients count their requests from the same number, in step.
                who: await start(client, "count", waiting(tmp_path, who))
                for who, client in clients.items()
            }
            streams = [
                asyncio.create_task(listen(client, tasks[who].task_id))
                for who, client in clients.items()
            ]
            (tmp_path / "gate").touch()
            async with asyncio.timeout(15):
                await asyncio.gather(*streams)
    for who, extension in (("alice", of_alice), ("bob", of_bob)):
        assert {note.task_id for note in extension.pushed} == {tasks[who].task_id}
        assert extension.pushed[-1].status == "completed"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_job_tools_know_only_ones_own_jobs(app: Benbi, tmp_path: Path, mode: Any) -> None:
    async with two_people(app, mode=mode) as (alice, bob):
        job = body(await alice.call_tool("count", waiting(tmp_path, "alice")))["jobId"]
        for verb, more in (("status", {}), ("cancel", {}), ("answer", {"answer": True})):
            told = [
                await bob.call_tool(f"benbi_job_{verb}", {"job_id": job_id, **more})
                for job_id in (job, MISSING)
            ]
            assert all(one.is_error for one in told)  # type: ignore[union-attr]
            texts = [one.content[0].text for one in told]  # type: ignore[union-attr]
            assert texts == [f"no job {job!r}", f"no job {MISSING!r}"]
        assert body(await bob.call_tool("benbi_job_list", {}))["jobs"] == []
        assert len(body(await alice.call_tool("benbi_job_list", {}))["jobs"]) == 1
        assert not (await app.get(job)).final
        await alice.call_tool("benbi_job_cancel", {"job_id": job})


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_equal_request_ids_at_the_same_time_do_not_meet(
    app: Benbi, tmp_path: Path, mode: Any
) -> None:
    async with two_people(app, mode=mode) as (alice, bob):
        answers = await asyncio.gather(
            alice.call_tool("shouts", {"text": "alice"}), bob.call_tool("shouts", {"text": "bob"})
        )
        assert [body(answer)["result"] for answer in answers] == ["ALICE", "BOB"]


@pytest.mark.parametrize(
    ("token", "owner"),
    [
        (None, ""),
        (AccessToken(token="t", client_id="chat", scopes=[]), "client:chat"),
        (
            AccessToken(
                token="t",
                client_id="chat",
                scopes=[],
                subject="7",
                claims={"iss": "https://id.test"},
            ),
            "https://id.test#7",
        ),
    ],
)
def test_the_owner_is_the_person_and_only_else_the_client(
    token: AccessToken | None, owner: str
) -> None:
    before = auth_context_var.set(AuthenticatedUser(token) if token else None)
    try:
        assert benbi.mcp.current_owner() == owner
    finally:
        auth_context_var.reset(before)


async def test_without_sign_in_jobs_of_people_are_out_of_reach(app: Benbi) -> None:
    async with serving(app, worker=False) as http, working(app):
        handle = await app.enqueue("asks", {"what": "mug"}, owner="alice")
        async with Client(f"{http.base_url}/mcp", extensions=[TasksExtension()]) as anybody:
            with pytest.raises(MCPError):
                await get(anybody, handle.id)
            assert body(await anybody.call_tool("benbi_job_list", {}))["jobs"] == []
            task = await start(anybody, "shouts", {"text": "tea"})
            assert (await over(anybody, task.task_id)).status == "completed"


def waiting(tmp_path: Path, who: str) -> dict[str, Any]:
    return {"numbers": 3, "gate": str(tmp_path / "gate"), "journal": str(tmp_path / who)}
