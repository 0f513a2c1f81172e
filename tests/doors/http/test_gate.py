"""Who may call at all: Host, Origin, and, where nobody signs in, this machine alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from benbi import Benbi
from benbi.errors import ConfigurationError
from benbi.server.http import build
from benbi.server.http.gate import is_loopback
from tests.doors.http.served import serving
from tests.doors.http.test_refusals import assert_problem

METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil.example#localhost",
        "[::ffff:8.8.8.8]",
        "localhost:notaport",
        "0.0.0.0",
        "",
    ],
)
async def test_a_rebound_name_is_refused(
    shared: httpx.AsyncClient, shared_app: Benbi, host: str
) -> None:
    for method, path in (
        ("GET", "/"),
        ("GET", "/api/jobs"),
        ("POST", "/api/jobs"),
        ("POST", "/mcp"),
    ):
        answer = await shared.request(
            method, path, headers={"host": host}, json={"task": "add", "arguments": {}}
        )
        assert answer.status_code in (400, 403), (method, path)
    assert await shared_app.jobs() == []


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "127.8.8.8", "[::1]", "[::1]:8000"]
)
async def test_the_names_of_this_machine_are_served(shared: httpx.AsyncClient, host: str) -> None:
    assert (await shared.get("/", headers={"host": host})).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://localhost.evil.example",
        "null",
        "http://localhost:1",
        "http://127.0.0.1",
        "ftp://{host}",
        "http://{host}.evil.example",
        "http://{host}/path",
        "nonsense",
    ],
)
async def test_a_page_of_another_origin_is_refused(
    shared: httpx.AsyncClient, shared_app: Benbi, origin: str
) -> None:
    origin = origin.format(host=shared.base_url.netloc.decode())
    for method in METHODS:
        for path in ("/api/jobs", "/mcp"):
            answer = await shared.request(
                method, path, headers={"origin": origin}, json={"task": "add", "arguments": {}}
            )
            assert answer.status_code == 403, (method, path)
            assert "access-control-allow-origin" not in answer.headers
    assert await shared_app.jobs() == []


async def test_the_own_origin_is_served_behind_a_proxy_with_tls_too(
    shared: httpx.AsyncClient,
) -> None:
    host = shared.base_url.netloc.decode()
    for origin in (f"http://{host}", f"https://{host}"):
        assert (await shared.get("/", headers={"origin": origin})).status_code == 200


@pytest.mark.parametrize("several", [False, True])
async def test_hosts_and_origins_may_be_allowed(app: Benbi, several: bool) -> None:
    allowed: dict[str, Any] = {"allowed_hosts": "jobs.example"}
    allowed["allowed_origins"] = "https://app.example"
    if several:
        allowed = {name: [one] for name, one in allowed.items()}
    async with serving(app, worker=False, **allowed) as client:
        at = {"host": "jobs.example:8443"}
        assert (await client.get("/", headers=at)).status_code == 200
        for host in ("other.example", "j"):
            assert (await client.get("/", headers={"host": host})).status_code == 403

        page = {"origin": "https://app.example"}
        answer = await client.get("/api/jobs", headers=at | page)
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        asked = page | {"access-control-request-method": "POST"}
        asked["access-control-request-headers"] = "authorization,idempotency-key"
        preflight = await client.options("/api/jobs", headers=at | asked)
        assert preflight.status_code == 200
        assert "POST" in preflight.headers["access-control-allow-methods"]
        other = {"origin": "https://app.example.evil.example"}
        assert_problem(await client.get("/api/jobs", headers=at | other), 403, "Origin")


@pytest.mark.parametrize("peer", ["203.0.113.9", "10.0.0.7", "::ffff:203.0.113.9"])
async def test_without_sign_in_only_this_machine_is_served(app: Benbi, peer: str) -> None:
    """A mounted door listens where its outer app listens: a Host can be made up."""
    transport = httpx.ASGITransport(build(app, mcp=False), client=(peer, 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert_problem(await client.get("/api/jobs"), 403, "--token")
        answer = await client.post("/api/jobs", json={"task": "add", "arguments": {"a": 1, "b": 2}})
        assert_problem(answer, 403, "--token")
        assert (await client.get("/healthz")).status_code == 200
    assert await app.jobs() == []
    await app.close()


async def test_health_is_open_and_private_answers_are_not_kept(shared: httpx.AsyncClient) -> None:
    probe = await shared.get("/healthz", headers={"host": "10.1.2.3:8000"})
    assert (probe.status_code, probe.json()) == (200, {"status": "ok"})
    answer = await shared.get("/api/jobs")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_hosts": ["https://jobs.example"]},
        {"allowed_hosts": ["*"]},
        {"allowed_hosts": [""]},
        {"allowed_origins": ["app.example"]},
        {"allowed_origins": ["*"]},
        {"allowed_origins": ["https://app.example/"]},
    ],
)
async def test_a_host_or_origin_that_can_not_be_is_named(app: Benbi, wrong: dict) -> None:
    with pytest.raises(ConfigurationError, match=r"allowed (host|origin)"):
        async with serving(app, **wrong):
            pass


def test_loopback() -> None:
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
        assert is_loopback(host)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", ""):
        assert not is_loopback(host)
