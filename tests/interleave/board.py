"""What stands in the database: kept, put back, compared, and judged by what must always hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from benbi.job import Claim
from benbi.triggers import WAIT, Counts, verdict
from tests.support.postgresql import Witnessed

# The tables that a picture shows, without what differs from one run to the next: numbers, the order
# of positions. Jobs are named by their ids, which a stage gives out.
PICTURE = {
    "jobs": """
        SELECT j.id, state, reason, waits_for, attempt, failures, losses, max_attempts, max_losses,
               generation, last_seq, last_write, cancel_requested_at IS NOT NULL,
               finished_at IS NOT NULL, run_at, up_total, up_ok, up_failed, up_skipped,
               trigger_rule, key, w.id, r.id, scheduled_for
        FROM benbi.jobs AS j LEFT JOIN benbi.workers AS w ON w.n = j.worker_n
        LEFT JOIN benbi.runs AS r ON r.n = j.run_n""",
    "events": """
        SELECT j.id, e.seq, e.type, e.reason, e.attempt FROM benbi.events AS e
        JOIN benbi.jobs AS j ON j.n = e.job_n""",
    "edges": """
        SELECT p.id, c.id, e.outcome FROM benbi.edges AS e
        JOIN benbi.jobs AS p ON p.n = e.parent_n JOIN benbi.jobs AS c ON c.n = e.child_n""",
    "results": """
        SELECT j.id, r.body::text, r.error ->> 'type' FROM benbi.results AS r
        JOIN benbi.jobs AS j ON j.n = r.n""",
    "questions": """
        SELECT j.id, q.generation, q.key, q.answer::text, q.answered_by
        FROM benbi.questions AS q JOIN benbi.jobs AS j ON j.n = q.job_n""",
    "steps": "SELECT job_n, generation, name, use, tries, attempt FROM benbi.steps",
    "progress": "SELECT job_n, done, total FROM benbi.progress",
    "unsettled": "SELECT n FROM benbi.unsettled",
    "runs": "SELECT id, name FROM benbi.runs",
    "workers": "SELECT id, beat_no FROM benbi.workers",
    "queues": "SELECT name, paused_by FROM benbi.queues",
    "schedules": """
        SELECT name, spec, job, version, paused_at, seen_at, last_tick, fired_at, last_job
        FROM benbi.schedules""",
    "catalogue": "SELECT task, doc FROM benbi.catalogue",
}

# Each row that it gives is something that must never be. {0} to {n}: see PROBLEMS.
PROBLEMS = {
    "runs under a worker that is gone": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'running'
        AND NOT EXISTS (SELECT 1 FROM benbi.workers AS w WHERE w.n = j.worker_n)""",
    "an attempt was started twice": """
        SELECT job_n FROM benbi.events WHERE type = 'started'
        GROUP BY job_n, attempt HAVING count(*) > 1""",
    "counts other than its edges say": """
        SELECT n FROM benbi.jobs AS j JOIN (
            SELECT child_n, count(*) FILTER (WHERE outcome = 'ok') AS ok,
                   count(*) FILTER (WHERE outcome = 'failed') AS failed,
                   count(*) FILTER (WHERE outcome = 'skipped') AS skipped, count(*) AS total
            FROM benbi.edges GROUP BY child_n) AS e ON e.child_n = j.n
        WHERE (up_ok, up_failed, up_skipped) <> (ok, failed, skipped) AND up_total = total
           OR up_total < total""",
    "an edge of a live parent is counted for a child that waits": """
        SELECT c.n FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
        JOIN benbi.jobs AS c ON c.n = e.child_n
        WHERE e.outcome IS NOT NULL AND p.finished_at IS NULL AND c.state = 'waiting'""",
    "waits for jobs that have all ended": """
        SELECT n FROM benbi.jobs AS c WHERE state = 'waiting' AND waits_for = 'upstream'
        AND NOT EXISTS (SELECT 1 FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
                        WHERE e.child_n = c.n AND (p.finished_at IS NULL
                              OR e.outcome IS NULL AND EXISTS (
                                  SELECT 1 FROM benbi.unsettled AS u WHERE u.n = p.n)))""",
    "waits for an answer to no question": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'input_required'
        AND NOT EXISTS (SELECT 1 FROM benbi.questions AS q WHERE q.job_n = j.n
                        AND q.generation = j.generation AND q.answered_at IS NULL)""",
    "was moved after its end": """
        SELECT j.n FROM benbi.jobs AS j JOIN benbi.events AS e ON e.job_n = j.n AND e.seq = j.last_seq
        WHERE j.finished_at IS NOT NULL AND e.type <> j.state""",
    "has a result and is live": """
        SELECT r.n FROM benbi.results AS r JOIN benbi.jobs AS j ON j.n = r.n
        WHERE j.finished_at IS NULL""",
    "failed without an error": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'failed'
        AND NOT EXISTS (SELECT 1 FROM benbi.results AS r WHERE r.n = j.n AND r.error IS NOT NULL)""",
    "belongs to a run that is gone": """
        SELECT n FROM benbi.jobs AS j WHERE run_n IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM benbi.runs AS r WHERE r.n = j.run_n)""",
    "left of a job that is gone": """
        SELECT n FROM (
            SELECT job_n AS n FROM benbi.events UNION SELECT job_n FROM benbi.steps
            UNION SELECT job_n FROM benbi.questions UNION SELECT job_n FROM benbi.progress
            UNION SELECT n FROM benbi.arguments UNION SELECT n FROM benbi.results
            UNION SELECT child_n FROM benbi.edges UNION SELECT parent_n FROM benbi.edges
            UNION SELECT n FROM benbi.unsettled) AS kept
        WHERE NOT EXISTS (SELECT 1 FROM benbi.jobs AS j WHERE j.n = kept.n)""",
}
COUNTS = """
    SELECT n, trigger_rule, up_total, up_ok, up_failed, up_skipped FROM benbi.jobs
    WHERE state = 'waiting' AND waits_for = 'upstream'"""


class Picture(NamedTuple):
    """What both moves came to, and what stands there afterwards."""

    outcomes: tuple[Any, Any]
    rows: dict[str, frozenset[tuple[Any, ...]]]

    def differs(self, other: Picture) -> list[str]:
        """Where this one and the other are not the same."""
        found: list[str] = []
        if self.outcomes != other.outcomes:
            found.append(f"outcomes {self.outcomes}, not {other.outcomes}")
        for table, rows in self.rows.items():
            found += [f"{table} +{row}" for row in sorted(rows - other.rows[table], key=str)]
            found += [f"{table} -{row}" for row in sorted(other.rows[table] - rows, key=str)]
        return found


class Board:
    """One schema of a server, and a connection that nobody stops."""

    def __init__(self, url: str) -> None:
        self.witness = Witnessed(url, "benbi")
        self.witness.watch()
        self.connection = self.witness.connection
        # What is put back was witnessed when it came about.
        self.connection.execute("SET session_replication_role = replica")
        self.connection.execute("SET synchronous_commit = off")

    def keep(self) -> Callable[[], None]:
        """Keeps what stands there; what it gives puts that back."""
        look = self.connection.execute
        tables = [name for (name,) in look(TABLES).fetchall()]
        look("DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept")
        back = [f"DELETE FROM benbi.{table}" for table in tables]
        for table in tables:
            look(f"CREATE TABLE kept.{table} AS SELECT * FROM benbi.{table}")
            if look(f"SELECT EXISTS (SELECT 1 FROM kept.{table})").fetchone() == (True,):
                back.append(
                    f"INSERT INTO benbi.{table} OVERRIDING SYSTEM VALUE SELECT * FROM kept.{table}"
                )
        script = ";".join(back)
        return lambda: look(script) and None

    def picture(self, outcomes: tuple[Any, Any], names: Mapping[bytes, str]) -> Picture:
        """``names``: of jobs, by their ids."""
        first, second = (_named(outcome, names) for outcome in outcomes)
        return Picture((first, second), self.rows(names))

    def rows(self, names: Mapping[bytes, str]) -> dict[str, frozenset[tuple[Any, ...]]]:
        """What stands in the tables."""
        text = ";".join(PICTURE.values())
        cursor = self.connection.execute(text)
        rows: dict[str, frozenset[tuple[Any, ...]]] = {}
        for table in PICTURE:
            rows[table] = frozenset(_named(cursor.fetchall(), names))
            cursor.nextset()
        return rows

    def problems(self) -> list[str]:
        """What is so and must never be."""
        found = self.witness.disagreements()
        cursor = self.connection.execute(";".join([*PROBLEMS.values(), COUNTS]))
        for problem in PROBLEMS:
            found += [f"job {n}: {problem}" for (n, *_) in cursor.fetchall()]
            cursor.nextset()
        for n, rule, *counts in cursor.fetchall():
            if (says := verdict(rule, Counts(*counts))) != WAIT:
                found.append(f"job {n}: waits, and its counts say {says}")
        return found

    def close(self) -> None:
        self.connection.close()


TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'benbi'"
    " AND tablename NOT IN ('migrations', 'artifact_prefix', 'shadow_moves') ORDER BY 1"
)


def _named(value: Any, names: Mapping[bytes, str]) -> Any:
    """A value without numbers and ids that another run would not have."""
    match value:
        case Claim():
            return ("claim", names.get(value.id), value.attempt, value.arguments)
        case bytes():
            return names.get(value, value.hex())
        case UUID():
            return names.get(value.bytes, str(value))
        case Exception():
            return f"{type(value).__name__}: {value}"
        case dict():
            return tuple(sorted((key, _named(one, names)) for key, one in value.items()))
        case list() | tuple():
            return tuple(_named(one, names) for one in value)
        case _:
            return value
