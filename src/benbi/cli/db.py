"""``benbi db``: checks and migrates the database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from cyclopts import App

from benbi.cli import documents, exits
from benbi.cli.options import DEFAULT, Common, existing

if TYPE_CHECKING:
    from collections.abc import Mapping

app = App(name="db", help="Check and migrate the database.")

_STYLES: Final = {"ok": "green", "warning": "yellow", "error": "bold red"}


@app.command
def check(*, common: Common = DEFAULT) -> int:
    """Check the database: integrity, schema, SQLite version, rights, free space."""

    async def read() -> list[Mapping[str, str]]:
        benbi = existing(common)
        try:
            return await benbi.check()
        finally:
            await benbi.close()

    findings = asyncio.run(read())
    healthy = all(finding["level"] != "error" for finding in findings)
    if common.as_json:
        documents.write({"healthy": healthy, "findings": findings})
    else:
        from benbi.cli.screen import show, styled

        for finding in findings:
            line = styled(f"{finding['level']:<8}", _STYLES.get(finding["level"], ""))
            show(line.append_text(styled(finding["text"])))
    return exits.DONE if healthy else exits.REFUSED


@app.command
def migrate(*, common: Common = DEFAULT) -> None:
    """Create the tables, or bring them up to this version of benbi; safe to repeat."""

    async def act() -> list[str]:
        from benbi import Benbi

        async with Benbi(common.url) as benbi:
            return await benbi.migrate()

    applied = asyncio.run(act())
    if common.as_json:
        documents.write({"applied": applied})
        return
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do")
