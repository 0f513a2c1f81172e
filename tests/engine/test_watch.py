"""Who is dead is judged by counters and the watcher's own clock, never by a timestamp."""

from __future__ import annotations

from benbi.engine.upkeep import Watch

TIMEOUT = 8.0


class Watcher:
    """Looks at a fleet every quarter of the timeout; everybody but the dead beats between."""

    def __init__(self) -> None:
        self.watch = Watch(TIMEOUT)
        self.now = 1000.0
        self.beats = {1: 0, 2: 0}

    def look(self, *, dead: tuple[int, ...] = (), after: float = TIMEOUT / 4) -> list[int]:
        self.now += after
        for worker in self.beats:
            self.beats[worker] += worker not in dead
        return [worker for worker, _ in self.watch.look(dict(self.beats), self.now)]


def test_whoever_stands_still_for_the_timeout_is_lost() -> None:
    fleet = Watcher()
    found = [fleet.look(dead=(2,)) for _ in range(5)]
    assert found == [[], [], [], [], [2]]


def test_whoever_beats_is_never_lost() -> None:
    fleet = Watcher()
    assert [fleet.look() for _ in range(50)] == [[]] * 50


def test_one_beat_in_all_that_time_is_enough() -> None:
    fleet = Watcher()
    fleet.look()
    for turn in range(40):
        assert fleet.look(dead=() if turn % 4 == 3 else (2,)) == []


def test_a_watcher_that_paused_buries_nobody() -> None:
    """A suspended laptop, a stopped process, a database that was away: all beats look old."""
    fleet = Watcher()
    fleet.look()
    assert fleet.look(dead=(1, 2), after=3600) == []
    found = [fleet.look(dead=(2,)) for _ in range(4)]
    assert found == [[], [], [], [2]], "a full timeout, watched without a gap"


def test_a_new_watcher_needs_a_full_timeout() -> None:
    fleet = Watcher()
    assert fleet.look(dead=(1, 2)) == []
    assert fleet.look(dead=(1, 2), after=TIMEOUT / 4) == []


def test_what_is_lost_is_named_with_the_beat_that_was_seen() -> None:
    fleet = Watcher()
    fleet.beats = {1: 41}
    for _ in range(4):
        fleet.look(dead=(1,))
    fleet.now += TIMEOUT / 4
    assert fleet.watch.look({1: 41}, fleet.now) == [(1, 41)]


def test_all_intervals_derive_from_the_timeout() -> None:
    assert Watch(12.0).interval == 3.0


def test_who_beats_less_often_by_its_own_timeout_is_given_that() -> None:
    """A server with the default watches a worker that was told to be patient."""
    fleet = Watcher()
    patience = {1: 0.0, 2: 3 * TIMEOUT}

    def lost() -> list[int]:
        fleet.now += TIMEOUT / 4
        return [worker for worker, _ in fleet.watch.look(fleet.beats, fleet.now, patience)]

    assert [lost() for _ in range(13)] == [[]] * 4 + [[1]] * 8 + [[1, 2]]


def test_silence_is_doubted_before_it_is_believed() -> None:
    """From half of the time on; by the worker's own timeout, so that nobody is doubted for ever."""
    fleet = Watcher()
    patience = {1: 0.0, 2: 3 * TIMEOUT}
    doubts: list[bool] = []
    for _ in range(8):
        fleet.now += TIMEOUT / 4
        fleet.beats[1] += 1
        fleet.watch.look(fleet.beats, fleet.now, patience)
        doubts.append(fleet.watch.doubts)
    assert doubts == [False] * 6 + [True] * 2


def test_a_watch_that_was_restarted_begins_anew() -> None:
    fleet = Watcher()
    for _ in range(4):
        fleet.look(dead=(2,))
    fleet.watch.restart()
    assert [fleet.look(dead=(2,)) for _ in range(5)] == [[], [], [], [], [2]]
