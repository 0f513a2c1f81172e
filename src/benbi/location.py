"""Where the jobs are kept: what a URL means, without touching anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from benbi.errors import ConfigurationError, MissingExtra
from benbi.store.database import Database
from benbi.store.sqlite import SqliteDatabase


def database_for(
    url: str | None, *, durability: str, schema: str, listen_url: str | None
) -> Database:
    """The database that a URL names. ``None``: BENBI_URL, else a file in the state directory.

    ``postgresql://user@host/database`` (``?schema=…``), ``sqlite:///relative.db``,
    ``sqlite:////absolute.db``, a plain path, or ``:memory:`` (``sqlite://``). ``listen_url`` None:
    BENBI_LISTEN_URL; a file needs none. Raises ConfigurationError.
    """
    named = url or os.environ.get("BENBI_URL")
    if not named:
        return SqliteDatabase(str(state_directory(make=True) / "jobs.db"), durability=durability)
    if named in (":memory:", "sqlite://", "sqlite:///:memory:"):
        return SqliteDatabase(":memory:", durability=durability)
    if named.startswith("sqlite:///"):
        return SqliteDatabase(named.removeprefix("sqlite:///"), durability=durability)
    scheme, separator, _ = named.partition("://")
    if scheme in ("postgresql", "postgres"):
        listening = listen_url or os.environ.get("BENBI_LISTEN_URL")
        return _on_postgresql(named, durability, schema, listening)
    if separator:
        raise ConfigurationError(
            f"{scheme}:// is not supported by this version of benbi: use "
            "postgresql://host/database, sqlite:////absolute.db, a path, or :memory:"
        )
    return SqliteDatabase(named, durability=durability)


def _on_postgresql(url: str, durability: str, schema: str, listen_url: str | None) -> Database:
    try:
        from benbi.store.postgresql import PostgresDatabase
    except ImportError:
        raise MissingExtra("postgres", "a postgresql:// database") from None
    # Ours among the parameters of a URL, which are libpq's: commands have no other way to say it.
    base, _, query = url.partition("?")
    named = dict(parse_qsl(query))
    if "schema" in named:
        schema = named.pop("schema")
        url = f"{base}?{urlencode(named)}" if named else base
    return PostgresDatabase(url, schema=schema, durability=durability, listen_url=listen_url)


def folder_for(artifacts: str | os.PathLike[str] | None, database: Path | None) -> Path | None:
    """The folder of artifacts. ``artifacts`` None: BENBI_ARTIFACTS, else beside the database;
    None for ``:memory:``, whose artifacts go with the process."""
    named = artifacts or os.environ.get("BENBI_ARTIFACTS")
    if named:
        return Path(named).expanduser().absolute()
    return None if database is None else database.with_name(f"{database.name}-artifacts")


def state_directory(*, make: bool = False) -> Path:
    """The user's directory for state: where jobs are kept unless a URL says otherwise."""
    if sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "benbi"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "benbi"
    else:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        folder = Path(state) / "benbi"
    if make and not folder.is_dir():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the state directory {folder} can not be made ({error.strerror}); name a place "
                "with Benbi(url) or BENBI_URL"
            ) from None
    return folder
