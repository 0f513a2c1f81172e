"""A database and a served app for each test, a worker beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from benbi import Benbi
from tests.doors.http.bakery import bakery
from tests.doors.http.served import serving


@pytest.fixture(autouse=True, scope="session")
def no_tokens_from_outside() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BENBI_TOKEN", raising=False)
        yield


@pytest.fixture
def app(tmp_path: Path) -> Benbi:
    return bakery(f"sqlite:///{tmp_path / 'jobs.db'}")


@pytest.fixture
async def client(app: Benbi) -> AsyncIterator[httpx.AsyncClient]:
    """Talks to a server without sign-in, with a worker beside it."""
    async with serving(app) as client:
        yield client


@pytest.fixture
async def idle(app: Benbi) -> AsyncIterator[httpx.AsyncClient]:
    """Talks to a server without a worker: jobs stay as they are."""
    async with serving(app, worker=False) as client:
        yield client


@pytest.fixture(scope="module")
def shared_app(tmp_path_factory: pytest.TempPathFactory) -> Benbi:
    return bakery(f"sqlite:///{tmp_path_factory.mktemp('shared') / 'jobs.db'}")


@pytest.fixture(scope="module")
async def shared(shared_app: Benbi) -> AsyncIterator[httpx.AsyncClient]:
    """As ``idle``, one for all tests of a module: for those that leave nothing behind."""
    async with serving(shared_app, worker=False) as client:
        yield client
