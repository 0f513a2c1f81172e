"""A door on a real uvicorn on loopback, and a reader of its event streams."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from benbi import Benbi
from benbi.server.http import serve
from tests.support import wait_until_async

STREAM = {"accept": "text/event-stream"}
PATIENCE = 20.0


def address_in(line: str) -> str:
    """The address that the line of a start names."""
    return next(word for word in line.split() if word.startswith("http://"))


def client_of(url: str) -> httpx.AsyncClient:
    # Without the certificates of the whole world, which take longer to load than a test.
    return httpx.AsyncClient(base_url=url, timeout=PATIENCE, verify=False)


@asynccontextmanager
async def serving(app: Benbi, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serves the app on a free port for the time of the block; the client has its address."""
    stop, lines = asyncio.Event(), list[str]()
    announce = options.pop("announce", lambda line: None)

    def said(line: str) -> None:
        lines.append(line)
        announce(line)

    settings: dict[str, Any] = {"port": 0, "grace": 2.0} | options
    server = asyncio.create_task(serve(app, stop=stop, announce=said, **settings))
    try:
        await wait_until_async(lambda: bool(lines) or server.done(), what="the server listens")
        if not lines:
            server.result()
        async with client_of(address_in(lines[0])) as client:
            yield client
    finally:
        stop.set()
        await asyncio.wait_for(server, PATIENCE)


@asynccontextmanager
async def nothing_stored(app: Benbi) -> AsyncIterator[None]:
    """Fails where the block creates a job."""
    before = await app.jobs(limit=1)
    yield
    assert await app.jobs(limit=1) == before


async def created(client: httpx.AsyncClient, task: str, **arguments: Any) -> str:
    """The id of a new job."""
    answer = await client.post("/api/jobs", json={"task": task, "arguments": arguments})
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


async def in_state(client: httpx.AsyncClient, job_id: str, state: str) -> dict[str, Any]:
    """The job, once it is in that state."""

    async def look() -> dict[str, Any] | None:
        job = (await client.get(f"/api/jobs/{job_id}")).json()
        return job if job["state"] == state else None

    found = await wait_until_async(look, what=f"the job is {state}")
    assert found
    return found


@dataclass(frozen=True)
class Frame:
    """One server-sent event; ``data`` is parsed."""

    event: str
    id: str | None
    data: Any


class Reading:
    """Takes a stream line by line; ``frames`` are the events so far.

    Comments and ``retry:`` are left out.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._fields: dict[str, str] = {}

    def take(self, line: str) -> bool:
        """True where the line ended an event."""
        if line:
            name, _, value = line.partition(": ")
            self._fields[name] = value
            return False
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return False
        self.frames.append(Frame(fields["event"], fields.get("id"), json.loads(fields["data"])))
        return True


def frames_of(text: str) -> list[Frame]:
    """The events of a whole stream."""
    reading = Reading()
    for line in text.splitlines():
        reading.take(line)
    return reading.frames


async def read(
    client: httpx.AsyncClient,
    job_id: str,
    *,
    until: Callable[[list[Frame]], bool] = lambda frames: False,
    **headers: str,
) -> list[Frame]:
    """Reads a job's stream to its end, or until the frames so far are enough."""
    reading = Reading()
    wanted = STREAM | {name.replace("_", "-"): value for name, value in headers.items()}
    address = f"/api/jobs/{job_id}/events"
    # Keep-alives would let a stream that never ends outlive every other time-out.
    async with asyncio.timeout(PATIENCE), client.stream("GET", address, headers=wanted) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for line in answer.aiter_lines():
            if reading.take(line) and until(reading.frames):
                break
    return reading.frames


def seqs(frames: list[Frame]) -> list[int]:
    """The ids, as numbers; frames without one are left out."""
    return [int(frame.id) for frame in frames if frame.id is not None]
