"""Numbered migrations, up only, under the database's write lock: losers wait and look again."""

from __future__ import annotations

import re

from benbi.errors import ForeignDatabase, SchemaTooNew
from benbi.store.database import Database, Session, Transaction
from benbi.store.statements import migrations

# What this code can read and write. A migration that older code must not meet raises it.
CODE_LEVEL = 1
_NEEDS_CODE = re.compile(r"^-- needs_code: (\d+)$", re.MULTILINE)


def migrate(database: Database, session: Session) -> list[str]:
    """Applies what is missing; returns the names of what was applied.

    Raises SchemaTooNew where newer code has migrated beyond this code's level, and
    ForeignDatabase where tables of our names are not ours.
    """
    with session.read() as view:
        if not pending(view, database):
            return []
    applied: list[str] = []
    with session.write() as tx:
        tx.rows("migration_lock")
        tx.rows("create_schema")
        tx.rows("create_migrations")
        for version, name, sql in pending(tx, database):
            tx.script(sql)
            tx.rows("record_migration", version=version, name=name, needs_code=_level(sql))
            applied.append(f"{version:04d}_{name}")
    return applied


def pending(view: Transaction, database: Database) -> list[tuple[int, str, str]]:
    """The migrations that this database still lacks, in order."""
    tables = {name for (name,) in view.rows("tables")}
    if "benbi_migrations" not in tables:
        if tables:
            raise ForeignDatabase(
                f"{database.url} has tables named {', '.join(sorted(tables))} but no record of "
                "migrations: it is not a benbi database, or a damaged one. Choose another file"
            )
        return migrations(database.dialect)
    done: dict[int, int] = {version: level for version, _, level in view.rows("applied")}
    newest = max(done.values(), default=0)
    if newest > CODE_LEVEL:
        raise SchemaTooNew(
            f"{database.url} was migrated by newer code (level {newest}, this code knows "
            f"{CODE_LEVEL}). Upgrade benbi here: pip install -U benbi"
        )
    return [found for found in migrations(database.dialect) if found[0] not in done]


def _level(sql: str) -> int:
    found = _NEEDS_CODE.search(sql)
    return int(found[1]) if found else 1
