"""Two moves on two connections: the second in the midst of the first, at one place of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from tests.interleave.stepping import QUIET, SOON, Move, Side
from tests.support.polling import wait_until

# Between two looks at whether a side that says nothing waits for the other.
LOOK_SECONDS = 0.002
BLOCKED = "SELECT cardinality(pg_blocking_pids(%s)) > 0"


class Played(NamedTuple):
    """How one order went."""

    # Where the first was when the second came.
    place: str
    outcomes: tuple[Any, Any]
    deadlocks: int
    # Whether the second did not stop in its turn: there is no later stop of it.
    whole: bool


@dataclass
class Arena:
    """Two sides, and a connection that sees who waits for whom."""

    first: Side
    second: Side
    look: psycopg.Connection[Any]

    def play(self, moves: tuple[Move, Move], place: int, stop: int | None = None) -> Played | None:
        """The second move, whole, at this stop of the first, from 0. None: it has no such stop.

        ``stop``: where the second waits in its turn until the first has ended, or waits for it;
        and no stop of either is left out.
        """
        first, second = self.first, self.second
        quiet = QUIET if stop is None else frozenset[str]()
        first.start(moves[0], place, quiet=quiet)
        assert first.at_rest(), "alone, it waits for nobody"
        if first.done:
            return None
        second.start(moves[1], stop, quiet=quiet)
        self._settle(second)
        whole = not second.stopped
        where = _where(first.statements)
        if not whole:
            where += f"; the other stops {_where(second.statements)}"
        first.go_on()
        if not whole:
            self._settle(first)
        second.go_on()
        for side in (first, second):
            assert side.at_rest(), f"{where}: it does not come to its end"
        deadlocks = first.deadlocks + second.deadlocks
        return Played(where, (first.outcome, second.outcome), deadlocks, whole)

    def alone(self, move: Move) -> None:
        """A move with nobody beside it."""
        self.first.start(move, None)
        assert self.first.at_rest()

    def _settle(self, side: Side) -> None:
        """Until a side has stopped, or has ended, or waits for the other."""

        def settled() -> bool:
            if side.at_rest(LOOK_SECONDS):
                return True
            ((blocked,),) = self.look.execute(BLOCKED, [side.pid]).fetchall()
            return blocked

        wait_until(settled, SOON)

    def close(self) -> None:
        self.first.close()
        self.second.close()


def _where(statements: list[str]) -> str:
    if not statements:
        return "before its first statement"
    return f"behind its statement {len(statements)}, {statements[-1]}"
