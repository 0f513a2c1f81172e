"""Which use of a name a call is: what a replay recognises steps, asks and sleeps by.

A use without a key is known by its place among the uses of its name: within the step that it is
made in, if any, so that a step that is recorded, and not run again, moves nobody else's place.
"""

from __future__ import annotations

import contextvars
import threading

from benbi.errors import StepNameRepeated
from benbi.store.lifecycle import StepRecord

Identity = tuple[str, str, str]  # kind, name, use

# The step whose function is running here.
current_step: contextvars.ContextVar[Identity | None] = contextvars.ContextVar(
    "benbi_step", default=None
)


class Uses:
    """The uses of names in one attempt. Safe in threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # A place is what may be open once only: a key, or a name without one within its step.
        self._counts: dict[Identity, int] = {}
        self._open: dict[Identity, Identity] = {}
        self._open_places: set[Identity] = set()
        self._recorded: dict[Identity, StepRecord] = {}
        self._saved: dict[str, Identity] = {}

    def enter(self, kind: str, name: str, key: str | None) -> Identity:
        """The identity of this use. StepNameRepeated where one like it is not finished yet."""
        scope = _scope(current_step.get())
        place = (kind, name, f"{scope}#" if key is None else _unlike_a_count(key))
        with self._lock:
            if place in self._open_places:
                raise StepNameRepeated(_repeated(kind, name, key))
            identity = place
            if key is None:
                count = self._counts[place] = self._counts.get(place, 0) + 1
                identity = (kind, name, f"{scope}#{count}")
            self._open_places.add(place)
            self._open[identity] = place
            return identity

    def leave(self, identity: Identity) -> None:
        """This use of the name is finished."""
        with self._lock:
            place = self._open.pop(identity, None)
            if place is not None:
                self._open_places.discard(place)

    def begin_again(self, step: Identity) -> None:
        """A step is tried again in its place: what it calls is counted from the start."""
        scope = _scope(step)
        with self._lock:
            for place in [place for place in self._counts if place[2].startswith(scope)]:
                del self._counts[place]

    def take_name(self, name: str, identity: Identity) -> bool:
        """False where another use of this attempt saves, or saved, under that name."""
        with self._lock:
            return self._saved.setdefault(name, identity) == identity

    def give_name_back(self, name: str) -> None:
        """Nothing was saved under it after all."""
        with self._lock:
            self._saved.pop(name, None)

    def remember(self, record: StepRecord) -> None:
        """Keeps a step recorded by this attempt, where a later call may be the same use."""
        identity = (record.kind, record.name, record.use)
        never_again = record.use.startswith("#") and record.use[1:].isdigit()
        if record.state == "completed" and not never_again:
            with self._lock:
                self._recorded[identity] = record

    def recorded(self, identity: Identity) -> StepRecord | None:
        """What this attempt itself recorded of a use."""
        return self._recorded.get(identity)


def _scope(step: Identity | None) -> str:
    return "" if step is None else f"{step[1]}{step[2]}/"


def _unlike_a_count(key: str) -> str:
    return f"#{key}" if key.startswith("#") else key


def _repeated(kind: str, name: str, key: str | None) -> str:
    if key is not None:
        return f"{kind} {name!r} with key {key!r} is under way already"
    return (
        f"{kind} {name!r} was called while an earlier call of it is unfinished: their "
        "order may differ on replay; tell them apart with key="
    )
