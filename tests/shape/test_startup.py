"""``import benbi`` is quick, and brings in no framework of a door."""

from __future__ import annotations

import json
import subprocess
import sys

SECONDS = 0.25
# What all that we stand on takes on an idle machine. A machine that is slower or busier now
# gets more for the whole in proportion.
YARDSTICK = 0.1
TRIES = 8
LATER = {"mcp", "fastapi", "starlette", "uvicorn", "cyclopts", "rich", "fastmcp"}
# Imported by who has such a connection.
LATER |= {"psycopg", "asyncpg", "sqlalchemy", "django"}

TIMED_IMPORT = """
import time
started = time.process_time()
import asyncio, sqlite3
from pydantic import BaseModel, TypeAdapter
yardstick = time.process_time() - started
import benbi
seconds = time.process_time() - started
import json, sys
loaded = sorted(name.partition(".")[0] for name in sys.modules)
print(json.dumps([seconds, yardstick, loaded]))
"""


def timed_import() -> tuple[float, set[str]]:
    """Processor seconds of ``import benbi`` in a fresh process, and what was loaded then.

    The seconds are those of an idle machine.
    """
    done = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT], capture_output=True, text=True, check=True
    )
    seconds, yardstick, loaded = json.loads(done.stdout)
    return seconds / max(1.0, yardstick / YARDSTICK), set(loaded)


def test_import_is_quick_and_lean() -> None:
    tries: list[float] = []
    # The best of several: a busy machine makes any of them slow, and none too quick.
    while len(tries) < TRIES and min(tries, default=1.0) >= SECONDS:
        seconds, loaded = timed_import()
        assert "benbi" in loaded
        assert not loaded & LATER
        tries.append(seconds)
    assert min(tries) < SECONDS, tries
