"""A client of 2025-11-25, which checks output schemas, does everything with plain tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, CallToolResult

import benbi.mcp
from benbi import Benbi
from tests.doors.mcp.clients import LEGACY, MODERN
from tests.doors.mcp.gifts import register
from tests.support import wait_until_async
from tests.support.working import state_reached, working

VERSIONS = {"legacy": LEGACY, "auto": MODERN}


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return register(Benbi(str(tmp_path / "jobs.db")))


@asynccontextmanager
async def connected(app: Benbi, mode: Any = "legacy") -> AsyncIterator[Client]:
    server = MCPServer("gifts", **benbi.mcp.parts(app, prefix="gifts"))
    async with app, working(app), Client(server, mode=mode) as client:
        assert client.protocol_version == VERSIONS[mode]
        yield client


def body(result: Any) -> dict[str, Any]:
    """The envelope, which is there as text, too."""
    assert isinstance(result, CallToolResult)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def text(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    return result.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_quick_job_is_answered_by_the_call_itself(app: Benbi, mode: str) -> None:
    async with connected(app, mode) as client:
        answer = await client.call_tool("find_gifts", {"household": 17, "budget": 100})
        found = body(answer)
        assert found["state"] == "completed"
        assert found["result"] == {
            "household": 17,
            "gifts": [{"name": "tea", "price": 10.0}, {"name": "mug", "price": 20.0}],
        }
        assert "pollAfterMs" not in found
        assert json.loads(text(answer)) == found["result"]
        job = await app.get(found["jobId"])
        assert (job.task, job.owner, job.seq) == ("find_gifts", "", found["seq"])


async def test_the_envelope_is_the_output_schema_of_every_tool(app: Benbi) -> None:
    async with connected(app) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        envelope = {"jobId", "state", "seq", "message", "result", "question", "pollAfterMs"}
        for name in set(tools) - {"gifts_job_list"}:
            schema = tools[name].output_schema
            assert schema is not None
            assert envelope <= set(schema["properties"])
            assert schema["required"] == ["jobId", "state", "seq", "message"]
        find_gifts = tools["find_gifts"]
        assert find_gifts.input_schema["properties"]["budget"]["default"] == 50.0
        assert find_gifts.output_schema is not None
        assert "Report" in json.dumps(find_gifts.output_schema)
        assert set(tools) == {
            *{"find_gifts", "count", "breaks", "fails_slowly", "skips", "asks", "asks_twice"},
            *{"shouts", "only_tasks", "waits"},
            *{f"gifts_job_{verb}" for verb in ("status", "cancel", "answer", "list")},
        }


async def test_the_description_says_not_to_call_again(app: Benbi) -> None:
    async with connected(app) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        description = tools["find_gifts"].description
        assert description is not None
        assert description.startswith("Finds gifts for a household.")
        assert "do not call this tool again: call gifts_job_status" in description
        assert (tools["only_tasks"].title, (tools["only_tasks"].description or "")[:6]) == (
            "Only tasks",
            "Needs ",
        )


async def test_a_long_job_is_watched_event_by_event(app: Benbi, tmp_path: Path) -> None:
    gate, journal = tmp_path / "gate", tmp_path / "journal"
    arguments = {"numbers": 3, "gate": str(gate), "journal": str(journal)}
    async with connected(app) as client:
        started = body(await client.call_tool("count", arguments))
        assert started["state"] in ("pending", "running")
        assert started["pollAfterMs"] > 0
        seen: list[Any] = []
        now = started
        while now["state"] != "completed":
            look = {"job_id": started["jobId"], "after_seq": now["seq"]}
            later = body(await client.call_tool("gifts_job_status", look))
            assert later["seq"] > now["seq"] or later["state"] == "completed"
            now = later
            seen += now.get("partials", [])
            if seen:
                gate.touch()
        assert now["result"] == [0, 1, 2]
        # Each partial result came once, over all the looks.
        assert seen == [{"counted": 0}, {"counted": 1}, {"counted": 2}]


async def test_a_look_waits_for_news_and_is_cut_by_it(app: Benbi) -> None:
    async with connected(app) as client:
        asked = body(await client.call_tool("asks", {"what": "mug"}))
        look = {"job_id": asked["jobId"], "after_seq": asked["seq"]}
        waiting = asyncio.create_task(client.call_tool("gifts_job_status", look))
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
        async with asyncio.timeout(5):
            await app.answer(asked["jobId"], True)
            news = body(await waiting)
        assert news["seq"] > asked["seq"]


async def test_a_question_is_answered_with_a_tool(app: Benbi) -> None:
    async with connected(app) as client:
        asked = body(await client.call_tool("asks", {"what": "mug"}))
        assert asked["state"] == "input_required"
        assert asked["question"]["prompt"] == "Sell the mug?"
        assert asked["question"]["schema"] == {"type": "boolean"}
        refused = await client.call_tool(
            "gifts_job_answer", {"job_id": asked["jobId"], "answer": "perhaps"}
        )
        assert refused.is_error
        answered = body(
            await client.call_tool("gifts_job_answer", {"job_id": asked["jobId"], "answer": True})
        )
        done = await settled(client, answered)
        assert done["result"] == "sold"


async def test_of_several_questions_each_is_answered_by_its_key(app: Benbi) -> None:
    async with connected(app) as client:
        asked = body(await client.call_tool("asks_twice", {}))
        assert "2 questions are open" in asked["message"]
        job = asked["jobId"]
        unnamed = await client.call_tool("gifts_job_answer", {"job_id": job, "answer": None})
        assert unnamed.is_error
        note = {"job_id": job, "answer": None, "question": "note"}
        half = body(await client.call_tool("gifts_job_answer", note))
        assert (half["state"], half["question"]["key"]) == ("input_required", "wish")
        wish = {"job_id": job, "answer": {"colour": "red"}, "question": "wish"}
        done = await settled(client, body(await client.call_tool("gifts_job_answer", wish)))
        assert done["result"] == "red, no note"


async def test_a_job_is_canceled_with_a_tool(app: Benbi, tmp_path: Path) -> None:
    arguments = {"numbers": 9, "gate": str(tmp_path / "never"), "journal": str(tmp_path / "j")}
    async with connected(app) as client:
        started = body(await client.call_tool("count", arguments))
        told = body(await client.call_tool("gifts_job_cancel", {"job_id": started["jobId"]}))
        done = await settled(client, told)
        assert done["state"] == "canceled"
        again = body(await client.call_tool("gifts_job_cancel", {"job_id": started["jobId"]}))
        assert again["state"] == "canceled"


async def test_the_same_call_is_the_same_job_while_it_lives(app: Benbi, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    arguments = {"numbers": 2, "gate": str(gate), "journal": str(tmp_path / "journal")}
    async with connected(app) as client:
        first = body(await client.call_tool("count", arguments))["jobId"]
        assert body(await client.call_tool("count", arguments))["jobId"] == first
        other = body(await client.call_tool("count", {**arguments, "numbers": 3}))["jobId"]
        assert other != first
        gate.touch()
        looked = await client.call_tool("gifts_job_status", {"job_id": first, "after_seq": 0})
        await settled(client, body(looked))
        assert body(await client.call_tool("count", arguments))["jobId"] != first


async def test_a_failed_job_is_an_error_that_says_why(app: Benbi) -> None:
    async with connected(app) as client:
        failed = await client.call_tool("breaks", {"message": "no such shelf"})
        assert failed.is_error
        assert text(failed) == "ValueError: no such shelf"
        told = body(failed)
        assert (told["state"], told["message"]) == ("failed", "ValueError: no such shelf")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["breaks"].output_schema is not None
        jsonschema.validate(told, tools["breaks"].output_schema)
        # The look itself went well.
        look = await client.call_tool("gifts_job_status", {"job_id": told["jobId"]})
        assert not look.is_error
        assert body(look)["state"] == "failed"


async def test_a_planned_retry_says_when(app: Benbi) -> None:
    async with connected(app) as client:
        job = body(await client.call_tool("fails_slowly", {}))
        while job["state"] != "retrying":
            look = {"job_id": job["jobId"], "after_seq": job["seq"]}
            job = body(await client.call_tool("gifts_job_status", look))
        assert job["message"].startswith("attempt 1 of 2, retry in ")
        assert "ConnectionError: no route to host" in job["message"]
        assert job["pollAfterMs"] == 30_000


async def test_a_skipped_job_is_no_error(app: Benbi) -> None:
    async with connected(app) as client:
        skipped = await client.call_tool("skips", {})
        assert not skipped.is_error
        assert body(skipped)["state"] == "skipped"
        assert "nothing to find" in body(skipped)["message"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("find_gifts", {"household": "many"}, "household"),
        ("find_gifts", {}, "household"),
        ("find_gifts", {"household": 1, "colour": "red"}, "colour"),
        ("find_gifts", {"household": 1, "budget": float("inf")}, "budget"),
        ("shouts", {"text": "x" * 1_100_000}, "1,048,576"),
        ("gifts_job_status", {}, "job_id"),
        ("gifts_job_status", {"job_id": "nonsense"}, "no job 'nonsense'"),
        ("gifts_job_status", {"job_id": "x", "after_seq": -1}, "after_seq"),
        ("gifts_job_list", {"state": "sleeping"}, "state"),
        ("gifts_job_cancel", {"job_id": "01a22d48-63b7-77a1-a83a-9f096f2062c6"}, "no job"),
    ],
)
async def test_bad_input_is_refused_in_words(
    app: Benbi, name: str, arguments: dict[str, Any], words: str
) -> None:
    async with connected(app) as client:
        refused = await client.call_tool(name, arguments)
        assert refused.is_error
        assert words in text(refused)
        assert await app.jobs() == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_call_that_is_cut_changes_nothing_for_the_job(
    app: Benbi, tmp_path: Path, mode: str
) -> None:
    gate = tmp_path / "gate"
    async with connected(app, mode) as client:
        call = asyncio.create_task(client.call_tool("waits", {"gate": str(gate)}))
        (job,) = await wait_until_async(lambda: app.jobs(state="running"))
        call.cancel()
        await asyncio.wait({call})
        gate.touch()
        done = await state_reached(app, job.id, "completed")
        assert done.attempt == 1
        look = await client.call_tool("gifts_job_status", {"job_id": job.id})
        assert body(look)["result"] == "the gate is open"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_that_needs_the_extension_says_so(app: Benbi, mode: str) -> None:
    async with connected(app, mode) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("only_tasks", {})
        assert refused.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        assert await app.jobs() == []


async def test_progress_is_reported_while_a_call_waits(app: Benbi) -> None:
    reported: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        reported.append((done, total, message))

    async with connected(app) as client:
        await client.call_tool("find_gifts", {"household": 1}, progress_callback=on_progress)
    assert reported
    assert all(total == 4 for _, total, _ in reported)
    assert [done for done, *_ in reported] == sorted({done for done, *_ in reported})


async def test_jobs_are_listed_page_by_page_and_found_again(app: Benbi) -> None:
    async with connected(app) as client:
        await app.enqueue("hidden", {"text": "not a tool"})
        ids = [
            body(await client.call_tool("shouts", {"text": str(number)}))["jobId"]
            for number in range(3)
        ]
        asked = body(await client.call_tool("asks", {"what": "mug"}))["jobId"]
        first = body(await client.call_tool("gifts_job_list", {"limit": 2}))
        assert [job["jobId"] for job in first["jobs"]] == [asked, ids[2]]
        assert first["jobs"][0]["tool"] == "asks"
        assert first["jobs"][0]["questions"][0]["prompt"] == "Sell the mug?"
        page = {"limit": 2, "before": first["before"]}
        rest = body(await client.call_tool("gifts_job_list", page))
        assert [job["jobId"] for job in rest["jobs"]] == [ids[1], ids[0]]
        assert "before" not in rest
        open_ones = body(await client.call_tool("gifts_job_list", {"state": "input_required"}))
        assert [job["jobId"] for job in open_ones["jobs"]] == [asked]


async def settled(client: Client, job: dict[str, Any]) -> dict[str, Any]:
    """The envelope of the job once it is over."""
    async with asyncio.timeout(15):
        while "pollAfterMs" in job:
            look = {"job_id": job["jobId"], "after_seq": job["seq"]}
            job = body(await client.call_tool("gifts_job_status", look))
        return job
