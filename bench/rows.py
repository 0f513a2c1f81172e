"""The rows of the bench: what is measured, beside what, and the bar it is held to.

``python -m bench.rows ROW FIGURE QUICK FOLDER`` measures one figure and prints it.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from bench import ours, peers, raw
from bench.row import Row


def rows(quick: bool) -> list[Row]:
    part = 0.1 if quick else 1.0

    def n(count: int) -> int:
        return max(100, int(count * part))

    found = [
        drain(n),
        Row(
            "enqueue one at a time",
            "jobs/s",
            {
                "raw durable INSERT": lambda at: raw.inserts(at, n(3_000)),
                "benbi": lambda at: ours.singles(_file(at), n(3_000)),
                "huey": lambda at: peers.singles(at, n(3_000)),
            },
            lambda m: [("× raw", m["benbi"] / m["raw durable INSERT"], 0.6, "at least")],
        ),
        Row(
            "100 concurrent enqueues",
            "jobs/s",
            {
                "one at a time": lambda at: ours.concurrent(_file(at), n(3_000), callers=1),
                "100 callers": lambda at: ours.concurrent(_file(at), n(20_000)),
            },
            lambda m: [("× one at a time", m["100 callers"] / m["one at a time"], 8.0, "at least")],
        ),
        Row(
            "enqueue_many",
            "jobs/s",
            {"benbi": lambda at: ours.in_bulk(_file(at), n(100_000))},
            # Its bar is a peer on PostgreSQL, and stands there.
            lambda _: [],
        ),
        Row(
            "pickup across processes",
            "ms",
            {
                "benbi p50": lambda at: statistics.median(
                    ours.pickups(_file(at), n(100), inotify=True)
                ),
                "benbi p50 without inotify": lambda at: statistics.median(
                    ours.pickups(_file(at), n(100), inotify=False)
                ),
                "huey p50": lambda at: statistics.median(peers.pickups(at, n(60) // 2)),
            },
            lambda m: [
                ("ms with inotify", m["benbi p50"], 3.0, "at most"),
                ("ms without", m["benbi p50 without inotify"], 30.0, "at most"),
            ],
        ),
        Row(
            "eight writer processes",
            "",
            {
                "smallest share": lambda at: ours.writers(at, 8, 8 * part)[0],
                "worst wait, ms": lambda at: ours.writers(at, 8, 8 * part)[1],
            },
            lambda m: [
                ("smallest share of the largest", m["smallest share"], 0.8, "at least"),
                ("ms, worst wait", m["worst wait, ms"], 50.0, "at most"),
            ],
        ),
        Row(
            "claim beside 1,000,000 finished and 100,000 scheduled",
            "ms",
            {
                "empty": lambda at: ours.claim_time(_file(at)),
                "full": lambda at: ours.claim_time(_file(at), int(1e6 * part), int(1e5 * part)),
            },
            lambda m: [("× empty", m["full"] / m["empty"], 1.3, "at most")],
            times=1 if quick else 3,
        ),
        Row(
            "idle worker",
            "% of a core",
            {"benbi": lambda at: ours.idle_share(_file(at), 20 * part)},
            lambda m: [("% of a core", m["benbi"], 0.5, "at most")],
            times=1,
        ),
        Row(
            "resident memory after 100,000 jobs",
            "× after 1,000",
            {"benbi": lambda at: ours.growth(_file(at), 1000, n(100_000))},
            lambda m: [("× after 1,000", m["benbi"], 1.1, "at most")],
            times=1,
        ),
    ]
    if os.environ.get("BENCH_POSTGRES"):
        from bench import rows_postgresql

        found += rows_postgresql.rows(quick)
    return found


def _file(folder: Path) -> str:
    return str(folder / "jobs.db")


def drain(n: Callable[[int], int]) -> Row:
    figures: dict[str, Callable[[Path], float]] = {
        "raw claim + finish by 32": lambda at: raw.claim_and_finish(at, n(30_000)),
        "benbi": lambda at: ours.drained(_file(at), n(30_000)),
        "huey": lambda at: peers.drained(at, n(4_000)),
    }
    if os.environ.get("BENCH_POSTGRES"):
        from bench import on_postgresql, server

        figures["pgqueuer on PostgreSQL"] = lambda _: server.on_fresh(
            lambda url: on_postgresql.drained(url, n(30_000))
        )

    def judge(m: dict[str, float]) -> list[tuple[str, float, float, str]]:
        bars = [("× huey", m["benbi"] / m["huey"], 6.0, "at least")]
        anchor = m.get("pgqueuer on PostgreSQL")
        if anchor is not None:
            bars.append(("× pgqueuer on PostgreSQL", m["benbi"] / anchor, 2.5, "at least"))
        return bars

    return Row("drain, 1 worker, 100 slots", "jobs/s", figures, judge)


if __name__ == "__main__":
    number, figure, quick, folder = sys.argv[1:]
    print(rows(quick == "quick")[int(number)].figures[figure](Path(folder)))
