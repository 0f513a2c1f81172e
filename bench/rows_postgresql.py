"""The rows that are measured on PostgreSQL, each beside pgqueuer or what the server does alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from bench import on_postgresql, ours, server
from bench.row import Row


def rows(quick: bool) -> list[Row]:
    part = 0.1 if quick else 1.0

    def n(count: int) -> int:
        return max(100, int(count * part))

    return [
        Row(
            "PostgreSQL: drain, 1 worker, 100 slots",
            "jobs/s",
            {
                "benbi": _on(lambda url: ours.drained(url, n(30_000))),
                "pgqueuer": _on(lambda url: on_postgresql.drained(url, n(30_000))),
            },
            lambda m: [("× pgqueuer", m["benbi"] / m["pgqueuer"], 2.0, "at least")],
        ),
        Row(
            "PostgreSQL: drain, 2 workers",
            "jobs/s",
            {
                "benbi": _on(lambda url: ours.drained_by(url, n(30_000), 2)),
                "pgqueuer": _on(lambda url: on_postgresql.drained(url, n(30_000), 2)),
            },
            lambda m: [("× pgqueuer", m["benbi"] / m["pgqueuer"], 2.0, "at least")],
        ),
        Row(
            "PostgreSQL: enqueue one at a time",
            "jobs/s",
            {
                "raw durable INSERT": _on(lambda url: server.inserts(url, n(3_000))),
                "benbi": _on(lambda url: ours.singles(url, n(3_000))),
                "pgqueuer": _on(lambda url: on_postgresql.singles(url, n(3_000))),
            },
            lambda m: [
                ("× pgqueuer", m["benbi"] / m["pgqueuer"], 1.1, "at least"),
                ("× raw", m["benbi"] / m["raw durable INSERT"], 0.7, "at least"),
            ],
        ),
        Row(
            "PostgreSQL: 100 concurrent enqueues",
            "jobs/s",
            {
                "one at a time": _on(lambda url: ours.concurrent(url, n(3_000), callers=1)),
                "100 callers": _on(lambda url: ours.concurrent(url, n(20_000))),
            },
            lambda m: [("× one at a time", m["100 callers"] / m["one at a time"], 8.0, "at least")],
        ),
        Row(
            "PostgreSQL: enqueue_many",
            "jobs/s",
            {
                "benbi": _on(lambda url: ours.in_bulk(url, n(100_000))),
                "pgqueuer": _on(lambda url: on_postgresql.in_bulk(url, n(100_000))),
            },
            lambda m: [("× pgqueuer", m["benbi"] / m["pgqueuer"], 1.5, "at least")],
        ),
        Row(
            "PostgreSQL: pickup by an idle worker",
            "ms",
            {
                "p50": _on(lambda url: statistics.median(ours.pickups(url, n(200)))),
                "p99": _on(lambda url: statistics.quantiles(ours.pickups(url, n(200)), n=100)[98]),
            },
            lambda m: [
                ("ms, p50", m["p50"], 2.0, "at most"),
                ("ms, p99", m["p99"], 10.0, "at most"),
            ],
        ),
        Row(
            "PostgreSQL: claim beside 1,000,000 finished and 100,000 scheduled",
            "ms",
            {
                "empty": _on(ours.claim_time),
                "full": _on(lambda url: ours.claim_time(url, int(1e6 * part), int(1e5 * part))),
            },
            lambda m: [("× empty", m["full"] / m["empty"], 1.3, "at most")],
        ),
        Row(
            "PostgreSQL: claim after 100,000 jobs",
            "ms",
            {
                "clean": _on(lambda url: ours.claim_time_after(url, n(100_000), held=False)),
                "snapshot held": _on(lambda url: ours.claim_time_after(url, n(100_000), held=True)),
            },
            lambda m: [("× clean", m["snapshot held"] / m["clean"], 2.0, "at most")],
            times=1,
        ),
        Row(
            "PostgreSQL: idle worker",
            "% of a core",
            {"benbi": _on(lambda url: ours.idle_share(url, 20 * part))},
            lambda m: [("% of a core", m["benbi"], 0.5, "at most")],
            times=1,
        ),
        Row(
            "PostgreSQL: resident memory after 100,000 jobs",
            "× after 1,000",
            {"benbi": _on(lambda url: ours.growth(url, 1000, n(100_000)))},
            lambda m: [("× after 1,000", m["benbi"], 1.1, "at most")],
            times=1,
        ),
    ]


def _on(figure: Callable[[str], float]) -> Callable[[Path], float]:
    return lambda _: server.on_fresh(figure)
