"""One place where hints meet: commits of this process, and of others through the wake.

A hint says that something may have changed; whoever gets it looks. Subscribers are called in
their own loop, and hints that come faster than they are taken are one hint.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from benbi.loops import call_in_loop
from benbi.wake.poll import Wake


class Subscription:
    """One subscriber: ``call`` runs in ``loop``."""

    __slots__ = ("call", "loop", "told")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self.loop = loop
        self.call = call
        self.told = False

    def tell(self) -> None:
        if self.told:
            return
        self.told = True
        call_in_loop(self.loop, self._arrive)

    def _arrive(self) -> None:
        self.told = False
        self.call()


class Hints:
    """Starts the wake with the first subscriber and stops it with the last."""

    def __init__(self, make_wake: Callable[[], Wake | None]) -> None:
        self._make_wake = make_wake
        self._wake: Wake | None = None
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._closing: threading.Thread | None = None

    def subscribe(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls ``call`` in the running loop at each hint; returns what ends it."""
        subscription = Subscription(asyncio.get_running_loop(), call)
        with self._lock:
            self._subscriptions = [*self._subscriptions, subscription]
            if self._wake is None:
                self._wake = self._make_wake()
                if self._wake is not None:
                    self._wake.start(self.hint)
        return lambda: self._unsubscribe(subscription)

    @property
    def in_use(self) -> bool:
        """True while somebody is subscribed."""
        return bool(self._subscriptions)

    def hint(self) -> None:
        """Something may have changed. From any thread; quick."""
        for subscription in self._subscriptions:
            subscription.tell()

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = [one for one in self._subscriptions if one is not subscription]
            wake = self._wake
            if self._subscriptions or wake is None:
                return
            self._wake = None
            # Whoever closes a connection waits for a turn to write, and this is a loop.
            before = self._closing
            self._closing = threading.Thread(
                target=_close, args=(wake, before), name="benbi-wake-close", daemon=True
            )
            self._closing.start()

    def close(self) -> None:
        """Ends all subscriptions, and waits until nothing of them is left."""
        with self._lock:
            self._subscriptions = []
            wake, self._wake = self._wake, None
            closing, self._closing = self._closing, None
        _close(wake, closing)


def _close(wake: Wake | None, before: threading.Thread | None) -> None:
    if wake is not None:
        wake.close()
    if before is not None:
        before.join()
