"""SQLite behind the seam: the only package that knows the driver.

Writers of all processes take turns (turnstile.py); readers never wait for them (WAL). Nothing
but SQLite ever opens the database file itself: closing any other descriptor of it would drop
the process's locks (sqlite.org/howtocorrupt.html, 2.2).
"""

from benbi.store.sqlite.database import SqliteDatabase

__all__ = ["SqliteDatabase"]
