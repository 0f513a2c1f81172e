"""The envelope is bounded, and says what it left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import jsonschema
from pydantic import BaseModel, TypeAdapter

from benbi.job import CatalogueEntry, Event, State
from benbi.server.mcp.envelope import (
    MAX_PARTIAL_BYTES,
    MAX_PARTIALS,
    envelope,
    envelope_schema,
)
from benbi.server.mcp.offers import LONGEST_WAIT, offer_of
from tests.doors.mcp.test_describe import JOB, NOW


def partials(*values: Any) -> list[Event]:
    return [
        Event(JOB.id, seq, "partial", None, 1, NOW, value) for seq, value in enumerate(values, 2)
    ]


def test_the_newest_partial_results_fit_in() -> None:
    body = envelope(JOB, events=partials(*range(MAX_PARTIALS + 3)))
    assert body["partials"] == list(range(3, MAX_PARTIALS + 3))
    assert "3 earlier partial results left out" in body["message"]


def test_partial_results_are_bounded_in_size_but_one_always_fits() -> None:
    half = "x" * (MAX_PARTIAL_BYTES // 2 + 1)
    assert len(envelope(JOB, events=partials(half, half))["partials"]) == 1
    assert len(envelope(JOB, events=partials("x" * MAX_PARTIAL_BYTES * 2))["partials"]) == 1


def test_nothing_is_there_that_is_not_known() -> None:
    assert set(envelope(JOB)) == {"jobId", "state", "seq", "message", "pollAfterMs"}


def test_a_result_of_null_is_a_result() -> None:
    body = envelope(replace(JOB, state=State.COMPLETED, finished_at=NOW), result_json="null")
    assert body["result"] is None


def test_a_schema_with_references_still_finds_them() -> None:
    class Node(BaseModel):
        name: str
        below: list[Node] = []

    schema = envelope_schema(TypeAdapter(Node).json_schema())
    body = {"jobId": "1", "state": "completed", "seq": 3, "message": "completed"}
    node = {"name": "a", "below": [{"name": "b", "below": []}]}
    jsonschema.validate({**body, "result": node}, schema)
    wrong = {"name": "a", "below": [{"name": 7}]}
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert not validator.is_valid({**body, "result": wrong})


def test_no_call_waits_for_as_long_as_hosts_cut_calls() -> None:
    entry = CatalogueEntry(
        task="t",
        queue="q",
        doc="",
        arguments_schema={},
        result_schema={},
        tool={"wait": 3600.0},
        defaults={},
        code_version="",
        last_seen=datetime.now(UTC),
    )
    assert offer_of("t", entry).wait == LONGEST_WAIT < 60
