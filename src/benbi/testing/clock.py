"""Time that moves only when a test says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NoReturn

from benbi.options import Duration, seconds_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FakeClock:
    """Stands still until it is moved, and never goes back.

    ``start``: an aware datetime; None: the present, so that times which the test takes from the
    host's clock fit.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._micros = _micros(start or datetime.now(UTC))

    def __call__(self) -> int:
        """Microseconds since the epoch: what a database asks for."""
        return self._micros

    def __repr__(self) -> str:
        return f"FakeClock({self.now.isoformat()})"

    @property
    def now(self) -> datetime:
        """What it shows, in UTC."""
        return _EPOCH + timedelta(microseconds=self._micros)

    def advance(self, duration: Duration) -> None:
        """Moves it on: seconds, a timedelta, or a text such as "1h". Runs nothing."""
        self._micros += round(seconds_of(duration, "advance", _refuse) * 1_000_000)

    def move_to(self, moment: datetime) -> None:
        """Moves it on to an aware datetime. ValueError for one that is over."""
        micros = _micros(moment)
        if micros < self._micros:
            raise ValueError(f"{moment.isoformat()} is over: it is {self.now.isoformat()}")
        self._micros = micros


def _micros(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone: say datetime(…, tzinfo=UTC)")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)
