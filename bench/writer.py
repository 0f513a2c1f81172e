"""A writer process of the bench: enqueues one job after the other; prints count and worst wait."""

from __future__ import annotations

import os
import sys
import time

from bench.ours import app_on


def main(seconds: float) -> None:
    app = app_on(os.environ["BENCH_DB"])
    nothing = app.tasks["nothing"]
    nothing.enqueue_sync(0)
    print("ready", flush=True)
    sys.stdin.readline()
    count, worst, end = 0, 0.0, time.time() + seconds
    while time.time() < end:
        before = time.perf_counter()
        nothing.enqueue_sync(count)
        worst = max(worst, time.perf_counter() - before)
        count += 1
    print(count, worst * 1000)
    app.close_sync()


if __name__ == "__main__":
    main(float(sys.argv[1]))
