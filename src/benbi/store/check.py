"""What is found in a database, without opening it for jobs: nothing is migrated or changed."""

from __future__ import annotations

from collections.abc import Mapping

from benbi.errors import StoreError
from benbi.store.database import Database
from benbi.store.migrate import CODE_LEVEL, pending

Finding = Mapping[str, str]


def check(database: Database) -> list[Finding]:
    """The findings: ``level`` (ok, warning, error) and ``text``.

    Raises StoreError where the database can not even be read.
    """
    findings = list(database.check())
    session = database.connect()
    try:
        with session.read() as view:
            lacking = [f"{version:04d}_{name}" for version, name, _ in pending(view, database)]
        if lacking:
            text = f"schema: {', '.join(lacking)} not applied yet; run benbi db migrate"
            findings.append({"level": "warning", "text": text})
        else:
            findings.append({"level": "ok", "text": f"schema: level {CODE_LEVEL}, up to date"})
        with session.write():
            findings.append({"level": "ok", "text": "writable"})
    except StoreError as error:
        findings.append({"level": "error", "text": str(error)})
    finally:
        session.close()
    return findings
