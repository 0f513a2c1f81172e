"""Where the demo's jobs are: a file, or a schema of its own on the server of BENBI_URL."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """``url``: of the database. ``shown``: the same for a shell, without a password.
    ``remove``: what takes it away. ``server``: several machines could work there."""

    url: str
    shown: str
    remove: str
    server: bool


def place_in(folder: Path) -> Place:
    """On the server that BENBI_URL names, else in the folder."""
    named = os.environ.get("BENBI_URL", "")
    if not named.startswith(("postgresql://", "postgres://")):
        url = f"sqlite:///{folder / 'jobs.db'}"
        return Place(url, url, f"rm -r {folder}", server=False)
    schema = f"giftgenius_{secrets.token_hex(3)}"
    ours = f"{'&' if '?' in named else '?'}schema={schema}"
    remove = f'psql "${{BENBI_URL%?schema=*}}" -c "DROP SCHEMA {schema} CASCADE"; rm -r {folder}'
    return Place(named + ours, f'"$BENBI_URL{ours}"', remove, server=True)
