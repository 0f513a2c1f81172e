"""``benbi serve`` and ``benbi mcp``: what the command line gives to the doors."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from urllib.request import urlopen

import pytest

from tests.doors.cli.command import SECONDS, Command

pytest.importorskip("mcp", reason="needs benbi[server]")
pytest.importorskip("fastapi", reason="needs benbi[server]")


def test_serve_says_where_it_listens_and_ends_well(benbi: Command) -> None:
    serving = benbi.start("serve", "shop:app", "--port", "0")
    found = re.search(r"http://127\.0\.0\.1:\d+", serving.until("listens on"))
    assert found
    with urlopen(f"{found[0]}/healthz", timeout=SECONDS) as answer:
        assert answer.status == 200
    job_id = benbi.enqueue("add", "a=1")
    assert benbi.run("jobs", "watch", job_id).returncode == 0
    serving.send(signal.SIGTERM)
    assert serving.wait() == 0


def test_serve_without_a_module_serves_the_catalogue(benbi: Command) -> None:
    serving = benbi.start("serve", "--port", "0", "--json")
    document = json.loads(serving.until("listens on").splitlines()[0])
    assert "no worker beside it" in document["started"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "no-such-host.invalid", "--token", "x" * 32], "can not listen"),
    ],
)
def test_serve_refuses_an_address_that_can_not_be(
    benbi: Command, words: list[str], said: str
) -> None:
    done = benbi.run("serve", "shop:app", "--port", "0", *words)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


def test_the_config_of_a_host_is_absolute_and_works_from_the_root(benbi: Command) -> None:
    words = ["--print-config", "--name", "shop", "--no-worker"]
    done = benbi.run("mcp", "shop.py:app", *words, BENBI_URL="jobs.db")
    assert done.returncode == 0, done.stderr
    entry = json.loads(done.stdout)["mcpServers"]["shop"]
    assert entry["env"]["BENBI_URL"] == f"sqlite:///{benbi.folder / 'jobs.db'}"
    assert "--no-worker" in entry["args"]
    # As a host would: its own folder, few variables, and a client that leaves at once.
    started = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": str(benbi.folder), **entry["env"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert started.returncode == 0, started.stderr
    assert started.stdout == ""
    assert benbi.read("enqueue", "add", "a=1")["state"] == "pending"
