"""Events as they happen: each once, in order, and resumable at any of them."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from benbi import Benbi, Event
from benbi.server.http import build, stream
from benbi.server.http.closing import Closing
from tests.doors.http.served import (
    STREAM,
    Frame,
    created,
    frames_of,
    in_state,
    read,
    seqs,
)
from tests.support import wait_until_async


def test_the_shape_of_a_frame() -> None:
    frame = stream._frame("partial", {"data": "two\nlines\u2028three"}, 7)
    assert frame == b'event: partial\nid: 7\ndata: {"data": "two\\nlines\\u2028three"}\n\n'


async def test_a_stream_tells_everything_and_ends(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "tell", count=3)
    frames = await read(client, job_id)
    assert frames[0].event == "created"
    assert [frame.data["data"] for frame in frames if frame.event == "partial"] == [0, 1, 2]
    assert frames[-1].event == "completed"
    assert seqs(frames) == list(range(1, len(frames) + 1))
    for frame in frames:
        assert set(frame.data) == {"job_id", "seq", "type", "reason", "attempt", "at", "data"}
        assert (frame.data["job_id"], frame.data["type"]) == (job_id, frame.event)
        assert str(frame.data["seq"]) == frame.id

    page = (await client.get(f"/api/jobs/{job_id}/events?limit=1000")).json()
    assert [frame.data for frame in frames] == page["events"]


async def test_events_come_as_they_happen(client: httpx.AsyncClient, tmp_path: Path) -> None:
    door = tmp_path / "door"
    job_id = await created(client, "hold", door=str(door))

    def before_seen(frames: list[Frame]) -> bool:
        if any(frame.data["data"] == "before 0" for frame in frames):
            door.touch()
        return False

    frames = await read(client, job_id, until=before_seen)
    assert [frame.data["data"] for frame in frames if frame.event == "partial"] == [
        "before 0",
        "after 0",
    ]
    assert frames[-1].event == "completed"


async def test_a_stream_resumes_after_any_event(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "tell", count=3)
    whole = await read(client, job_id)
    for cut in range(len(whole)):
        resumed = await read(client, job_id, last_event_id=str(cut))
        assert resumed == whole[cut:]
    asked = await client.get(f"/api/jobs/{job_id}/events?after=2", headers=STREAM)
    assert frames_of(asked.text) == whole[2:]
    # A browser repeats the address it was given: what it has seen since is the later word.
    both = await client.get(
        f"/api/jobs/{job_id}/events?after=1", headers=STREAM | {"last-event-id": "4"}
    )
    assert frames_of(both.text) == whole[4:]


async def test_a_reader_that_has_everything_is_told_not_to_come_back(
    client: httpx.AsyncClient,
) -> None:
    job_id = await created(client, "tell", count=1)
    last = (await read(client, job_id))[-1].id
    assert last
    answer = await client.get(
        f"/api/jobs/{job_id}/events", headers=STREAM | {"last-event-id": last}
    )
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "9" * 40])
async def test_an_id_that_was_never_sent_is_refused(client: httpx.AsyncClient, wrong: str) -> None:
    job_id = await created(client, "tell", count=1)
    answer = await client.get(
        f"/api/jobs/{job_id}/events", headers=STREAM | {"last-event-id": wrong}
    )
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


async def test_a_job_that_was_retried_is_told_to_its_last_end(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "burn")
    first = await read(client, job_id)
    assert first[-1].event == "failed"
    await client.post(f"/api/jobs/{job_id}/retry", json={})
    await in_state(client, job_id, "failed")
    rest = await read(client, job_id, last_event_id=str(first[-1].id))
    assert rest[-1].event == "failed"
    assert seqs(first) + seqs(rest) == seqs(await read(client, job_id))


async def test_progress_between_events_has_no_id(client: httpx.AsyncClient, tmp_path: Path) -> None:
    job_id = await created(client, "inch", door=str(tmp_path / "door"))

    def little_seen(frames: list[Frame]) -> bool:
        seen = any(
            frame.event == "progress" and frame.data["data"]["message"] == "a little"
            for frame in frames
        )
        if seen:
            (tmp_path / "door").touch()
        return False

    frames = await read(client, job_id, until=little_seen)
    assert frames[-1].event == "completed"
    assert seqs(frames) == list(range(1, len(seqs(frames)) + 1))
    (snapshot,) = [frame for frame in frames if frame.id is None]
    assert (snapshot.event, snapshot.data["seq"]) == ("progress", None)
    assert snapshot.data["data"] == {"done": 1, "total": 1000, "message": "a little"}


async def test_many_readers_each_get_everything(
    client: httpx.AsyncClient, app: Benbi, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    job_ids = [await created(client, "hold", door=str(door), count=5) for _ in range(3)]
    readers = [asyncio.create_task(read(client, job_id)) for job_id in job_ids for _ in range(10)]
    for job_id in job_ids:
        await in_state(client, job_id, "running")
    door.touch()
    for job_id in job_ids:
        await in_state(client, job_id, "completed")
        whole = [event.seq for event in await app.events(job_id)]
        for reader in readers[:10]:
            frames = await reader
            assert seqs(frames) == whole
            assert {frame.data["job_id"] for frame in frames} == {job_id}
        del readers[:10]


async def test_a_quiet_stream_is_kept_alive(app: Benbi) -> None:
    handle = await app.enqueue("add", {"a": 1, "b": 2})
    response = stream.EventStream(
        app, handle.id, after=1, owner=None, closing=Closing(), keep_alive=0.01
    )
    sent: list[bytes] = []

    async def send(message) -> None:
        sent.append(message.get("body", b""))

    streaming = asyncio.create_task(response.stream_response(send))
    await wait_until_async(lambda: sent.count(b": keep-alive\n\n") > 2)
    assert not streaming.done()
    await app.cancel(handle.id)
    await asyncio.wait_for(streaming, 10)
    assert sent[-1] == b""
    assert b"event: canceled" in sent[-2]
    await app.close()


async def test_a_slow_reader_is_not_read_ahead_for(
    client: httpx.AsyncClient, app: Benbi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 MB wait in the database, not in the server, until the reader takes them."""
    fetched = 0
    events = app.events

    async def counted(*arguments: Any, **options: Any) -> list[Event]:
        nonlocal fetched
        page = await events(*arguments, **options)
        fetched += len(page)
        return page

    monkeypatch.setattr(app, "events", counted)
    job_id = await created(client, "pour", count=200, size=100_000)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(slow, (client.base_url.host, client.base_url.port))
        request = f"GET /api/jobs/{job_id}/events HTTP/1.1\r\nHost: localhost\r\n"
        request += "Accept: text/event-stream\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(slow, request.encode())
        await in_state(client, job_id, "completed")
        before = fetched
        other = await read(client, job_id)
        assert len(other) > 200
        # What the kernel's buffers hold, a page, and what the other one fetched.
        assert before < 120
        assert fetched - len(other) < 120
        received = bytearray()
        while part := await asyncio.wait_for(loop.sock_recv(slow, 1 << 20), 20):
            received += part
    numbers = [int(number) for number in re.findall(rb"^id: (\d+)", received, re.MULTILINE)]
    assert numbers == [event.seq for event in await events(job_id)]
    assert received.endswith(b"0\r\n\r\n")


async def test_a_reader_that_takes_nothing_is_dropped(app: Benbi) -> None:
    handle = await app.enqueue("add", {"a": 1, "b": 2})
    for number in range(20):
        await app.cancel(handle.id) if number % 2 == 0 else await app.retry(handle.id)
    response = stream.EventStream(
        app, handle.id, after=0, owner=None, closing=Closing(), stalled=0.2
    )
    stuck = asyncio.Event()
    taken: list[bytes] = []

    async def send(message) -> None:
        taken.append(message.get("body", b""))
        if len(taken) > 3:
            await stuck.wait()

    await asyncio.wait_for(response.stream_response(send), 10)
    # The header, the two frames that were taken, the one that was not, and the attempt to end.
    assert len(taken) == 5
    await app.close()


async def test_a_reader_that_leaves_is_forgotten(
    client: httpx.AsyncClient, app: Benbi, tmp_path: Path
) -> None:
    job_id = await created(client, "hold", door=str(tmp_path / "door"))
    before = len(asyncio.all_tasks())
    frames = await read(client, job_id, until=lambda frames: frames[-1:] != [])
    assert frames
    await wait_until_async(lambda: len(asyncio.all_tasks()) <= before + 1)


async def test_a_stream_is_not_buffered_on_its_way(app: Benbi) -> None:
    transport = httpx.ASGITransport(build(app, mcp=False))
    handle = await app.enqueue("add", {"a": 1, "b": 2})
    await app.cancel(handle.id)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(f"/api/jobs/{handle.id}/events", headers=STREAM)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    await app.close()
