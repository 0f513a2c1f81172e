"""One side of a duel: moves on a connection of its own, that stop where a test says.

A move stops between two of its statements, once the server has done the first: what is pipelined in
real life, the server does one after the other as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from benbi.errors import StoreBusy
from benbi.store.database import Row, Transaction
from benbi.store.postgresql import PostgresDatabase
from tests.support.postgresql import looked

Move = Callable[[Transaction], Any]
COMMIT = "COMMIT"
SOON = 30.0

# They write of jobs whose rows their transaction holds already, where nobody else writes, or read
# of such: a stop after one of them is the stop before it, to anybody who looks from outside.
QUIET = frozenset(
    {
        "failed_upstream",
        *("event", "arrived", "result", "forget_result", "forget_artifacts", "progress", "step"),
        *("tick_of_job", "tick_in_event", "schedule_fired"),
        *("prune_events", "prune_steps", "prune_questions", "prune_progress", "prune_artifacts"),
        *("prune_logs", "prune_arguments", "prune_results"),
    }
)


class Stepped:
    """A transaction that comes to a stop before its first statement, after each, before COMMIT."""

    def __init__(self, tx: Any, stop: Callable[[Stepped], None], quiet: frozenset[str]) -> None:
        self._tx = tx
        self._stop = stop
        self._quiet = quiet
        self.done: list[str] = []

    @property
    def now(self) -> int:
        return self._tx.now

    def rows(self, statement: str, /, **values: Any) -> list[Row]:
        self.comes_to(statement)
        return self._tx.rows(statement, **values)

    def each(self, statement: str, values: Iterable[Sequence[Any]]) -> list[list[Row]]:
        found: list[list[Row]] = []
        for row in values:
            self.comes_to(statement)
            found += self._tx.each(statement, [row])
        return found

    def insert(self, statement: str, jobs: Any, /, **values: Any) -> Sequence[int | None]:
        self.comes_to(statement)
        return self._tx.insert(statement, jobs, **values)

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        if given := list(values):
            self.comes_to(statement)
            self._tx.many(statement, given)

    def script(self, sql: str) -> None:
        raise AssertionError("no move runs a script")

    def comes_to(self, statement: str) -> None:
        if not self.done or statement == COMMIT or self.done[-1] not in self._quiet:
            self._stop(self)
        self.done.append(statement)

    def catch_up(self) -> None:
        """Waits until the server has done what was sent."""
        looked(self._tx, "SELECT 1")


class Side:
    """A thread and a connection that run one move after the other."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._session = database.connect()
        self._changed = threading.Condition()
        self._move: Move | None = None
        self._quiet: frozenset[str] = QUIET
        # Stops to pass before the one where it waits; None: it does not stop any more.
        self._left: int | None = None
        self._closed = False
        self.stopped = False
        self.done = True
        # Where it stopped: the statements that it had done.
        self.statements: list[str] = []
        self.deadlocks = 0
        self.outcome: Any = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the server's process."""
        return self._session._connection.info.backend_pid

    def start(self, move: Move, stop_at: int | None, *, quiet: frozenset[str] = QUIET) -> None:
        """Begins a move, which waits at stop number ``stop_at``, from 0, or does not stop.

        There is no stop after statements that are ``quiet``."""
        with self._changed:
            assert self.done
            self._move, self._left, self._quiet = move, stop_at, quiet
            self.statements, self.deadlocks = [], 0
            self.stopped = self.done = False
            self._changed.notify_all()

    def go_on(self) -> None:
        """To its end, without a stop."""
        with self._changed:
            self._left, self.stopped = None, False
            self._changed.notify_all()

    def at_rest(self, timeout: float = SOON) -> bool:
        """Waits until it has stopped or is done; False where it is under way still."""
        with self._changed:
            return self._changed.wait_for(lambda: self.stopped or self.done, timeout)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(SOON)
        self._session.close()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._move is not None or self._closed)
                move, self._move = self._move, None
            if move is None:
                return
            outcome = self._run(move)
            with self._changed:
                self.outcome, self.done = outcome, True
                self._changed.notify_all()

    def _run(self, move: Move) -> Any:
        while True:
            try:
                with self._session.write() as tx:
                    stepped = Stepped(tx, self._stop, self._quiet)
                    outcome = move(stepped)
                    stepped.comes_to(COMMIT)
                return outcome
            except StoreBusy as busy:
                # As the store does: the whole of it once more.
                if "deadlock detected" not in str(busy):
                    return busy
                self.deadlocks += 1
                self._left = None
            except Exception as error:
                return error

    def _stop(self, stepped: Stepped) -> None:
        with self._changed:
            here = self._left == 0
            self._left = self._left - 1 if self._left else None
        if not here:
            return
        stepped.catch_up()
        with self._changed:
            self.statements = list(stepped.done)
            self.stopped = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self.stopped)
