"""The server as a process: how it starts, how it stops, and what a kill costs a reader."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benbi import Benbi
from benbi.errors import ConfigurationError
from benbi.server.http import serve
from tests.doors.http.bakery import bakery
from tests.doors.http.served import (
    STREAM,
    Frame,
    Reading,
    address_in,
    client_of,
    created,
    in_state,
    read,
    seqs,
    serving,
)
from tests.support import wait_until

ROOT = Path(__file__).parents[3]


class Server:
    """A server process on one database; ``line`` is what it said when it listened."""

    def __init__(self, folder: Path, port: int = 0, *words: str) -> None:
        self.log = folder / f"server-{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.doors.http.run_server",
                    f"sqlite:///{folder / 'jobs.db'}",
                    str(port),
                    *words,
                ],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_until(
            lambda: "listens" in self.log.read_text() or self.process.poll() is not None,
            timeout=30,
            what="the server listens",
        )
        self.line = self.log.read_text()
        assert "listens" in self.line, self.line

    @property
    def url(self) -> str:
        return address_in(self.line)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self, within: float) -> int:
        return self.process.wait(within)


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Servers put in here are gone when the test ends."""
    started: list[Server] = []
    yield started
    for server in started:
        server.process.kill()
        server.process.wait(10)


async def test_a_killed_server_costs_a_reader_nothing(
    tmp_path: Path, servers: list[Server]
) -> None:
    """The worker goes on elsewhere; the reader comes back with its last id."""
    door = tmp_path / "door"
    servers.append(Server(tmp_path))
    port = servers[0].port
    app = bakery(f"sqlite:///{tmp_path / 'jobs.db'}")
    stop = asyncio.Event()
    async with app, client_of(servers[0].url) as client:
        working = asyncio.create_task(app.work(stop=stop, grace=2))
        job_id = await created(client, "hold", door=str(door), count=5)
        reading = Reading()
        address = f"/api/jobs/{job_id}/events"
        with pytest.raises(httpx.RemoteProtocolError):
            async with client.stream("GET", address, headers=STREAM) as answer:
                async for line in answer.aiter_lines():
                    if reading.take(line) and reading.frames[-1].data["data"] == "before 4":
                        servers[0].signal(signal.SIGKILL)
        first = reading.frames
        assert first[-1].data["data"] == "before 4"

        door.touch()
        servers.append(Server(tmp_path, port))
        rest = await read(client, job_id, last_event_id=str(seqs(first)[-1]))
        assert seqs(first) + seqs(rest) == list(range(1, len(first) + len(rest) + 1))
        assert rest[-1].event == "completed"
        told = [frame.data["data"] for frame in first + rest if frame.event == "partial"]
        assert told == [f"{when} {n}" for when in ("before", "after") for n in range(5)]
        assert (await client.get(f"/api/jobs/{job_id}/result")).json() == "held"
        stop.set()
        await working


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_streams_and_drains_the_worker(
    tmp_path: Path, servers: list[Server], number: signal.Signals
) -> None:
    server = Server(tmp_path, 0, "worker")
    servers.append(server)
    ended: list[float] = []
    async with client_of(server.url) as client:
        job_id = await created(client, "hold", door=str(tmp_path / "never"))

        def stop_when_running(frames: list[Frame]) -> bool:
            if not ended and any(frame.event == "partial" for frame in frames):
                ended.append(time.monotonic())
                server.signal(number)
            return False

        frames = await read(client, job_id, until=stop_when_running)
        assert time.monotonic() - ended[0] < 2
        assert frames[-1].event in ("partial", "pending")
    assert server.ended(within=10) == 0
    assert "Traceback" not in server.log.read_text(), server.log.read_text()
    # The grace is over: the job went back, uncharged, for the next worker.
    async with bakery(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        job = await app.get(job_id)
        assert (job.state, job.failures, job.losses) == ("pending", 0, 0)


async def test_a_second_signal_stops_at_once(tmp_path: Path, servers: list[Server]) -> None:
    server = Server(tmp_path, 0, "worker")
    servers.append(server)
    async with client_of(server.url) as client:
        job_id = await created(client, "hold", door=str(tmp_path / "never"))
        await in_state(client, job_id, "running")
    server.signal(signal.SIGTERM)
    wait_until(lambda: not listens(server.port), what="the server has stopped listening")
    assert server.process.poll() is None
    server.signal(signal.SIGTERM)
    assert server.ended(within=1) == 128 + signal.SIGTERM


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_the_line_of_a_start_says_what_is_served(app: Benbi) -> None:
    lines: list[str] = []
    async with serving(app, announce=lines.append) as client:
        assert (await client.get("/healthz")).status_code == 200
    (line,) = lines
    for word in (str(client.base_url).rstrip("/"), "add", "choose", "/mcp", "jobs.db", "worker"):
        assert word in line


async def test_the_port_is_free_again_at_once(app: Benbi) -> None:
    async with serving(app, worker=False) as client:
        assert (await client.get("/")).status_code == 200
        port = client.base_url.port
    async with serving(app, worker=False, port=port) as client:
        assert (await client.get("/")).status_code == 200


async def test_a_port_in_use_is_one_clear_line(app: Benbi, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} .* in use") as refused:
            await serve(app, port=port)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir()), "nothing is made before it is known that it can be used"


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ({"host": "192.0.2.1", "port": 0}, "not an address of this machine"),
        ({"host": "no-such-host.invalid", "port": 0}, "can not listen"),
    ],
)
async def test_an_address_that_can_not_be_used(app: Benbi, address: dict, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        await serve(app, tokens=["secret-0123"], **address)
