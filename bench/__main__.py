"""``make bench``: each row beside its anchor in the same run, medians of three repetitions.

    python -m bench [--quick] [ROW …]

Prints a table and, for all rows in full, writes ``bench/results.json`` and ``docs/bench.md``.
Exit status 1 where a row misses its bar.
``BENCH_DIR`` names the folder for the files (a real disk: what is durable costs what it costs).
``BENCH_POSTGRES`` names a database of a PostgreSQL server: the rows on a server are measured too,
each figure in a database that is made for it there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.row import Row
from bench.rows import rows

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[1] / "docs" / "bench.md"


def measured(row: int, figure: str, quick: bool) -> float:
    """One figure, in a process and a folder of its own."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        command = [sys.executable, "-m", "bench.rows", str(row), figure]
        done = subprocess.run(
            [*command, "quick" if quick else "whole", folder],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def run(number: int, row: Row, quick: bool) -> dict[str, Any]:
    found: dict[str, list[float]] = {figure: [] for figure in row.figures}
    for _ in range(row.times):
        for figure in row.figures:
            found[figure].append(measured(number, figure, quick))
    medians = {figure: statistics.median(values) for figure, values in found.items()}
    print(f"\n{row.name}  ({row.unit})" if row.unit else f"\n{row.name}")
    for figure, values in found.items():
        print(f"  {figure:32} {medians[figure]:>12,.2f}   {min(values):,.2f} … {max(values):,.2f}")
    verdicts: list[dict[str, Any]] = []
    for label, value, bar, sense in row.judge(medians):
        held = value >= bar if sense == "at least" else value <= bar
        verdicts.append({"what": label, "value": value, "bar": bar, "sense": sense, "held": held})
        print(f"  {'ok    ' if held else 'MISSED'} {value:.2f} {label} ({sense} {bar:g})")
    sys.stdout.flush()
    return {"row": row.name, "unit": row.unit, "figures": found, "verdicts": verdicts}


def page(told: dict[str, Any]) -> str:
    """The results as a page of the docs."""
    lines = [
        "# Bench",
        "",
        f"Written by `make bench` on {told['machine']}, SQLite {told['sqlite']}: medians of the",
        "repetitions, each figure in a process and a folder of its own, beside its anchors in the",
        "same run. Commits are durable (`synchronous=FULL`); history, arguments and results kept.",
        "",
        "| row | figures | bar |",
        "|---|---|---|",
    ]
    for result in told["rows"]:
        figures = ", ".join(
            f"{name} {_number(statistics.median(values))}"
            for name, values in result["figures"].items()
        )
        bars = ", ".join(
            f"{verdict['value']:.2f} {verdict['what']} ({verdict['sense']} {verdict['bar']:g}"
            f"{'' if verdict['held'] else ': missed'})"
            for verdict in result["verdicts"]
        )
        unit = f" ({result['unit']})" if result["unit"] else ""
        lines.append(f"| {result['row']}{unit} | {figures} | {bars} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see it run")
    parser.add_argument("rows", nargs="*", help="words of the rows to measure; none: all")
    wanted = parser.parse_args()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"{machine}, SQLite {sqlite3.sqlite_version}")
    results = [
        run(number, row, wanted.quick)
        for number, row in enumerate(rows(wanted.quick))
        if not wanted.rows or any(word in row.name for word in wanted.rows)
    ]
    if not wanted.rows and not wanted.quick:
        told = {"machine": machine, "sqlite": sqlite3.sqlite_version, "rows": results}
        RESULTS.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page(told), encoding="utf-8")
    return int(any(not verdict["held"] for result in results for verdict in result["verdicts"]))


if __name__ == "__main__":
    sys.exit(main())
