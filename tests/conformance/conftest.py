"""Every test of this suite runs on each database, under the eyes of the shadow triggers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rig import Rig
from tests.support.rigs import KINDS, rigged


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them keep their database, one after the other."""
    return tmp_path_factory.mktemp("conformance")


@pytest.fixture(params=list(KINDS))
def rig(request: pytest.FixtureRequest, folder: Path) -> Iterator[Rig]:
    with rigged(request.param, folder) as rig:
        yield rig


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two at a time, those on the server are still one after the other: a stream of all its jobs
    waits for every transaction of the server."""
    for item in items:
        if "postgresql" in item.name or "pgbouncer" in item.name:
            item.add_marker(pytest.mark.xdist_group("server"))
