from collections.abc import Iterator

import pytest
from shop import Bank, bank

from benbi.testing import TestApp


class FakeBank(Bank):
    """Knows who was charged. ``down``: so many calls find it away."""

    def __init__(self) -> None:
        self.charged: list[tuple[str, int]] = []
        self.keys: list[str] = []
        self.down = 0

    async def charge(self, customer: str, amount: int, key: str) -> str:
        self.keys.append(key)
        if self.down:
            self.down -= 1
            raise ConnectionError("the bank is away")
        self.charged.append((customer, amount))
        return f"receipt {len(self.charged)}"


@pytest.fixture
def fake_bank(benbi_app: TestApp) -> Iterator[FakeBank]:
    fake = FakeBank()
    with benbi_app.override(bank, lambda: fake):
        yield fake


@pytest.fixture
def anyio_backend() -> str:
    """benbi runs on asyncio; anyio's plugin would try trio as well."""
    return "asyncio"
