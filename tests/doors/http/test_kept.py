"""Files and logs of jobs over HTTP: for their owner alone, and as downloads only."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from benbi import Benbi, Context
from tests.doors.http.served import created, in_state, serving

TOKENS = ["alice:" + "a" * 40, "bob:" + "b" * 40]
PAGE = b"<script>alert(document.domain)</script>"
NAME = "trang đầu.html"

log = logging.getLogger("test.kept")


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    app = Benbi(f"sqlite:///{tmp_path / 'jobs.db'}")

    @app.task
    async def draw(ctx: Context) -> None:
        log.warning("drawing")
        await ctx.save(NAME, PAGE)

    @app.task
    async def idle() -> None: ...

    return app


async def test_a_file_is_listed_and_loaded_down(app: Benbi) -> None:
    async with serving(app) as client:
        job = await in_state(client, await created(client, "draw"), "completed")
        listed = (await client.get(job["links"]["artifacts"])).json()
        assert listed["job_id"] == job["id"]
        (artifact,) = listed["artifacts"]
        digest = hashlib.sha256(PAGE).hexdigest()
        assert (artifact["name"], artifact["size"], artifact["sha256"]) == (NAME, len(PAGE), digest)
        answer = await client.get(artifact["link"])
        assert (answer.status_code, answer.content) == (200, PAGE)
        part = await client.get(artifact["link"], headers={"range": "bytes=1-6"})
        assert (part.status_code, part.content) == (206, PAGE[1:7])
        empty = await in_state(client, await created(client, "idle"), "completed")
        assert (await client.get(empty["links"]["artifacts"])).json()["artifacts"] == []


async def test_no_browser_runs_what_a_job_saved(app: Benbi) -> None:
    async with serving(app) as client:
        job = await in_state(client, await created(client, "draw"), "completed")
        answer = await client.get(f"{job['links']['artifacts']}/{quote(NAME)}")
        headers = answer.headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"] == f"attachment; filename*=utf-8''{quote(NAME)}"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("sandbox")


@pytest.mark.parametrize("name", ["other", "..%2f..%2fjobs.db", "%2e%2e", "a" * 2000])
async def test_another_name_is_not_found(app: Benbi, name: str) -> None:
    async with serving(app) as client:
        job = await in_state(client, await created(client, "draw"), "completed")
        answer = await client.get(f"{job['links']['artifacts']}/{name}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


async def test_the_log_of_a_job(app: Benbi) -> None:
    async with serving(app) as client:
        job = await in_state(client, await created(client, "draw"), "completed")
        (line,) = (await client.get(job["links"]["logs"])).json()["lines"]
        assert (line["number"], line["attempt"], line["message"]) == (1, 1, "drawing")
        assert (line["level"], line["logger"]) == ("WARNING", "test.kept")
        other = await client.get(f"{job['links']['logs']}?attempt=2")
        assert other.json()["lines"] == []
        assert (await client.get(f"{job['links']['logs']}?attempt=0")).status_code == 422


async def test_what_a_foreign_job_keeps_looks_like_nothing(app: Benbi) -> None:
    async with serving(app, tokens=TOKENS) as client:
        alice, bob = ({"authorization": f"Bearer {token.split(':')[1]}"} for token in TOKENS)
        client.headers.update(alice)
        job = await in_state(client, await created(client, "draw"), "completed")
        for part in ("artifacts", "logs", f"artifacts/{quote(NAME)}"):
            address = f"/api/jobs/{job['id']}/{part}"
            assert (await client.get(address)).status_code == 200
            foreign = await client.get(address, headers=bob)
            missing = "00000000-0000-7000-8000-000000000000"
            unknown = await client.get(address.replace(job["id"], missing), headers=bob)
            assert foreign.status_code == unknown.status_code == 404
            assert foreign.json()["detail"] == f"no job {job['id']!r}"
            assert unknown.json()["detail"] == f"no job {missing!r}"
            assert (await client.get(address, headers={"authorization": ""})).status_code == 401
