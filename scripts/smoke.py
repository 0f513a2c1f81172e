"""What a user does first, with the benbi that is installed beside this Python.

    VENV/bin/python scripts/smoke.py core|postgres|server|secrets|all

Runs in an empty folder with a database of its own, away from the source tree. ``SMOKE_POSTGRES``
is the URL of a server.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TASKS = """
from benbi import Benbi, Context

app = Benbi()


@app.task(tool=True)
async def add(ctx: Context, a: int, b: int) -> int:
    "Adds two numbers."
    await ctx.progress(1, 1, "added")
    return a + b
"""

# What the extras bring.
DOORS = ("server", "all")
SEALED = ("secrets", "all")
ON_SERVER = ("postgres", "all")

SECRET_TASKS = """
from typing import Annotated

from benbi import Benbi, Secret

app = Benbi()


@app.task
async def sign(token: Annotated[str, Secret]) -> int:
    return len(token)
"""

BENBI = str(Path(sys.executable).with_name("benbi"))
SECONDS = 30  # for anything that is waited for


def benbi(*arguments: str) -> str:
    """What the command printed; it must succeed."""
    done = subprocess.run(
        [BENBI, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        sys.exit(f"benbi {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout.strip()


@contextmanager
def running(*arguments: str) -> Generator[None]:
    """The command runs meanwhile; at the end SIGTERM must end it, without an error."""
    process = subprocess.Popen([BENBI, *arguments])
    try:
        yield
        process.send_signal(signal.SIGTERM)
        if code := process.wait(timeout=SECONDS):
            sys.exit(f"benbi {' '.join(arguments)}: exit code {code} after SIGTERM")
    finally:
        process.kill()
        process.wait()


def check(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        sys.exit(f"{what}: found {found!r}, wanted {wanted!r}")
    print(f"  {what}: ok", flush=True)


def until(what: str, look: Callable[[], Any]) -> Any:
    """The first answer of ``look`` that is not an OSError."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return look()
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"{what}: {error}")
            time.sleep(0.1)


def command_line() -> None:
    job_id = benbi("enqueue", "add", "a=20", "b=22", "--app", "tasks:app")
    with running("work", "tasks:app"):
        benbi("jobs", "watch", job_id, "--timeout", str(SECONDS))
    job = json.loads(benbi("jobs", "show", job_id, "--json"))
    check("a job of the command line", (job["state"], job["result"]), ("completed", 42))
    events = [event["type"] for event in job["events"]]
    check("its events", events, ["created", "started", "progress", "completed"])


def without_the_extra() -> None:
    done = subprocess.run(
        [BENBI, "mcp", "tasks:app"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    check("benbi mcp without its extra fails", done.returncode != 0, True)
    check("in one line that names it", done.stderr.count("\n"), 1)
    check("the line names it", "benbi[server]" in done.stderr, True)


def over_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    address = f"http://127.0.0.1:{port}/api/jobs"

    def jobs() -> Any:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return json.load(answer)

    with running("serve", "tasks:app", "--port", str(port)):
        check("HTTP answers", bool(until("benbi serve", jobs)), True)


def sealed() -> None:
    Path("secret_tasks.py").write_text(SECRET_TASKS, "utf-8")
    os.environ["BENBI_KEY"] = base64.b64encode(os.urandom(32)).decode()
    job_id = benbi("enqueue", "sign", "token=planted-token", "--app", "secret_tasks:app")
    kept = b"".join(file.read_bytes() for file in Path().glob("jobs.db*"))
    check("a secret is in no file", b"planted-token" in kept, False)
    with running("work", "secret_tasks:app"):
        benbi("jobs", "watch", job_id, "--timeout", str(SECONDS))
    job = json.loads(benbi("jobs", "show", job_id, "--json"))
    check("its task reads it", (job["state"], job["result"]), ("completed", 13))


def on_a_server() -> None:
    import psycopg

    schema = f"smoke_{os.getpid()}"
    os.environ["BENBI_URL"] = f"{os.environ['SMOKE_POSTGRES']}?schema={schema}"
    try:
        command_line()
    finally:
        with psycopg.connect(os.environ["SMOKE_POSTGRES"], autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def without_the_driver() -> None:
    done = subprocess.run(
        [BENBI, "jobs", "list", "--url", "postgresql://127.0.0.1/none"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    check("a server without its extra is refused", "benbi[postgres]" in done.stderr, True)


def over_mcp() -> None:
    import asyncio

    from mcp import Client, StdioServerParameters

    async def talk() -> tuple[bool, Any]:
        server = StdioServerParameters(
            command=BENBI, args=["mcp", "tasks:app"], env=dict(os.environ)
        )
        async with Client(server) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            answer = await client.call_tool("add", {"a": 2, "b": 3})
            return "add" in tools, answer.structured_content

    listed, answer = asyncio.run(asyncio.wait_for(talk(), SECONDS))
    check("MCP lists the task", listed, True)
    check("an MCP call", (answer["state"], answer["result"]), ("completed", 5))


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in ("core", *DOORS, *SEALED, *ON_SERVER):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="benbi-smoke-") as place:
        os.chdir(place)
        Path("tasks.py").write_text(TASKS, "utf-8")
        os.environ["BENBI_URL"] = str(Path(place, "jobs.db"))
        print(f"smoke, {arguments[0]}: {benbi('--version')}", flush=True)
        command_line()
        if arguments[0] in DOORS:
            over_http()
            over_mcp()
        else:
            without_the_extra()
        if arguments[0] in SEALED:
            sealed()
        if arguments[0] in ON_SERVER:
            on_a_server()
        else:
            without_the_driver()
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
