"""The shadow table: triggers that witness every change of state, checked against the events."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benbi.job import FINAL, MOVES, STATE_EVENTS

SCRIPT = Path(__file__).with_name("shadow.sql").read_text(encoding="utf-8")

WITNESSED = (
    "SELECT job_n, seq, CASE WHEN old IS NULL THEN 'created' WHEN new = 'running' "
    "THEN 'started' ELSE new END FROM shadow ORDER BY job_n, seq"
)

# A file, or the one connection of a database in memory.
Where = str | Path | sqlite3.Connection


@contextmanager
def _connection(where: Where) -> Iterator[sqlite3.Connection]:
    if isinstance(where, sqlite3.Connection):
        yield where
        return
    with closing(sqlite3.connect(where, timeout=30)) as connection, connection:
        yield connection


def watch(where: Where) -> None:
    """Puts the triggers into a migrated database."""
    with _connection(where) as connection:
        connection.executescript(SCRIPT)
        connection.execute("DELETE FROM shadow_moves")
        connection.executemany("INSERT INTO shadow_moves VALUES (?, ?)", allowed())


def allowed() -> list[tuple[str, str]]:
    """Each step from state to state that MOVES has."""
    return sorted(
        {
            (str(source), str(target))
            for move in MOVES.values()
            for source in move.sources
            if source is not None
            for target in move.targets
        }
    )


def disagreements(where: Where) -> list[str]:
    """Where events and witnessed changes differ, where seq has a gap, where a final state was
    reached twice in one generation. Empty: all is well. Of a job that was removed nothing may
    be left."""
    with _connection(where) as connection:
        changes = connection.execute(WITNESSED).fetchall()
        events = connection.execute(
            "SELECT job_n, seq, type FROM benbi_events ORDER BY job_n, seq"
        ).fetchall()
        last = dict(connection.execute("SELECT n, last_seq FROM benbi_jobs").fetchall())
    return judge(changes, events, last)


def judge(
    changes: list[tuple[int, int, str]],
    events: list[tuple[int, int, str]],
    last: dict[int, int],
) -> list[str]:
    """``changes`` and ``events``: (job, seq, type) as witnessed and as told; ``last``: last_seq."""
    changes = [change for change in changes if change[0] in last]
    told = [event for event in events if event[2] in STATE_EVENTS]
    found = [f"witnessed but not told: {change}" for change in sorted(set(changes) - set(told))]
    found += [f"told but not witnessed: {event}" for event in sorted(set(told) - set(changes))]
    if len(changes) != len(set(changes)):
        found.append("one change was witnessed twice")
    found += _gaps(events, last)
    found += _finals(told)
    return found


def _gaps(events: Iterable[tuple[int, int, str]], last: dict[int, int]) -> list[str]:
    seqs: dict[int, list[int]] = {n: [] for n in last}
    for n, seq, _ in events:
        seqs.setdefault(n, []).append(seq)
    return [
        f"job {n}: seq {found[:3]}…{found[-3:]}, last_seq {last.get(n)}"
        for n, found in seqs.items()
        if found != list(range(1, last.get(n, 0) + 1))
    ]


def _finals(told: Iterable[tuple[int, int, str]]) -> list[str]:
    """A final state may be left only by a retry by hand, which is told as pending."""
    found: list[str] = []
    before: dict[int, str] = {}
    for n, seq, type in told:
        was = before.get(n)
        if was in FINAL and type not in ("pending", "waiting"):
            found.append(f"job {n}: {type} at {seq} after {was}")
        before[n] = type
    return found
