"""The statements of one transaction as a pipeline: what returns nothing is sent, not waited for.

Below the driver's cursors, which cost more than most of these statements take: by the driver's
libpq and its conversion of values. A statement is prepared once on each connection.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any, TypeAlias

import psycopg
from psycopg import errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, PipelineStatus
from psycopg.pq.abc import PGresult

from benbi.store.database import Row
from benbi.store.statements import Statement

_REFUSALS = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED, ExecStatus.BAD_RESPONSE)
# A statement with the types of its values.
_Typed: TypeAlias = tuple[bytes, tuple[int, ...]]


class Answer:
    """What the server says to one statement, once it was waited for."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None


class Pipeline:
    """The pipeline of one connection, between two transactions closed.

    Raises psycopg.Error for the first statement that the server refuses, when that or a later one
    is waited for; what was sent after it is not done. ``patience``: seconds without a word of the
    server after which it is given up, whatever the network says of it.
    """

    def __init__(self, connection: psycopg.Connection[Any], patience: float) -> None:
        self._libpq = connection.pgconn
        self._patience = patience
        self._values = Transformer(connection)
        # The driver's own word for a connection on which nothing may be prepared.
        self._prepares = connection.prepare_threshold is not None
        self._prepared: dict[_Typed, bytes] = {}
        self._numbers = count(1)
        # What the server will answer to, in that order; and whether a sync comes after all of it.
        self._expected: deque[Answer | _Typed] = deque()
        self._ending = False
        self._readable, self._ready = select.poll(), select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        self._ready.register(self._libpq.socket, select.POLLIN | select.POLLOUT)

    @property
    def open(self) -> bool:
        return self._libpq.pipeline_status != PipelineStatus.OFF

    def begin(self) -> None:
        self._libpq.enter_pipeline_mode()

    def send(self, statement: Statement, values: Sequence[Any] = ()) -> Answer:
        """Sends a statement, at the latest when something is waited for."""
        dumped = self._values.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types, formats = self._values.types or (), self._values.formats
        answer = Answer()
        if self._prepares:
            name = self._prepare(statement, types)
            self._libpq.send_query_prepared(name, dumped, formats)
        else:
            self._libpq.send_query_params(statement.encoded, dumped, types, formats)
        self._expected.append(answer)
        return answer

    def _prepare(self, statement: Statement, types: tuple[int, ...]) -> bytes:
        typed = (statement.encoded, types)
        name = self._prepared.get(typed)
        if name is None:
            name = self._prepared[typed] = b"benbi_%d" % next(self._numbers)
            self._libpq.send_prepare(name, statement.encoded, types)
            self._expected.append(typed)
        return name

    def rows(self, answer: Answer) -> list[Row]:
        """Waits for the rows of a statement."""
        if answer.result is None:
            self._libpq.send_flush_request()
            while answer.result is None:
                self._take(self._next())
        self._values.set_pgresult(answer.result)
        return self._values.load_rows(0, answer.result.ntuples, tuple)

    def end(self) -> None:
        """Waits for all that was sent."""
        self._libpq.pipeline_sync()
        self._ending = True
        while (result := self._next()).status != ExecStatus.PIPELINE_SYNC:
            self._take(result)
        self._leave()

    def give_up(self) -> None:
        """The same where something was refused, or is not wanted any more."""
        if not self._ending:
            self._libpq.pipeline_sync()
        while self._next().status != ExecStatus.PIPELINE_SYNC:
            pass
        for unanswered in self._expected:
            if not isinstance(unanswered, Answer):
                del self._prepared[unanswered]
        self._expected.clear()
        self._leave()

    def _leave(self) -> None:
        self._ending = False
        self._libpq.exit_pipeline_mode()

    def _take(self, result: PGresult) -> None:
        if not self._expected:
            # To no statement of ours: the server ends the connection.
            raise errors.error_from_result(result)
        expected = self._expected.popleft()
        if isinstance(expected, Answer):
            expected.result = result
        elif result.status in _REFUSALS:
            del self._prepared[expected]
        if result.status in _REFUSALS:
            raise errors.error_from_result(result)

    def _next(self) -> PGresult:
        """The next result of the server; sends meanwhile what is not sent yet."""
        libpq = self._libpq
        unsent = libpq.flush()
        while True:
            while libpq.is_busy():
                if not (self._ready if unsent else self._readable).poll(self._patience * 1000):
                    libpq.finish()
                    raise psycopg.OperationalError(f"no answer for {self._patience:g} s")
                libpq.consume_input()
                unsent = unsent and libpq.flush()
            result = libpq.get_result()
            # None stands between the results of two statements.
            if result is not None:
                return result
            if libpq.status == ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
