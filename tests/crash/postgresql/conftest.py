"""One server for all of these tests in a process, and a database on it for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import Server, server
from tests.support.site import Site, site_on


@pytest.fixture(scope="session")
def own_server() -> Iterator[Server]:
    with server() as started:
        yield started


@pytest.fixture
def site(own_server: Server, tmp_path: Path) -> Iterator[Site]:
    with site_on(own_server, tmp_path) as made:
        yield made
