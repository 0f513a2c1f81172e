"""Every error is a problem (RFC 9457) that says what is wrong, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benbi import Benbi
from tests.doors.http.bakery import bakery
from tests.doors.http.served import created, nothing_stored, serving

JSON = {"content-type": "application/json"}
CALL = '{"task": "add", "arguments": {"a": 1, "b": 2}'


def assert_problem(answer: httpx.Response, status: int, says: str = "") -> dict[str, Any]:
    """The body, which has what RFC 9457 asks for."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert body["type"] == "about:blank" or body["type"].startswith("urn:benbi:problem:")
    assert body["title"]
    assert says in body["detail"]
    return body


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (CALL.encode("utf-16"), 400, "not JSON"),
        (b'{"task": "add", "arguments": {"a": NaN, "b": 2}}', 400, "not JSON"),
        (b'{"task": "add", "arguments": {"a": Infinity, "b": 2}}', 400, "not JSON"),
        (b'{"task": "echo", "arguments": {"text": "\\ud800"}}', 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"null", 422, "body"),
        (b"[]", 422, "body"),
        (b"", 422, "body"),
        (b'{"task": "add", "arguments": [1, 2]}', 422, "body.arguments"),
        (b'{"task": "add", "arguments": {"a": 1e999, "b": 2}}', 422, "a"),
        (b'{"task": "add", "arguments": {"a": "one", "b": 2}}', 422, "a"),
        (b'{"task": "add", "arguments": {"a": 1}}', 422, "b"),
        (b'{"task": "add", "arguments": {"a": 1, "b": 2, "c": 3}}', 422, "c"),
        (b'{"task": "bake", "arguments": {}}', 422, "bake"),
        (b'{"task": "", "arguments": {}}', 422, "body.task"),
        (CALL.encode() + b', "owner": "somebody"}', 422, "body.owner"),
        (CALL.encode() + b', "delay": -1}', 422, "body.delay"),
        (CALL.encode() + b', "delay": 1e999}', 422, "body.delay"),
        (CALL.encode() + b', "run_at": "2030-01-01T00:00:00"}', 422, "body.run_at"),
        (CALL.encode() + b', "priority": 1e30}', 422, "body.priority"),
        (CALL.encode() + b', "key": ""}', 422, "body.key"),
        (CALL.encode() + b', "key": "' + b"k" * 300 + b'"}', 422, "key"),
        (CALL.encode() + b', "delay": 1, "run_at": "2030-01-01T00:00:00Z"}', 422, "run_at"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(
    shared: httpx.AsyncClient, shared_app: Benbi, body: bytes, status: int, says: str
) -> None:
    async with nothing_stored(shared_app):
        answer = await shared.post("/api/jobs", content=body, headers=JSON)
    assert_problem(answer, status, says)


async def test_what_was_sent_is_not_repeated(shared: httpx.AsyncClient) -> None:
    answer = await shared.post("/api/jobs", json={"task": ["hunter2"], "arguments": {}})
    assert_problem(answer, 422)
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_only_json_is_read(
    shared: httpx.AsyncClient, shared_app: Benbi, content_type: str
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    async with nothing_stored(shared_app):
        answer = await shared.post("/api/jobs", content=CALL + "}", headers=headers)
    assert_problem(answer, 415, "application/json")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/api/jobs?state=done", "query.state"),
        ("/api/jobs?limit=0", "query.limit"),
        ("/api/jobs?limit=100000", "query.limit"),
        ("/api/jobs?before=yesterday", "query.before"),
        ("/api/jobs?stat=failed", "query.stat"),
        ("/api/jobs/{id}/events?after=-1", "query.after"),
        ("/api/jobs/{id}/events?after=x", "query.after"),
        ("/api/jobs/{id}/events?limit=1000000", "query.limit"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused(
    shared: httpx.AsyncClient, address: str, says: str
) -> None:
    job_id = await created(shared, "add", a=1, b=2)
    answer = await shared.get(address.format(id=job_id))
    assert_problem(answer, 422, says)


async def test_an_address_or_method_that_is_not_there(shared: httpx.AsyncClient) -> None:
    for address in ("/api", "/api/jobs/", "/docs", "/api/jobs/x/y/z", "/favicon.ico"):
        assert_problem(await shared.get(address), 404)
    answer = await shared.delete("/api/jobs")
    assert_problem(answer, 405)
    assert answer.headers["allow"] == "GET, POST"
    assert_problem(await shared.put(f"/api/jobs/{'0' * 32}/cancel", json={}), 405)


async def test_a_move_that_is_not_permitted(shared: httpx.AsyncClient) -> None:
    job_id = await created(shared, "add", a=1, b=2)
    refused = await shared.post(f"/api/jobs/{job_id}/retry")
    assert assert_problem(refused, 409)["type"] == "urn:benbi:problem:not-permitted"
    unasked = await shared.post(f"/api/jobs/{job_id}/answer", json={"value": 1})
    assert assert_problem(unasked, 409)["type"] == "urn:benbi:problem:answer-refused"
    assert_problem(await shared.post(f"/api/jobs/{job_id}/answer", json={}), 422, "body.value")
    assert_problem(await shared.get(f"/api/jobs/{job_id}/result"), 409, "pending")
    assert (await shared.get(f"/api/jobs/{job_id}")).json()["state"] == "pending"


async def test_large_arguments_are_refused(shared: httpx.AsyncClient, shared_app: Benbi) -> None:
    limit = shared_app.max_payload
    call = {"task": "echo", "arguments": {"text": "x" * (5 * 1024 * 1024)}}
    async with nothing_stored(shared_app):
        body = assert_problem(await shared.post("/api/jobs", json=call), 413, "limit")
        assert body["limit"] > limit
        call["arguments"] = {"text": "x" * (limit + 1)}
        body = assert_problem(await shared.post("/api/jobs", json=call), 413, "reference")
        assert body["limit"] == limit


async def test_a_body_of_unknown_length_is_measured_as_it_comes(
    shared: httpx.AsyncClient, shared_app: Benbi
) -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"task": "echo", "arguments": {"text": "'
        for _ in range(100):
            sent += 1
            yield b"x" * 65_536

    async with nothing_stored(shared_app):
        answer = await shared.post("/api/jobs", content=parts(), headers=JSON)
    assert_problem(answer, 413, "limit")
    # The connection is not used again, and the server goes on.
    assert (await shared.get("/")).status_code == 200


async def test_escapes_do_not_count_against_the_payload(tmp_path: Path) -> None:
    app = bakery(f"sqlite:///{tmp_path / 'jobs.db'}", max_payload=300_000)
    # 540,000 bytes of escapes on the wire, 270,000 as stored.
    body = json.dumps({"task": "echo", "arguments": {"text": "ế" * 90_000}})
    assert body.isascii()
    async with serving(app, worker=False) as client:
        answer = await client.post("/api/jobs", content=body, headers=JSON)
        assert answer.status_code == 202, answer.text


async def test_the_database_is_not_there(idle: httpx.AsyncClient, tmp_path: Path) -> None:
    job_id = await created(idle, "add", a=1, b=2)
    for file in tmp_path.glob("jobs.db*"):
        file.write_bytes(b"this is no database at all " * 400)
    answer = await idle.get(f"/api/jobs/{job_id}")
    body = assert_problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
    assert str(tmp_path) not in body["detail"]
    assert_problem(await idle.get("/healthz"), 503)
