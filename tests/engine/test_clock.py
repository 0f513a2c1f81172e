"""The clock of a process: it never runs back, and a step back of the host's does not stop it.

Where jobs lie on a server it is the server's, as far as that was heard.
"""

from __future__ import annotations

from benbi.store.clock import Clock, HeardClock

HOUR = 3600 * 1_000_000


class Host:
    """A host's clocks, moved by the test."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000 * 1_000_000
        self.ticks = 0

    def pass_by(self, micros: int) -> None:
        self.wall += micros
        self.ticks += micros


def test_it_shows_the_hosts_time() -> None:
    host = Host()
    clock = Clock(lambda: host.wall, lambda: host.ticks)
    for _ in range(3):
        host.pass_by(HOUR)
        assert clock() == host.wall
    host.wall += HOUR
    assert clock() == host.wall, "a step forward is followed at once"


def test_a_step_back_is_made_up_for_slowly() -> None:
    host = Host()
    clock = Clock(lambda: host.wall, lambda: host.ticks)
    before = clock()
    host.wall -= HOUR
    seen = []
    for _ in range(4 * 60):
        host.pass_by(60 * 1_000_000)
        seen.append(clock())
    assert seen == sorted(seen) and seen[0] > before, "it neither runs back nor stands still"
    assert seen[59] == before + HOUR // 2, "half as fast as before"
    assert seen[-1] == host.wall, "after two hours the host has caught up"


def test_looking_often_does_not_slow_it_down() -> None:
    host = Host()
    clock = Clock(lambda: host.wall, lambda: host.ticks)
    before = clock()
    host.wall -= HOUR
    for _ in range(1000):
        host.pass_by(1)
        clock()
    assert clock() >= before + 499


def test_what_was_heard_goes_on() -> None:
    host = Host()
    clock = HeardClock(lambda: host.ticks)
    clock.hear(host.wall + 90 * 1_000_000)
    host.pass_by(HOUR)
    assert clock() == host.wall + 90 * 1_000_000
    host.wall += HOUR
    assert clock() == host.wall + 90 * 1_000_000 - HOUR, "the host's own clock is not asked"
    clock.hear(host.wall)
    assert clock() == host.wall, "what is heard last counts"
