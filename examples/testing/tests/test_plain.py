"""A task as the function that it is: no worker, no database of its own jobs."""

import asyncio

import pytest
from conftest import FakeBank
from shop import bank, order, remind

from benbi import testing
from benbi.testing import TestApp


def test_an_order_as_a_function(benbi_app: TestApp) -> None:
    ctx = testing.context(answers={"Wrap it?": True}, resources={bank: FakeBank()})
    assert asyncio.run(order(ctx, "mai", 30)) == "receipt 1, wrapped"

    assert ctx.steps == [("charge", "receipt 1")]
    assert ctx.questions == [("Wrap it?", True)]
    assert [report.message for report in ctx.reports] == ["charged"]
    # What it enqueued is in the database of the test.
    assert len(benbi_app.enqueued(remind, "mai")) == 1


def test_a_step_that_does_not_run(benbi_app: TestApp) -> None:
    ctx = testing.context(steps={"charge": "a receipt"})
    assert asyncio.run(order(ctx, "mai", 30)) == "a receipt, plain"


def test_a_step_that_fails() -> None:
    ctx = testing.context(steps={"charge": PermissionError("no credit")})
    with pytest.raises(PermissionError):
        asyncio.run(order(ctx, "mai", 30))
