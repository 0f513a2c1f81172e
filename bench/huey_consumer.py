"""A huey consumer process with one task that tells when it started."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huey import SqliteHuey


def make(path: Path, huey: SqliteHuey | None = None) -> Callable[[float], Any]:
    huey = huey or SqliteHuey(filename=str(path), fsync=True)

    @huey.task(name="started")
    def started(_: float) -> float:
        return time.time()

    return started


if __name__ == "__main__":
    path = Path(os.environ["BENCH_DB"])
    consumed = SqliteHuey(filename=str(path), fsync=True)
    # By its own name: huey knows a task by its module, and here that is __main__.
    importlib.import_module("bench.huey_consumer").make(path, consumed)
    consumed.create_consumer(workers=1, periodic=False).run()
