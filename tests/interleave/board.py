"""What stands in the database: kept, put back, compared, and judged by what must always hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from benbi.job import Claim
from benbi.triggers import WAIT, Counts, verdict
from tests.support.postgresql import Witnessed

# What two orders are compared by, table by table, without what differs from one run to the next:
# the numbers of new rows, and the order of positions. Jobs are named by their ids.
SHOWN = {
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

# What must never be, and the jobs of which it is so.
NEVER = {
    "it runs under a worker that is gone": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'running'
        AND NOT EXISTS (SELECT 1 FROM benbi.workers AS w WHERE w.n = j.worker_n)""",
    "an attempt was started twice": """
        SELECT job_n FROM benbi.events WHERE type = 'started'
        GROUP BY job_n, attempt HAVING count(*) > 1""",
    "it counts what its edges do not": """
        SELECT n FROM benbi.jobs AS j JOIN (
            SELECT child_n, count(*) FILTER (WHERE outcome = 'ok') AS ok,
                   count(*) FILTER (WHERE outcome = 'failed') AS failed,
                   count(*) FILTER (WHERE outcome = 'skipped') AS skipped, count(*) AS total
            FROM benbi.edges GROUP BY child_n) AS e ON e.child_n = j.n
        WHERE (up_ok, up_failed, up_skipped) <> (ok, failed, skipped) AND up_total = total
           OR up_total < total""",
    "it waits, and the edge of a live parent is counted": """
        SELECT c.n FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
        JOIN benbi.jobs AS c ON c.n = e.child_n
        WHERE e.outcome IS NOT NULL AND p.finished_at IS NULL AND c.state = 'waiting'""",
    "it waits for jobs that have all ended": """
        SELECT n FROM benbi.jobs AS c WHERE state = 'waiting' AND waits_for = 'upstream'
        AND NOT EXISTS (SELECT 1 FROM benbi.edges AS e JOIN benbi.jobs AS p ON p.n = e.parent_n
                        WHERE e.child_n = c.n AND (p.finished_at IS NULL
                              OR e.outcome IS NULL AND EXISTS (
                                  SELECT 1 FROM benbi.unsettled AS u WHERE u.n = p.n)))""",
    "it waits for an answer to no question": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'input_required'
        AND NOT EXISTS (SELECT 1 FROM benbi.questions AS q WHERE q.job_n = j.n
                        AND q.generation = j.generation AND q.answered_at IS NULL)""",
    "something was told of it after its end": """
        SELECT j.n FROM benbi.jobs AS j
        JOIN benbi.events AS e ON e.job_n = j.n AND e.seq = j.last_seq
        WHERE j.finished_at IS NOT NULL AND e.type <> j.state""",
    "it has a result and lives": """
        SELECT r.n FROM benbi.results AS r JOIN benbi.jobs AS j ON j.n = r.n
        WHERE j.finished_at IS NULL""",
    "it failed without an error": """
        SELECT n FROM benbi.jobs AS j WHERE state = 'failed' AND NOT EXISTS (
            SELECT 1 FROM benbi.results AS r WHERE r.n = j.n AND r.error IS NOT NULL)""",
    "its run is gone": """
        SELECT n FROM benbi.jobs AS j WHERE run_n IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM benbi.runs AS r WHERE r.n = j.run_n)""",
    "it is gone, and something of it is left": """
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
TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'benbi'"
    " AND tablename NOT IN ('migrations', 'artifact_prefix', 'shadow_moves') ORDER BY 1"
)
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _together(statements: Mapping[str, str]) -> str:
    """One statement of (name, row as text) for all: it is planned once."""
    return " UNION ALL ".join(
        f"SELECT '{name}', shown::text FROM ({sql}) AS shown" for name, sql in statements.items()
    )


SHOW, LOOK = _together(SHOWN), _together(NEVER)
# Rows as text, each with its table.
Rows = frozenset[tuple[str, str]]


class Picture(NamedTuple):
    """What both moves came to, and what stands there afterwards."""

    outcomes: tuple[Any, Any]
    rows: Rows

    def differs(self, other: Picture) -> list[str]:
        """Where this one is not as the other."""
        found = [
            f"{mine}, not {its}"
            for mine, its in zip(self.outcomes, other.outcomes, strict=True)
            if mine != its
        ]
        found += [f"{table} has {row}" for table, row in sorted(self.rows - other.rows)]
        return found + [f"{table} lacks {row}" for table, row in sorted(other.rows - self.rows)]


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

        def put_back() -> None:
            look(script)

        return put_back

    def picture(self, outcomes: tuple[Any, Any]) -> Picture:
        first, second = map(_plain, outcomes)
        return Picture((first, second), self.rows())

    def rows(self) -> Rows:
        """What stands in the tables."""
        return frozenset(self.connection.execute(SHOW, prepare=True).fetchall())

    def problems(self) -> list[str]:
        """What is so and must never be."""
        found = self.witness.disagreements()
        rows = self.connection.execute(LOOK, prepare=True).fetchall()
        found += [f"job {n.strip('()')}: {problem}" for problem, n in rows]
        for n, rule, *counts in self.connection.execute(COUNTS, prepare=True).fetchall():
            if (says := verdict(rule, Counts(*counts))) != WAIT:
                found.append(f"job {n}: it waits, and its counts say {says}")
        return found

    def close(self) -> None:
        self.connection.close()


def _plain(value: Any) -> Any:
    """An outcome without numbers that another run would not have."""
    match value:
        case Claim():
            return f"a claim on {value.job_id}, attempt {value.attempt}"
        case bytes():
            return str(UUID(bytes=value))
        case Exception():
            return f"{type(value).__name__}: {value}"
        case dict():
            return tuple(sorted((key, _plain(one)) for key, one in value.items()))
        case list() | tuple():
            return tuple(_plain(one) for one in value)
        case _:
            return value


def named(text: str, names: Mapping[bytes, str]) -> str:
    """A text with the names of jobs for their ids."""
    return IDS.sub(lambda found: names.get(UUID(found[0]).bytes, found[0]), text)
