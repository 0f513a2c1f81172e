"""The driver's errors that are not about the data, as errors of ours."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from benbi.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly

# Of each of these nothing was stored, and the same transaction may go through the next time.
_PASSING = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.InsufficientResources,
)


def translate(url: str, error: psycopg.Error) -> Exception:
    """What the error means for callers; errors about the data as they are."""
    text = " ".join(str(error).split())
    if isinstance(error, errors.DiskFull):
        return StoreFull(f"{url}: the disk of the server is full; nothing was stored")
    # The latter: of all statements of ours, only the beginning of a write on a standby.
    if isinstance(error, errors.ReadOnlySqlTransaction | errors.FeatureNotSupported):
        return StoreReadOnly(f"{url} can not be written ({text}): is it a standby?")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreReadOnly(f"{url}: {text}; ask for rights on the schema, or name another user")
    if isinstance(error, _PASSING):
        return StoreBusy(f"{url}: {text}")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
        return StoreError(f"{url}: {text}; benbi db check says what is behind")
    # Without a code of the server's, or with one of a pooler's: the connection is gone, and with it
    # what was under way.
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if lost and (error.sqlstate or "08").startswith("08"):
        return StoreBusy(f"{url}: the connection is lost ({text})")
    return error


@contextmanager
def translated(url: str) -> Generator[None]:
    """Runs a block whose driver errors are translated."""
    try:
        yield
    except psycopg.Error as error:
        meant = translate(url, error)
        if meant is error:
            raise
        raise meant from error
