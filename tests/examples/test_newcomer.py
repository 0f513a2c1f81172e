"""The newcomer's page: what it has typed in does run, and so does the unit that it installs.

scripts/first-minute does the page in an environment of its own, with the wheel.
"""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import DOCS
from scripts.readme import Block, blocks, is_file

PAGE = DOCS / "newcomer.md"
BLOCKS = blocks(PAGE.read_text("utf-8"))
BENBI = "/srv/shop/.venv/bin/benbi"


def put(block: Block, folder: Path) -> None:
    """Saves a block as the file that the page says it is."""
    (folder / block.words[1]).write_text(block.body, "utf-8")


def here(words: str, folder: Path) -> list[str]:
    """A command of the page with its programs and folders moved to the test's."""
    text = words.replace(BENBI, f"{shlex.quote(sys.executable)} -m benbi")
    text = text.replace("/srv/shop", str(folder)).replace("/var/lib/shop", str(folder / "state"))
    return shlex.split(text)


def commands(beginning: str) -> list[str]:
    """The lines of the console blocks that begin so, without that beginning."""
    lines = [
        line for block in BLOCKS if block.language == "console" for line in block.body.split("\n")
    ]
    return [line.removeprefix(beginning) for line in lines if line.startswith(beginning)]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The reader's folder, with every file of the page; it is /srv/shop as well."""
    for block in BLOCKS:
        if is_file(block):
            put(block, tmp_path)
    (tmp_path / "state").mkdir()
    return tmp_path


@pytest.fixture
def unit(shop: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(shop / "shop-worker.service", "utf-8")
    return parser["Service"]


@pytest.fixture
def service(unit: configparser.SectionProxy, shop: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Started as systemd would: no variable of the caller's shell but what the unit says."""
    name, _, address = unit["Environment"].partition("=")
    (value,) = here(address, shop)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    process = subprocess.Popen(
        here(unit["ExecStart"], shop),
        cwd=here(unit["WorkingDirectory"], shop)[0],
        env={**kept, name: value},
        stdin=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


def test_its_test_passes(shop: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=shop, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_unit_runs_the_jobs_of_the_page_and_drains(
    service: subprocess.Popen[bytes], unit: configparser.SectionProxy, shop: Path
) -> None:
    enqueue, _ = commands("sudo -u shop ")
    command = here(enqueue, shop)
    # Without --app the task is known only once the worker has told the database of it.
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(command, cwd=shop, capture_output=True, text=True)
        if done.returncode == 0 or time.monotonic() > deadline:
            break
    assert "order 19: kite and string" in done.stdout, done.stderr
    service.send_signal(signal.SIGTERM)
    assert service.wait(timeout=float(unit["TimeoutStopSec"])) == 0


def test_the_unit_allows_the_grace_and_some_more(unit: configparser.SectionProxy) -> None:
    words = shlex.split(unit["ExecStart"])
    grace = float(words[words.index("--grace") + 1])
    assert float(unit["TimeoutStopSec"]) >= grace + 15


def test_the_commands_name_the_unit_and_its_folders(unit: configparser.SectionProxy) -> None:
    names = {block.words[1].removesuffix(".service") for block in BLOCKS if block.language == "ini"}
    assert set(commands("sudo systemctl restart ")) == names
    assert unit["WorkingDirectory"] in commands("sudo mkdir ")
    assert commands("sudo useradd ")[0].endswith(f" {unit['User']}")
