"""What the addresses of a job do, over a real socket."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from benbi import Benbi, Job
from tests.doors.http.bakery import bakery
from tests.doors.http.served import created, in_state, read, serving


async def test_a_job_is_created_followed_and_read(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/jobs", json={"task": "add", "arguments": {"a": 1, "b": 2}})
    assert answer.status_code == 202
    job = answer.json()
    assert answer.headers["location"] == f"/api/jobs/{job['id']}" == job["links"]["self"]

    done = await in_state(client, job["id"], "completed")
    assert (done["task"], done["owner"], done["attempt"], done["error"]) == ("add", "", 1, None)
    assert set(done) == {field.name for field in fields(Job)} | {"links"}
    assert datetime.fromisoformat(done["finished_at"]).utcoffset() == timedelta(0)
    result = await client.get(done["links"]["result"])
    assert (result.headers["content-type"], result.json()) == ("application/json", 3)


async def test_the_job_is_on_disk_before_the_answer(idle: httpx.AsyncClient, app: Benbi) -> None:
    answer = await idle.post(
        "/api/jobs",
        json={"task": "add", "arguments": {"a": 1, "b": 2}, "priority": 7, "queue": "fast"},
    )
    stored = await app.get(answer.json()["id"])
    assert (stored.task, stored.priority, stored.queue) == ("add", 7, "fast")
    assert await app.arguments_json(stored.id) == '{"a":1,"b":2}'


@pytest.mark.parametrize("field", ["delay", "run_at"])
async def test_a_job_may_start_later(idle: httpx.AsyncClient, field: str) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    later = {"delay": 3600, "run_at": due.isoformat()}[field]
    answer = await idle.post(
        "/api/jobs", json={"task": "add", "arguments": {"a": 1, "b": 2}, field: later}
    )
    assert answer.json()["state"] == "scheduled"
    assert abs(datetime.fromisoformat(answer.json()["run_at"]) - due) < timedelta(minutes=1)


@pytest.mark.parametrize("quoted", [False, True])
async def test_an_idempotency_key_makes_one_job(idle: httpx.AsyncClient, quoted: bool) -> None:
    call = {"task": "add", "arguments": {"a": 1, "b": 2}}
    headers = {"idempotency-key": '"order-17"' if quoted else "order-17"}
    first = await idle.post("/api/jobs", json=call, headers=headers)
    again = await idle.post("/api/jobs", json=call | {"key": "order-17"})
    assert again.status_code == 202
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["key"] == "order-17"

    other = call | {"arguments": {"a": 1, "b": 3}}
    conflict = await idle.post("/api/jobs", json=other, headers=headers)
    assert conflict.status_code == 409
    assert conflict.json()["type"] == "urn:benbi:problem:idempotency-conflict"
    assert conflict.json()["job_id"] == first.json()["id"]
    both = await idle.post("/api/jobs", json=call | {"key": "other"}, headers=headers)
    assert both.status_code == 400


async def test_a_job_says_why_it_is_not_running(idle: httpx.AsyncClient, app: Benbi) -> None:
    job_id = await created(idle, "add", a=1, b=2)
    await app.pause_queue("default", by="ann")
    told = (await idle.get(f"/api/jobs/{job_id}/explain")).json()
    assert (told["job_id"], told["state"], told["cause"]) == (job_id, "pending", "queue_paused")
    assert told["sentence"].startswith("The queue default is paused")
    assert told["details"]["queue"] == "default"
    missing = await idle.get(f"/api/jobs/{uuid4()}/explain")
    assert missing.status_code == 404


async def test_the_list_is_read_page_by_page_newest_first(idle: httpx.AsyncClient) -> None:
    ids = [await created(idle, "add", a=number, b=0) for number in range(5)]
    seen: list[str] = []
    address = "/api/jobs?limit=2&task=add"
    while address:
        page = (await idle.get(address)).json()
        assert len(page["jobs"]) <= 2
        seen += [job["id"] for job in page["jobs"]]
        address = page["next"]
        # What is created meanwhile moves nothing into the pages that follow.
        await created(idle, "add", a=99, b=0)
    assert seen == ids[::-1]


async def test_the_list_is_filtered(client: httpx.AsyncClient) -> None:
    done = await created(client, "add", a=1, b=2)
    burnt = await created(client, "burn")
    await in_state(client, done, "completed")
    await in_state(client, burnt, "failed")

    async def ids(**filters: str) -> list[str]:
        answer = await client.get("/api/jobs", params=filters)
        return [job["id"] for job in answer.json()["jobs"]]

    assert await ids() == [burnt, done]
    assert await ids(state="failed") == [burnt]
    assert await ids(task="add") == [done]
    assert await ids(queue="default", task="burn") == [burnt]
    assert await ids(queue="another") == []
    assert await ids(before=burnt) == [done]


async def test_a_failed_job_tells_why_and_has_no_result(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "burn")
    job = await in_state(client, job_id, "failed")
    assert job["error"]["message"] == "the oven is broken"
    assert job["error"]["kind"] == "permanent"
    assert "Permanent" in job["error"]["traceback"]
    answer = await client.get(f"/api/jobs/{job_id}/result")
    assert (answer.status_code, answer.json()["state"]) == (409, "failed")

    again = await client.post(f"/api/jobs/{job_id}/retry", json={"fresh": True})
    assert (again.status_code, again.json()["generation"]) == (200, 2)
    await in_state(client, job_id, "failed")


async def test_a_pending_job_is_canceled_at_once(idle: httpx.AsyncClient) -> None:
    job_id = await created(idle, "add", a=1, b=2)
    answer = await idle.post(f"/api/jobs/{job_id}/cancel", json={"reason": "not needed"})
    assert (answer.status_code, answer.json()["state"]) == (200, "canceled")
    assert (await idle.get(f"/api/jobs/{job_id}/result")).json()["state"] == "canceled"


async def test_a_running_job_is_asked_to_stop(client: httpx.AsyncClient, tmp_path: Path) -> None:
    job_id = await created(client, "hold", door=str(tmp_path / "never"))
    await in_state(client, job_id, "running")
    answer = await client.post(f"/api/jobs/{job_id}/cancel")
    # It may have stopped before the answer was written.
    stopped = answer.json()["state"] == "canceled"
    assert answer.status_code == (200 if stopped else 202)
    assert stopped or answer.json()["cancel_requested"]
    await in_state(client, job_id, "canceled")


async def test_a_question_is_shown_and_answered(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "choose")
    job = await in_state(client, job_id, "input_required")
    (question,) = job["questions"]
    assert (question["prompt"], question["schema"]["type"]) == ("Really?", "boolean")

    wrong = await client.post(f"/api/jobs/{job_id}/answer", json={"value": "perhaps"})
    assert wrong.status_code == 409
    assert wrong.json()["type"] == "urn:benbi:problem:answer-refused"
    answer = await client.post(
        f"/api/jobs/{job_id}/answer", json={"value": False, "question": question["key"]}
    )
    assert answer.status_code == 200
    await in_state(client, job_id, "completed")
    assert (await client.get(f"/api/jobs/{job_id}/result")).json() is False


async def test_the_index_and_the_schema_name_every_address(client: httpx.AsyncClient) -> None:
    index = (await client.get("/")).json()
    assert {"add", "choose"} <= set(index["tasks"])
    for address in ("jobs", "openapi", "health"):
        assert (await client.get(index["links"][address])).status_code == 200
    schema = (await client.get(index["links"]["openapi"])).json()
    assert schema["openapi"].startswith("3.1")
    assert set(schema["paths"]) == {
        "/",
        "/healthz",
        "/api/jobs",
        "/api/jobs/{job_id}",
        "/api/jobs/{job_id}/events",
        "/api/jobs/{job_id}/result",
        "/api/jobs/{job_id}/explain",
        "/api/jobs/{job_id}/artifacts",
        "/api/jobs/{job_id}/artifacts/{name}",
        "/api/jobs/{job_id}/logs",
        "/api/jobs/{job_id}/cancel",
        "/api/jobs/{job_id}/answer",
        "/api/jobs/{job_id}/retry",
    }


async def test_events_are_read_as_json_in_pages(client: httpx.AsyncClient) -> None:
    job_id = await created(client, "tell", count=4)
    await in_state(client, job_id, "completed")
    after, seen = 0, []
    while True:
        answer = await client.get(f"/api/jobs/{job_id}/events", params={"after": after, "limit": 3})
        page = answer.json()
        seen += page["events"]
        assert page["next"] == (seen[-1]["seq"] if seen else 0)
        after = page["next"]
        if page["ended"]:
            break
        assert page["events"]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert [event["data"] for event in seen if event["type"] == "partial"] == [0, 1, 2, 3]
    assert seen[-1]["type"] == "completed"


async def test_missing_jobs_are_missing_at_every_address(client: httpx.AsyncClient) -> None:
    for job_id in (str(uuid4()), "nonsense", "%00", "1' OR '1'='1"):
        for method, path in (
            ("GET", ""),
            ("GET", "/events"),
            ("GET", "/result"),
            ("POST", "/cancel"),
            ("POST", "/retry"),
        ):
            answer = await client.request(method, f"/api/jobs/{job_id}{path}")
            assert answer.status_code == 404, (method, path, job_id)
            assert answer.json()["type"] == "urn:benbi:problem:job-not-found"


async def test_any_replica_answers_for_any_job(client: httpx.AsyncClient, tmp_path: Path) -> None:
    other_app = bakery(f"sqlite:///{tmp_path / 'jobs.db'}")
    async with serving(other_app, worker=False) as other:
        job_id = await created(other, "hold", door=str(tmp_path / "never"))
        await in_state(client, job_id, "running")
        reading = asyncio.create_task(read(other, job_id))
        assert (await other.post(f"/api/jobs/{job_id}/cancel")).is_success
        assert (await asyncio.wait_for(reading, 20))[-1].event == "canceled"
        assert (await client.get(f"/api/jobs/{job_id}")).json()["state"] == "canceled"
