"""Every tool gets a name that hosts accept, the same after every restart, and its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benbi.server.mcp.names import JOB_TOOLS, job_tool, prefix_from, tool_names

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("gifts", "gifts"),
        ("Gift Genius (EU)", "Gift_Genius_EU"),
        ("日本", "benbi"),
        ("", "benbi"),
        (None, "benbi"),
    ],
)
def test_the_prefix_is_made_from_the_servers_name(name: str | None, prefix: str) -> None:
    assert prefix_from(name) == prefix


@given(st.text())
def test_every_job_tool_has_an_accepted_name(name: str) -> None:
    assert all(ACCEPTED.fullmatch(job_tool(prefix_from(name), verb)) for verb in JOB_TOOLS)


@given(st.sets(st.text(min_size=1, max_size=130)))
def test_every_task_has_an_accepted_name_of_its_own(tasks: set[str]) -> None:
    names = tool_names(tasks, taken=["benbi_job_status"])
    assert set(names) == tasks
    assert len({*names.values(), "benbi_job_status"}) == len(tasks) + 1
    assert all(ACCEPTED.fullmatch(name) for name in names.values())


def test_a_name_that_fits_is_kept_whoever_else_is_there() -> None:
    names = tool_names(["a.b", "a_b", "benbi_job_status"], taken=["benbi_job_status"])
    assert names["a_b"] == "a_b"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", names["a.b"])
    assert names == tool_names(["benbi_job_status", "a_b", "a.b"], taken=["benbi_job_status"])
