"""A folder with tasks and a database; with a worker on it where a test needs one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.cli.command import Command, Launcher

SHOP = Path(__file__).with_name("shop.py")


@pytest.fixture(scope="session")
def launcher() -> Iterator[Launcher]:
    found = Launcher()
    yield found
    found.close()


def command_in(folder: Path, launcher: Launcher) -> Iterator[Command]:
    shutil.copy(SHOP, folder / "shop.py")
    command = Command(launcher, folder)
    try:
        yield command
    finally:
        command.end()


@pytest.fixture
def benbi(tmp_path: Path, launcher: Launcher) -> Iterator[Command]:
    """The command, in a folder of this test's own."""
    yield from command_in(tmp_path, launcher)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher) -> Iterator[Command]:
    """The command with a worker beside it, shared by all tests that only add jobs."""
    for command in command_in(tmp_path_factory.mktemp("shop"), launcher):
        command.start("work", "shop:app").until("tasks")
        yield command
