"""For the tests of users: the whole app on a database in memory, or one task as a function.

``fresh`` (and the fixture ``benbi_app`` of the pytest plugin, which is made of it) runs the real
worker on a new ``:memory:`` database and on a clock that moves only when the test says so.
``context`` and ``sync_context`` make what a task needs to be called like any function.
"""

from benbi.testing.clock import FakeClock
from benbi.testing.in_memory import Enqueued, TestApp, enqueued, fresh
from benbi.testing.rehearsal import (
    Answered,
    RecordingContext,
    RecordingSyncContext,
    Taken,
    context,
    sync_context,
)

__all__ = [
    "Answered",
    "Enqueued",
    "FakeClock",
    "RecordingContext",
    "RecordingSyncContext",
    "Taken",
    "TestApp",
    "context",
    "enqueued",
    "fresh",
    "sync_context",
]
