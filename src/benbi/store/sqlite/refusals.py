"""The driver's errors that are not about the data, as errors of ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from benbi.errors import ForeignDatabase, StoreBusy, StoreError, StoreFull, StoreReadOnly


def translate(url: str, error: sqlite3.Error) -> Exception:
    """What the error means for callers; errors about the data as they are."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{url}: {error}; another program holds the database")
    if code == sqlite3.SQLITE_FULL or "disk is full" in str(error).lower():
        return StoreFull(f"{url}: the disk is full; nothing was stored")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return StoreReadOnly(
            f"{url} can not be written ({error}); check the rights of the file and its folder"
        )
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return ForeignDatabase(
            f"{url} is not a usable SQLite database ({error}); choose another file, or restore it "
            "from a copy"
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{url} can not be opened ({error}); check path and rights")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(
            f"{url}: {error}; nothing was stored: check the disk, quotas and limits on file sizes"
        )
    return error


@contextmanager
def translated(url: str) -> Generator[None]:
    """Runs a block whose driver errors are translated."""
    try:
        yield
    except sqlite3.Error as error:
        meant = translate(url, error)
        if meant is error:
            raise
        raise meant from error
