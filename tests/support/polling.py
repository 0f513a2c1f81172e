"""Waiting for a condition, never for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import pytest

T = TypeVar("T")

INTERVAL = 0.01  # seconds between two looks


def wait_until(predicate: Callable[[], T], timeout: float = 10.0, what: str = "") -> T:
    """The first true value of ``predicate``; fails the test after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not (value := predicate()):
        if time.monotonic() > deadline:
            _give_up(predicate, value, timeout, what)
        time.sleep(INTERVAL)
    return value


async def wait_until_async(
    predicate: Callable[[], T | Awaitable[T]], timeout: float = 10.0, what: str = ""
) -> T:
    """As ``wait_until``, in a loop; ``predicate`` may be a coroutine function."""
    deadline = time.monotonic() + timeout
    while True:
        value: Any = predicate()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            _give_up(predicate, value, timeout, what)
        await asyncio.sleep(INTERVAL)


def _give_up(predicate: object, value: object, timeout: float, what: str) -> NoReturn:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    pytest.fail(f"not within {timeout:g} s: {name} (last value: {value!r})")
