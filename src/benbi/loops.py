"""Event loops: calls from a thread into one, and calls that must not be made in one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVarTuple

from benbi.errors import ConfigurationError

Ts = TypeVarTuple("Ts")


def call_in_loop(
    loop: asyncio.AbstractEventLoop, call: Callable[[*Ts], object], *args: *Ts
) -> None:
    """Calls ``call(*args)`` soon in the loop. In a closed loop nobody is left to be told."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def refuse_in_loop(name: str) -> None:
    """A blocking call in a running loop would stop everything in it."""
    if in_loop():
        refuse_to_block(f"{name}_sync()", f"await {name}(…)")


def refuse_to_block(what: str, instead: str) -> None:
    """Raises ConfigurationError in a running loop."""
    if in_loop():
        raise ConfigurationError(f"{what} blocks the running event loop; use {instead}")


def in_loop() -> bool:
    """True in a thread whose event loop is running."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
