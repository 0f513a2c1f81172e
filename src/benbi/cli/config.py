"""``benbi config``: each setting, its value and where that came from. Connects to nothing."""

from __future__ import annotations

import os
from typing import Annotated, Any

from cyclopts import Parameter

from benbi.cli import documents
from benbi.cli.options import DEFAULT, Common, loaded


def config(
    target: Annotated[
        str | None, Parameter(help="module:app whose settings; default: those without any code.")
    ] = None,
    /,
    *,
    common: Common = DEFAULT,
) -> None:
    """Show the settings, and where each came from: an option, the environment, code, or nowhere."""
    rows = _settings(target, common)
    if common.as_json:
        documents.write({"settings": rows})
        return
    from benbi.cli import fleet, screen

    screen.show(fleet.settings_view(rows, screen.console().width))


def _settings(target: str | None, common: Common) -> list[dict[str, Any]]:
    from benbi import Benbi

    app = Benbi(common.url) if target is None else loaded(target, common).app
    rows = [setting._asdict() for setting in app.settings()]
    if common.url is not None:
        rows[0]["source"] = "--url"
    # Never the tokens themselves.
    tokens = os.environ.get("BENBI_TOKEN", "").split()
    many = f"{len(tokens)} set" if tokens else None
    rows.append({"name": "tokens", "value": many, "source": "BENBI_TOKEN" if tokens else "default"})
    return rows
