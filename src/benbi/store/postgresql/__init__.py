"""PostgreSQL behind the seam: the only package that knows the driver.

Writers of all processes work side by side under READ COMMITTED: what must not be decided twice is a
conditional statement or stands behind a row lock, and locks are taken in the order of ``n``.
"""

from benbi.store.postgresql.database import PostgresDatabase

__all__ = ["PostgresDatabase"]
