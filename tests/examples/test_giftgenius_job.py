"""The gift analysis as a durable job: called by an MCP client, run by a worker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("mcp")

from mcp.client import Client
from mcp_types import CallToolResult

from benbi import Benbi
from benbi.errors import InvalidArguments, JobFailed
from examples.giftgenius import analysis, client, data, server
from examples.giftgenius.models import Report
from tests.support.working import working

try:
    data.receipts()
except data.DataMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

WEEKS = range(8, 14)


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Benbi]:
    """The example's app on a database of its own; it counts few weeks, and shuffles little."""
    monkeypatch.setenv("BENBI_URL", f"sqlite:///{tmp_path / 'jobs.db'}")
    monkeypatch.delenv("GIFT_LLM_BASE_URL", raising=False)
    monkeypatch.setattr(analysis, "weeks", lambda: WEEKS)
    monkeypatch.setattr(analysis, "SHUFFLES", 8)
    async with server.app:
        yield server.app


@pytest.mark.anyio
async def test_an_mcp_client_calls_watches_and_gets_the_report(app: Benbi) -> None:
    arguments = {"household_id": 900, "budget": 25}
    async with Client(server.server, extensions=[client.Tasks()]) as caller:
        created = await caller.session.call_tool(
            "deep_gift_analysis", arguments, allow_claimed=True
        )
        assert isinstance(created, client.Created), created
        # Nobody works yet: the job is on disk all the same.
        assert (await app.get(created.task_id)).state == "pending"
        async with working(app), asyncio.timeout(50):
            answer = await client.result(caller.session, created.task_id)
    assert isinstance(answer, CallToolResult)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    report = Report.model_validate(answer.structured_content["result"])
    assert report.household.household_id == 900
    assert report.ideas
    assert 0 < report.total <= 25
    assert report.total == pytest.approx(sum(idea.price for idea in report.ideas))
    assert all(idea.reason and idea.goes_with for idea in report.ideas)
    assert {"tobacco", "spirits", "coupons"} <= set(report.excluded)

    events = await app.events(created.task_id)
    steps = Counter(event.data["name"] for event in events if event.type == "step_completed")
    assert steps == {
        "load_history": 1,
        "find_segments": 1,
        "count_week": len(WEEKS),
        "rough_ideas": 1,
        "rank": 1,
        "write_reason": len(report.ideas),
    }
    drafts = [event.data for event in events if event.type == "partial"]
    assert drafts[-1]["ideas"], "no client would have seen anything before the end"
    assert len(drafts[-1]["ideas"]) <= 3


@pytest.mark.anyio
async def test_an_unknown_household_fails_at_once_and_says_which_there_are(app: Benbi) -> None:
    handle = await server.deep_gift_analysis.enqueue(9_999, budget=10)
    async with working(app):
        with pytest.raises(JobFailed, match="numbered from 1 to 2500"):
            await handle.result(timeout=20)
    job = await handle.get()
    assert job.attempt == 1
    assert job.error is not None
    assert job.error.kind == "permanent"


@pytest.mark.anyio
@pytest.mark.parametrize("budget", [0, -5, 1_000_000, "much"])
async def test_a_budget_that_is_none_is_refused_at_the_door(app: Benbi, budget: object) -> None:
    with pytest.raises(InvalidArguments, match="budget"):
        await app.enqueue("deep_gift_analysis", {"household_id": 900, "budget": budget})
    assert await app.jobs() == []


@pytest.mark.anyio
async def test_a_budget_that_buys_nothing_gives_a_report_that_says_so(app: Benbi) -> None:
    handle = await server.deep_gift_analysis.enqueue(900, budget=0.5)
    async with working(app):
        report = await handle.result(timeout=50)
    assert report.ideas == []
    assert report.total == 0
    assert "try a little more" in report.note
