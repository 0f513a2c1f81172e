"""The queue before the writer: nobody waits for ever, nobody goes untold, a backlog is no death."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from benbi.errors import StoreError
from benbi.store.batcher import Batcher, Lane, Ticket
from tests.support import wait_until, wait_until_async


@contextmanager
def batching(handle: Any, **bounds: Any) -> Iterator[Batcher]:
    """A batcher with one lane that takes one item at a time."""
    batcher = Batcher([Lane("lane", handle, most_items=1)], **bounds)
    try:
        yield batcher
    finally:
        batcher.close()


def echo(items: list[Any]) -> list[Any]:
    return items


class Gate:
    """Handles items once it is open; tells how many came."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.came: list[Any] = []

    def __call__(self, items: list[Any]) -> list[Any]:
        self.came += items
        assert self.open.wait(10)
        return items


class LateLook(Batcher):
    """A caller that finds it full is slow: room is made before it begins to wait."""

    def _try(self, lane: str, ticket: Ticket, loop: asyncio.AbstractEventLoop) -> Any:
        room = super()._try(lane, ticket, loop)
        if room is not None:
            wait_until(lambda: not self._items)
        return room


async def test_room_that_is_made_while_a_caller_looks_is_not_missed() -> None:
    gate = Gate()
    batcher = LateLook([Lane("lane", gate)], most_items=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(batcher.put_sync, "lane", 1)
        await wait_until_async(lambda: gate.came)
        threading.Timer(0.05, gate.open.set).start()
        assert await asyncio.wait_for(batcher.put("lane", 2), 5) == 2
        assert first.result(5) == 1
    batcher.close()


async def test_a_full_queue_makes_loops_and_threads_wait_and_serves_them_all() -> None:
    with batching(echo, most_items=2) as batcher, ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(batcher.put_sync, "lane", number) for number in range(50)]
        answers = await asyncio.wait_for(
            asyncio.gather(*(batcher.put("lane", number) for number in range(50))), 10
        )
        assert answers == list(range(50))
        assert [await asyncio.wrap_future(thread) for thread in threads] == list(range(50))


async def test_a_canceled_caller_takes_its_item_with_it() -> None:
    gate = Gate()
    with batching(gate) as batcher:
        first = asyncio.create_task(batcher.put("lane", "first"))
        await wait_until_async(lambda: gate.came)
        second = asyncio.create_task(batcher.put("lane", "second"))
        third = asyncio.create_task(batcher.put("lane", "third"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        gate.open.set()
        assert [await first, await third] == ["first", "third"]
    assert gate.came == ["first", "third"]


async def test_callers_that_wait_for_room_are_told_of_the_end() -> None:
    gate = Gate()
    batcher = Batcher([Lane("lane", gate)], most_items=1)
    first = asyncio.create_task(batcher.put("lane", 1))
    await wait_until_async(lambda: gate.came)
    with ThreadPoolExecutor() as pool:
        in_thread = pool.submit(batcher.put_sync, "lane", 2)
        in_loop = asyncio.create_task(batcher.put("lane", 3))
        await asyncio.sleep(0)
        closing = pool.submit(batcher.close)
        await wait_until_async(lambda: batcher._closed)
        gate.open.set()
        assert await first == 1, "what was queued is served"
        for waiter in (asyncio.wrap_future(in_thread), in_loop):
            with pytest.raises(StoreError, match="closed"):
                await asyncio.wait_for(waiter, 5)
        await asyncio.wrap_future(closing)


def test_ctrl_c_in_a_caller_that_serves_costs_the_others_nothing() -> None:
    """The thread that waits for its own item serves those of others too."""
    served: list[Any] = []
    interrupted = threading.Event()

    def handle(items: list[Any]) -> list[Any]:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt
        served.extend(items)
        return items

    with batching(handle) as batcher:
        others = [Ticket(number, 0) for number in (2, 3)]
        for other in others:
            # As threads leave theirs that found somebody serving.
            batcher._append("lane", other)
        with pytest.raises(KeyboardInterrupt):
            batcher.put_sync("lane", 1)
        assert [other.result() for other in others] == [2, 3]
        assert batcher.put_sync("lane", 4) == 4
        assert batcher.stalled() is None, "nothing is left behind in the count"
    assert sorted(served) == [1, 2, 3, 4]


def test_ctrl_c_in_a_caller_that_is_served_at_once_serves_who_came_meanwhile() -> None:
    served: list[Any] = []
    interrupted = threading.Event()

    def handle(items: list[Any]) -> list[Any]:
        if not interrupted.is_set():
            assert wait_until(lambda: batcher._items == 2)
            interrupted.set()
            raise KeyboardInterrupt
        served.extend(items)
        return items

    with batching(handle) as batcher, ThreadPoolExecutor() as pool:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(
                0.05,
                lambda: others.extend(pool.submit(batcher.put_sync, "lane", n) for n in (2, 3)),
            ).start()
            others: list[Any] = []
            batcher.put_sync("lane", 1)
        assert sorted(other.result(5) for other in others) == [2, 3]
        assert batcher.stalled() is None, "nothing is left behind in the count"
    assert sorted(served) == [2, 3]


def test_a_long_queue_that_is_worked_off_is_not_stalled() -> None:
    """A thousand cancels at once must not make a worker end its process."""

    def slow(items: list[Any]) -> list[Any]:
        time.sleep(0.005)
        return items

    worst = 0.0
    with batching(slow) as batcher:
        tickets = [batcher.post("lane", Ticket(number, 0)) for number in range(200)]
        while not tickets[-1].done:
            worst = max(worst, batcher.stalled() or 0.0)
            time.sleep(0.005)
    assert worst < 0.5, "200 items take a second, each of them some milliseconds"


def test_a_writer_that_does_nothing_is_stalled() -> None:
    gate = Gate()
    with batching(gate) as batcher:
        assert batcher.stalled() is None
        ticket = batcher.post("lane", Ticket(1, 0))
        wait_until(lambda: (batcher.stalled() or 0.0) > 0.1)
        gate.open.set()
        assert ticket.result() == 1
        wait_until(lambda: batcher.stalled() is None)


def test_one_that_fails_to_hear_does_not_keep_the_others_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def deaf(_: object) -> None:
        raise RuntimeError("no ears")

    gate = Gate()
    batcher = Batcher([Lane("lane", gate)])
    batcher.post("lane", Ticket(1, 0))
    batcher.post("lane", Ticket(2, 0, then=deaf))
    last = batcher.post("lane", Ticket(3, 0))
    gate.open.set()
    assert last.result() == 3
    assert batcher.put_sync("lane", 4) == 4
    batcher.close()
    assert "failed to hear" in caplog.text
