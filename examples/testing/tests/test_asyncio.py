"""With pytest-asyncio."""

import pytest
from conftest import FakeBank
from shop import order

from benbi.testing import TestApp

pytestmark = pytest.mark.asyncio


async def test_an_order(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    job = await order.enqueue("mai", 30)
    await benbi_app.run_until_idle()
    await job.answer(True)
    await benbi_app.run_until_idle()
    assert await job.result() == "receipt 1, wrapped"


async def test_silence_is_a_no(benbi_app: TestApp, fake_bank: FakeBank) -> None:
    job = await order.enqueue("mai", 30)
    await benbi_app.advance("1d")
    assert await job.result() == "receipt 1, plain"
