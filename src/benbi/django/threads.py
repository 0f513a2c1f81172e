"""Django's connections in the threads of a worker: it closes them at the end of a request, and a
worker has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import close_old_connections, connections, reset_queries

from benbi.engine.threads import Threads


class DjangoThreads(Threads):
    """Threads in which each call is to Django what a request is."""

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await super().run(_as_request, function, *args, **kwargs)

    def call(
        self, timeout: float | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        if timeout is None:
            # Here, in the middle of one.
            return super().call(None, function, *args, **kwargs)
        return super().call(timeout, _as_request, function, *args, **kwargs)


def _as_request(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    reset_queries()
    close_old_connections()
    try:
        return function(*args, **kwargs)
    finally:
        close_old_connections()


def close_broken_connections() -> None:
    """Closes those of this thread that are of no use any more. Those that are only old are left:
    another coroutine may be reading from one."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred and not connection.in_atomic_block:
            if connection.connection is not None and not connection.is_usable():
                connection.close()
            connection.errors_occurred = False
