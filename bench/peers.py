"""huey on SQLite, with its defaults and a durable file (its ``fsync=True``)."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from huey import SqliteHuey


def huey_on(path: Path) -> SqliteHuey:
    return SqliteHuey(filename=str(path), fsync=True)


def drained(folder: Path, count: int, workers: int = 2) -> float:
    """Jobs per second through huey's consumer: no-op tasks, results kept."""
    huey = huey_on(folder / "huey.db")
    done = threading.Event()
    left = [count]
    lock = threading.Lock()

    @huey.task()
    def nothing(number: int) -> int:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                done.set()
        return number

    for number in range(count):
        nothing(number)
    consumer = huey.create_consumer(workers=workers, periodic=False)
    began = time.perf_counter()
    consumer.start()
    done.wait()
    rate = count / (time.perf_counter() - began)
    consumer.stop(graceful=True)
    return rate


def singles(folder: Path, count: int) -> float:
    huey = huey_on(folder / "huey-single.db")

    @huey.task()
    def nothing(number: int) -> int:
        return number

    began = time.perf_counter()
    for number in range(count):
        nothing(number)
    return count / (time.perf_counter() - began)


def pickups(folder: Path, count: int) -> list[float]:
    """Milliseconds from the enqueue to the start in an idle consumer of another process."""
    path = folder / "huey-pickup.db"
    environment = os.environ | {"BENCH_DB": str(path)}
    consumer = subprocess.Popen(
        [sys.executable, "-m", "bench.huey_consumer"], env=environment, stderr=subprocess.DEVNULL
    )
    from bench.huey_consumer import make

    started = make(path)
    waits: list[float] = []
    try:
        started(time.time())(blocking=True, timeout=20)
        for number in range(count):
            time.sleep(0.05 + 0.013 * (number % 7))
            at = time.time()
            waits.append((started(at)(blocking=True, timeout=20) - at) * 1000)
    finally:
        consumer.terminate()
        consumer.wait()
    return waits
