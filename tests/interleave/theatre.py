"""Plays a pair of moves on a stage in every order, and says what came out wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import psycopg

from benbi.store.postgresql import PostgresDatabase
from tests.interleave.acts import ACTS
from tests.interleave.board import Board, Picture, named
from tests.interleave.duel import Arena
from tests.interleave.meetings import DEADLOCKS
from tests.interleave.stages import STAGES, World
from tests.interleave.stepping import Side
from tests.support.rig import Clock, Rig

# A deadlock that is there need not be waited for as long as a server does.
OPTIONS = "-c deadlock_timeout=20ms"


class Theatre:
    """One database, two sides, and the stage that is set."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        conninfo = psycopg.conninfo.make_conninfo(url, options=OPTIONS)
        database = PostgresDatabase(conninfo, durability="normal", clock=self.clock)
        self.rig = Rig(database, self.clock)
        self.board = Board(url)
        self.arena = Arena(Side(database), Side(database), self.board.connection)
        self.reset: Callable[[], None] = lambda: None
        self._stage = ""
        self._world = World(self.rig)

    def set(self, stage: str) -> World:
        """Builds a stage, or puts it back to how it was built."""
        if stage == self._stage:
            self.reset()
            return self._world
        self.board.witness.clear()
        self.clock.now = Clock().now
        self._world = World(self.rig)
        STAGES[stage](self._world)
        self.reset = self.board.keep()
        self._stage = stage
        return self._world

    def close(self) -> None:
        self.arena.close()
        self.rig.store.close()
        self.board.close()


class Order(NamedTuple):
    """One order that was played, and what it came to."""

    where: str
    picture: Picture
    problems: list[str]
    deadlocks: int
    # No later stop of the second is left.
    whole: bool


class Pair:
    """Two moves on a stage."""

    def __init__(self, theatre: Theatre, stage: str, names: tuple[str, str]) -> None:
        world = theatre.set(stage)
        acts = [ACTS[name] for name in names]
        self._theatre = theatre
        self._jobs = world.names
        self._names = names
        self._moves = (acts[0].build(world, 0), acts[1].build(world, 1))
        self._comes_again = [act.comes_again for act in acts]
        self._next_round = [
            move for act, move in zip(acts, self._moves, strict=True) if act.comes_again
        ]

    def faults(self, *, thorough: bool) -> list[str]:
        """What must never be; what comes out as it does in neither of the serial orders, and does
        not with the next round of workers and upkeep; deadlocks that no table knows.

        ``thorough``: the second move stops in its turn, at each of its statements.
        """
        found: list[str] = []
        circles: list[str] = []
        for order in [*self._serial, *self._orders(thorough)]:
            found += [f"{order.where}: {problem}" for problem in order.problems]
            circles += [f"{order.where}: a deadlock"] * bool(order.deadlocks)
        if frozenset(self._names) not in DEADLOCKS:
            found += circles
        elif not circles:
            found.append("no order comes to a deadlock, and the table says so")
        return [named(one, self._jobs) for one in found]

    @cached_property
    def _serial(self) -> list[Order]:
        return [order for flipped in (False, True) if (order := self._play(flipped, 0))]

    @cached_property
    def _serial_and_a_round(self) -> list[Picture]:
        found: list[Picture] = []
        for flipped in (False, True):
            order = self._play(flipped, 0)
            assert order is not None
            found.append(self._after_a_round(order))
        return found

    def _orders(self, thorough: bool) -> Iterator[Order]:
        serial = [order.picture for order in self._serial]
        for flipped in (False, True):
            place, stop = 0 if thorough else 1, 0
            while order := self._play(flipped, place, stop if thorough else None):
                if order.picture not in serial and not self._is_serial_in_a_round(order):
                    near = min((order.picture.differs(one) for one in serial), key=len)
                    order.problems.append(f"as in no serial order: {'; '.join(near)}")
                yield order
                if thorough and not order.whole:
                    stop += 1
                else:
                    place, stop = place + 1, 0

    def _is_serial_in_a_round(self, order: Order) -> bool:
        return bool(self._next_round) and self._after_a_round(order) in self._serial_and_a_round

    def _after_a_round(self, order: Order) -> Picture:
        """How it stands after whatever comes again did so; what the other came to stays."""
        for move in self._next_round:
            self._theatre.arena.alone(move)
        first, second = order.picture.outcomes
        told = (None if self._comes_again[0] else first, None if self._comes_again[1] else second)
        return Picture(told, self._theatre.board.rows())

    def _play(self, flipped: bool, place: int, stop: int | None = None) -> Order | None:
        theatre, names, moves = self._theatre, self._names, self._moves
        theatre.reset()
        played = theatre.arena.play(moves[::-1] if flipped else moves, place, stop)
        if played is None:
            return None
        outcomes = played.outcomes[::-1] if flipped else played.outcomes
        first, second = names[::-1] if flipped else names
        problems, picture = theatre.board.problems(), theatre.board.picture(outcomes)
        where = f"{second}, {played.place} of {first}"
        return Order(where, picture, problems, played.deadlocks, played.whole)
