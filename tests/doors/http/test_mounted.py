"""In a FastAPI app that somebody has: under a prefix, with that app's lifespan."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from benbi import Benbi
from benbi.server.http import build
from tests.doors.http.served import STREAM, client_of, created, frames_of, read, seqs
from tests.support import wait_until_async

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MCP = {"accept": "application/json, text/event-stream"}


def outer(app: Benbi, **options: Any) -> FastAPI:
    fastapi = FastAPI(lifespan=app.lifespan())

    @fastapi.get("/")
    async def own() -> str:
        return "mine"

    fastapi.mount("/tools/jobs", app.asgi(**options))
    return fastapi


@asynccontextmanager
async def uvicorn_around(asgi: Any, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A plain uvicorn as people start it; what it does at its end is theirs."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(asgi, log_config=None, **options))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await wait_until_async(lambda: server.started or running.done())
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with client_of(url) as client:
            yield client, server
    finally:
        server.should_exit = True
        await asyncio.wait_for(running, 15)
        listener.close()


async def test_everything_works_below_a_prefix(app: Benbi) -> None:
    async with uvicorn_around(outer(app)) as (client, _):
        assert (await client.get("/")).json() == "mine"
        made = await client.post(
            "/tools/jobs/api/jobs", json={"task": "tell", "arguments": {"count": 3}}
        )
        location = made.headers["location"]
        assert location == f"/tools/jobs/api/jobs/{made.json()['id']}"
        job = await wait_until_async(lambda: completed(client, location))
        frames = frames_of((await client.get(job["links"]["events"], headers=STREAM)).text)
        assert seqs(frames) == list(range(1, len(frames) + 1))
        assert (await client.get(job["links"]["result"])).json() == 3
        index = (await client.get("/tools/jobs/")).json()
        for name in ("jobs", "openapi", "health"):
            assert (await client.get(index["links"][name])).status_code == 200
        await client.post(
            "/tools/jobs/api/jobs", json={"task": "add", "arguments": {"a": 1, "b": 2}}
        )
        page = (await client.get("/tools/jobs/api/jobs?limit=1")).json()
        assert [job["id"] for job in (await client.get(page["next"])).json()["jobs"]] == [job["id"]]
        missing = await client.get("/tools/jobs/nothing")
        assert missing.headers["content-type"] == "application/problem+json"


async def completed(client: httpx.AsyncClient, address: str) -> Any:
    job = (await client.get(address)).json()
    return job if job["state"] == "completed" else None


async def test_mcp_works_below_a_prefix(app: Benbi) -> None:
    async with uvicorn_around(outer(app)) as (client, _):
        answer = await client.post("/tools/jobs/mcp", json=INITIALIZE, headers=MCP)
        assert answer.status_code == 200, answer.text
        assert "serverInfo" in answer.text


async def test_behind_a_proxy_that_takes_a_prefix_away(app: Benbi) -> None:
    async with uvicorn_around(build(app, mcp=False), root_path="/outside") as (client, _):
        job_id = await created(client, "add", a=1, b=2)
        job = (await client.get(f"/api/jobs/{job_id}")).json()
        assert job["links"]["self"] == f"/outside/api/jobs/{job_id}"


async def test_tokens_hold_below_a_prefix_and_health_stays_open(app: Benbi) -> None:
    async with uvicorn_around(outer(app, tokens=["alice:secret-0123"])) as (client, _):
        for path in ("/tools/jobs/api/jobs", "/tools/jobs/", "/tools/jobs/mcp"):
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/tools/jobs/healthz")).status_code == 200
        client.headers["authorization"] = "Bearer secret-0123"
        assert (await client.get("/tools/jobs/api/jobs")).status_code == 200
        answer = await client.post("/tools/jobs/mcp", json=INITIALIZE, headers=MCP)
        assert answer.status_code == 200


async def test_a_forgotten_lifespan_costs_the_worker_and_no_more(app: Benbi) -> None:
    fastapi = FastAPI()
    fastapi.mount("/jobs", app.asgi())
    async with uvicorn_around(fastapi) as (client, _):
        answer = await client.post("/jobs/mcp", json=INITIALIZE, headers=MCP)
        assert answer.status_code == 200
        assert (await client.get("/jobs/api/jobs")).json()["jobs"] == []
    await app.close()


async def test_an_outer_server_that_stops_ends_our_streams(app: Benbi) -> None:
    """Uvicorn waits for open responses before it ends the lifespan; by default for ever."""
    async with uvicorn_around(build(app)) as (client, server):
        handle = await app.enqueue("add", {"a": 1, "b": 2})
        reading = asyncio.create_task(read(client, handle.id))
        headers = MCP | {"mcp-protocol-version": "2025-11-25"}
        async with client.stream("GET", "/mcp", headers=headers) as answer:
            assert answer.status_code == 200
            server.should_exit = True
            async for _ in answer.aiter_lines():
                pass
        frames = await asyncio.wait_for(reading, 10)
        assert [frame.event for frame in frames] == ["created"]


async def test_the_lifespan_may_be_entered_again(app: Benbi) -> None:
    asgi = build(app)
    for _ in range(2):
        async with uvicorn_around(asgi) as (client, _):
            answer = await client.post("/mcp", json=INITIALIZE, headers=MCP)
            assert answer.status_code == 200
            job_id = await created(client, "add", a=1, b=2)
            await app.cancel(job_id)
            assert [frame.event for frame in await read(client, job_id)] == ["created", "canceled"]
