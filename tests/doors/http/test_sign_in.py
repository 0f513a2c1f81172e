"""Tokens: without one nothing is reached, with one only one's own jobs."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from benbi import Benbi
from benbi.errors import ConfigurationError
from benbi.server.http import build, serve
from benbi.server.http.auth import Tokens, owner_from
from tests.doors.http.served import STREAM, created, in_state, read, seqs, serving
from tests.doors.http.test_refusals import assert_problem

ALICE, BOB, PLAIN = "alice-secret-0123", "bob-secret-0123", "plain-secret-0123"
TOKENS = [f"alice:{ALICE}", f"bob:{BOB}", PLAIN]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(ALICE[:-1]),
        bearer(f"alice:{ALICE}"),
        bearer("alice"),
        {"authorization": ALICE},
        {"authorization": f"Basic {ALICE}"},
        {"x-token": ALICE},
    ],
)
async def test_nothing_is_reached_without_a_good_token(app: Benbi, headers: dict) -> None:
    async with serving(app, tokens=TOKENS, worker=False) as client:
        job = await app.enqueue("add", {"a": 1, "b": 2}, owner="alice")
        for method, path in (
            ("GET", "/"),
            ("GET", "/api/jobs"),
            ("GET", "/api/openapi.json"),
            ("POST", "/api/jobs"),
            ("GET", f"/api/jobs/{job.id}"),
            ("GET", f"/api/jobs/{job.id}/events"),
            ("GET", f"/api/jobs/{job.id}/result"),
            ("POST", f"/api/jobs/{job.id}/cancel"),
            ("POST", f"/api/jobs/{job.id}/answer"),
            ("POST", f"/api/jobs/{job.id}/retry"),
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("DELETE", "/mcp"),
            ("GET", "/not-there"),
            ("GET", "//healthz"),
        ):
            answer = await client.request(method, path, headers=headers)
            assert_problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await client.get(f"/api/jobs?access_token={ALICE}")).status_code == 401
        assert (await client.get("/healthz")).status_code == 200
        assert [row.id for row in await app.jobs()] == [job.id]
        assert not (await app.get(job.id)).final


async def test_two_tokens_in_one_request_are_no_token(app: Benbi) -> None:
    async with serving(app, tokens=TOKENS, worker=False) as client:
        both = [("authorization", f"Bearer {ALICE}"), ("authorization", f"Bearer {BOB}")]
        assert_problem(await client.get("/api/jobs", headers=both), 401)


async def test_a_foreign_job_is_a_missing_job(app: Benbi) -> None:
    async with serving(app, tokens=TOKENS, worker=False) as client:
        call = {"task": "add", "arguments": {"a": 1, "b": 2}, "key": "k"}
        made = await client.post("/api/jobs", json=call, headers=bearer(ALICE))
        job_id = made.json()["id"]
        assert made.json()["owner"] == "alice"
        missing = "00000000-0000-7000-8000-000000000000"
        before = await app.get(job_id)
        for headers in (bearer(BOB), bearer(PLAIN), bearer(BOB) | STREAM):
            for method, path, body in (
                ("GET", "", None),
                ("GET", "/events", None),
                ("GET", "/result", None),
                ("POST", "/cancel", {}),
                ("POST", "/retry", {}),
                ("POST", "/answer", {"value": 1}),
            ):
                foreign, unknown = [
                    await client.request(
                        method, f"/api/jobs/{wanted}{path}", headers=headers, json=body
                    )
                    for wanted in (job_id, missing)
                ]
                assert assert_problem(foreign, 404) == assert_problem(unknown, 404) | {
                    "detail": f"no job {job_id!r}",
                    "job_id": job_id,
                }
        assert await app.get(job_id) == before

        assert (await client.get("/api/jobs", headers=bearer(BOB))).json()["jobs"] == []
        page = await client.get(f"/api/jobs?before={job_id}", headers=bearer(BOB))
        assert "alice" not in page.text
        # The same key of another owner is another job.
        other = await client.post("/api/jobs", json=call, headers=bearer(BOB))
        assert other.json()["id"] != job_id
        mine = await client.get("/api/jobs", headers=bearer(ALICE))
        assert [job["id"] for job in mine.json()["jobs"]] == [job_id]


async def test_an_owner_sees_its_failure_without_the_traceback(app: Benbi) -> None:
    async with serving(app, tokens=TOKENS) as client:
        client.headers.update(bearer(ALICE))
        job = await in_state(client, await created(client, "burn"), "failed")
        assert job["error"]["message"] == "the oven is broken"
        assert job["error"]["traceback"] == ""


async def test_an_owner_follows_its_own_job(app: Benbi) -> None:
    async with serving(app, tokens=TOKENS) as client:
        client.headers.update(bearer(ALICE))
        frames = await read(client, await created(client, "tell", count=3))
        assert seqs(frames) == list(range(1, len(frames) + 1))
        assert frames[-1].event == "completed"


async def test_a_call_over_mcp_belongs_to_its_caller(app: Benbi) -> None:
    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

    async with serving(app, tokens=TOKENS) as client:
        client.headers["accept"] = "application/json, text/event-stream"
        # The first request to /mcp is another's: nothing of it may stick.
        await client.post("/mcp", json=call("add", a=0, b=0), headers=bearer(BOB))
        made = await client.post("/mcp", json=call("add", a=1, b=2), headers=bearer(ALICE))
        assert made.status_code == 200
        (job,) = await app.jobs(owner="alice")
        assert job.id in made.text
        status = call("benbi_job_status", job_id=job.id)
        own = await client.post("/mcp", json=status, headers=bearer(ALICE))
        foreign = await client.post("/mcp", json=status, headers=bearer(BOB))
        assert "completed" in own.text
        assert "completed" not in foreign.text
        assert f"no job {job.id!r}" in foreign.text
        assert (await client.get(f"/api/jobs/{job.id}", headers=bearer(ALICE))).status_code == 200
        assert (await client.get(f"/api/jobs/{job.id}", headers=bearer(BOB))).status_code == 404


async def test_tokens_come_from_the_environment(
    app: Benbi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENBI_TOKEN", f"alice:{ALICE} {PLAIN}")
    async with serving(app, worker=False) as client:
        assert (await client.get("/api/jobs")).status_code == 401
        for token in (ALICE, PLAIN):
            assert (await client.get("/api/jobs", headers=bearer(token))).status_code == 200


async def test_a_verifier_names_the_owner_by_issuer_and_subject(app: Benbi) -> None:
    from mcp.server.auth.provider import AccessToken

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            if not token.startswith("good"):
                return None
            ends = 1 if "expired" in token else None
            return AccessToken(
                token=token,
                client_id="chat",
                scopes=[],
                subject="u1",
                claims={"iss": "https://id.example"},
                expires_at=ends,
            )

    async with serving(app, verifier=Verifier(), worker=False) as client:
        assert_problem(await client.get("/api/jobs", headers=bearer("bad")), 401)
        assert_problem(await client.get("/api/jobs", headers=bearer("good-expired")), 401)
        client.headers.update(bearer("good"))
        job = await client.get(f"/api/jobs/{await created(client, 'add', a=1, b=2)}")
        assert job.json()["owner"] == "https://id.example#u1"
    with pytest.raises(ConfigurationError, match="not both"):
        build(app, verifier=Verifier(), tokens=TOKENS)


async def test_one_token_may_be_given_as_a_text(app: Benbi) -> None:
    async with serving(app, tokens=f"alice:{ALICE}", worker=False) as client:
        assert (await client.get("/api/jobs", headers=bearer("a"))).status_code == 401
        assert (await client.get("/api/jobs", headers=bearer(ALICE))).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "jobs.example", ""])
async def test_an_open_door_does_not_start(app: Benbi, host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--token .*127\.0\.0\.1") as refused:
        await serve(app, host=host, port=0)
    assert "\n" not in str(refused.value)


async def test_with_tokens_the_door_may_be_open(app: Benbi) -> None:
    async with serving(app, host="0.0.0.0", tokens=TOKENS, worker=False) as client:
        port = client.base_url.port
        address = f"http://127.0.0.1:{port}/api/jobs"
        assert (await client.get(address, headers=bearer(ALICE))).status_code == 200
        assert (await client.get(address)).status_code == 401


async def test_secrets_are_in_no_log(
    app: Benbi, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(app, tokens=TOKENS, worker=False) as client:
        await client.get("/api/jobs", headers=bearer(ALICE))
        await client.get("/api/jobs", headers=bearer("a-wrong-secret"))
        await client.post("/mcp", headers=bearer(BOB), json={"nonsense": 1})
        await client.post("/api/jobs", headers=bearer(PLAIN), content=b"{")
    said = caplog.text + "".join(capfd.readouterr()) + repr(Tokens(TOKENS))
    assert "mcp" in said
    for secret in (ALICE, BOB, PLAIN, "a-wrong-secret"):
        assert secret not in said


def test_the_owner_of_a_plain_token_is_a_stable_label() -> None:
    owner = Tokens([PLAIN]).owner_of(PLAIN)
    assert owner == Tokens([f"alice:{ALICE}", PLAIN]).owner_of(PLAIN) == "token-acbcf59048ee"
    assert Tokens([PLAIN, "another-secret"]).owner_of("another-secret") != owner


@pytest.mark.parametrize(
    "tokens",
    [[""], ["alice:"], [":secret"], ["alice:two words"], ["höhle"], ["a:same", "b:same"]],
)
def test_a_token_that_can_not_be_is_refused_without_being_told(tokens: list[str]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Tokens(tokens)
    for token in tokens:
        secret = token.partition(":")[2]
        assert not secret or secret not in str(refused.value)


def test_one_kind_of_principal_never_looks_like_another() -> None:
    from mcp.server.auth.provider import AccessToken

    def owner(client: str, subject: str | None = None, issuer: str | None = None) -> str:
        claims: dict[str, Any] | None = {"iss": issuer} if issuer else None
        return owner_from(
            AccessToken(token="", client_id=client, scopes=[], subject=subject, claims=claims)
        )

    owners = [
        owner("c"),
        owner("c", "c"),
        owner("c", "client:c"),
        owner("c", "u", "https://a.example"),
        owner("c", "u", "https://b.example"),
        owner("c", "https://a.example#u"),
    ]
    assert len(set(owners)) == len(owners)
    assert owner("c", "u") == owner("another", "u")
