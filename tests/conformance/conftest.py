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
