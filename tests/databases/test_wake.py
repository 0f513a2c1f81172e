"""Hints reach a waiting worker soon, once each, and stop when they are told to."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from benbi.wake import sqlite as sqlite_wake
from benbi.wake.poll import Poll, Wake
from benbi.wake.sqlite import SqliteWake
from tests.support import wait_until

Start = Callable[..., "Hints"]

LINUX = sys.platform == "linux"
WAYS = [pytest.param(True, id="inotify"), pytest.param(False, id="polling")] if LINUX else [False]
SOON = 5.0  # seconds; what is measured on an idle machine is a few milliseconds

# Writes for each line it reads: n rows in one commit, or -n quick commits of one row.
COMMITTER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 10")
print("ready", flush=True)
for line in sys.stdin:
    connection.execute(f"PRAGMA synchronous = {'FULL' if int(line) > 0 else 'OFF'}")
    for _ in range(1, -int(line)):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(max(1, int(line))):
        connection.execute("INSERT INTO t VALUES (?)", ("x" * 500,))
    if int(line) > 1:
        print("written", flush=True)
        sys.stdin.readline()
    connection.execute("COMMIT")
    print(time.monotonic(), flush=True)
"""


class Version:
    """A connection that is only asked for its data version."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.reads = 0

    def read(self) -> int:
        self.reads += 1
        ((version,),) = self.connection.execute("PRAGMA data_version").fetchall()
        return version

    def close(self) -> None:
        self.connection.close()


class Hints:
    """Counts calls, and lets a test wait for one."""

    def __init__(self, wake: Wake) -> None:
        self.wake = wake
        self.at: list[float] = []
        self._seen = 0
        self._condition = threading.Condition()

    def hint(self) -> None:
        with self._condition:
            self.at.append(time.monotonic())
            self._condition.notify_all()

    def next(self, timeout: float = SOON) -> bool:
        """True when there was one, or more, since this was asked last."""
        with self._condition:
            came = self._condition.wait_for(lambda: len(self.at) > self._seen, timeout)
            self._seen = len(self.at)
            return came


class Committer:
    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMITTER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def tell(self, text: object = "") -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def commit(self) -> float:
        """One row; the time after the commit."""
        self.tell(1)
        return float(self.line())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def make_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    make_database(path)
    return path


@pytest.fixture
def committers() -> Iterator[Callable[[Path], Committer]]:
    opened: list[Committer] = []

    def open_one(path: Path) -> Committer:
        opened.append(Committer(path))
        return opened[-1]

    yield open_one
    for committer in opened:
        committer.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a wake for a path, past the hint that it begins with where the file is there."""
    started: list[Wake] = []

    def start_one(
        path: Path, *, connect: Callable[[], Callable[[], int]] | None = None, **how: bool
    ):
        wake = SqliteWake(path, connect or (lambda: Version(path).read), **how)
        hints = Hints(wake)
        started.append(wake)
        wake.start(hints.hint)
        if path.exists():
            assert hints.next()
        return hints

    yield start_one
    for wake in started:
        wake.close()


@pytest.fixture
def by_events_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the look of every second, which would hide a missing event."""
    monkeypatch.setattr(sqlite_wake, "IDLE", 60.0)


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_each_commit_of_another_process_is_one_hint(
    path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    hints, other = start(path, inotify=inotify), committers(path)
    before = len(hints.at)
    late: list[float] = []
    for _ in range(20):
        committed = other.commit()
        assert hints.next()
        late.append(hints.at[-1] - committed)
    # The hint may come before the committer has looked at its clock, but never twice.
    assert not hints.next(0.1)
    assert len(hints.at) - before == 20
    assert sorted(late)[10] <= 0.1


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_a_burst_is_coalesced_and_its_last_commit_is_told(
    path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    other = committers(path)
    seen: list[int] = []

    def look() -> None:
        connection = sqlite3.connect(path)
        seen.extend(connection.execute("SELECT count(*) FROM t").fetchone())
        connection.close()

    wake = SqliteWake(path, lambda: Version(path).read, inotify=inotify)
    wake.start(look)
    try:
        wait_until(lambda: seen == [0], SOON)
        began = time.monotonic()
        other.tell(-3000)
        other.line()
        burst = time.monotonic() - began
        wait_until(lambda: seen[-1] == 3000, SOON)
    finally:
        wake.close()
    assert len(seen) <= 5 + burst / min(sqlite_wake.REST, sqlite_wake.POLL_FAST)


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_a_long_transaction_is_told_when_it_commits(
    path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    versions: list[Version] = []

    def connect() -> Callable[[], int]:
        versions.append(Version(path))
        return versions[-1].read

    hints, other = start(path, connect=connect, inotify=inotify), committers(path)
    other.tell(2000)
    # More than its cache holds: pages go to the log, and nothing can be seen of them.
    assert other.line() == "written"
    before = versions[0].reads
    assert not hints.next(0.5)
    assert versions[0].reads - before <= (50 if inotify else 300)
    other.tell()
    other.line()
    assert hints.next()


@pytest.mark.skipif(not LINUX, reason="inotify is Linux's")
@pytest.mark.usefixtures("by_events_alone")
def test_an_event_seen_just_before_a_change_may_belong_to_the_next_one(
    path: Path, start: Start
) -> None:
    version = 0
    hints = start(path, connect=lambda: lambda: version)
    with path.with_name("jobs.db-wal").open("ab", buffering=0) as log:
        # Let the watch see the log first: only then are writes to it events.
        while hints.next(0.2):
            pass
        version = 1
        log.write(b"-")
        assert hints.next()
    version = 2
    assert hints.next()


@pytest.mark.skipif(not LINUX, reason="inotify is Linux's")
def test_hints_do_not_storm(path: Path, start: Start) -> None:
    versions = count()
    hints = start(path, connect=lambda: lambda: next(versions))
    code = "import sys; log = open(sys.argv[1], 'ab', 0)\nwhile True: log.write(b'-')"
    with subprocess.Popen([sys.executable, "-c", code, f"{path}-wal"]) as writer:
        wait_until(lambda: len(hints.at) > 3)
        began, before = time.monotonic(), len(hints.at)
        wait_until(lambda: len(hints.at) > before + 50)
        writer.kill()
    came = len(hints.at) - before
    assert came <= 2 + (time.monotonic() - began) / sqlite_wake.REST


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_a_database_that_comes_later_is_found(
    tmp_path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    path = tmp_path / "later.db"
    hints = start(path, inotify=inotify)
    assert not hints.next(0.05)
    assert not path.exists()
    make_database(path)
    assert hints.next()
    other = committers(path)
    # What made the file may still be told of.
    while hints.next(0.3):
        pass
    other.commit()
    assert hints.next()


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_a_database_that_is_replaced_is_watched_in_its_new_place(
    path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    hints = start(path, inotify=inotify)
    restored = path.with_name("restored.db")
    make_database(restored)
    for name in ("-wal", "-shm"):
        path.with_name(path.name + name).unlink()
    os.replace(restored, path)
    assert hints.next()
    other = committers(path)
    while hints.next(0.3):
        pass
    for _ in range(3):
        other.commit()
        assert hints.next()


@pytest.mark.parametrize("inotify", WAYS)
def test_nothing_is_read_over_and_over_while_nothing_happens(
    path: Path, start: Start, committers: Callable[[Path], Committer], inotify: bool
) -> None:
    versions: list[Version] = []

    def connect() -> Callable[[], int]:
        versions.append(Version(path))
        return versions[-1].read

    hints, other = start(path, connect=connect, inotify=inotify), committers(path)
    other.commit()
    assert hints.next()
    # Past the time in which it looks closely.
    assert not hints.next(1.3)
    before, started = versions[0].reads, time.process_time()
    assert not hints.next(1.0)
    used = time.process_time() - started
    assert len(versions) == 1
    assert versions[0].reads - before <= (3 if inotify else 60)
    assert used <= (0.02 if inotify else 0.1)


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_closing_ends_the_thread_the_connection_and_the_descriptors(
    path: Path, inotify: bool
) -> None:
    closed: list[int] = []

    class Told(Version):
        def close(self) -> None:
            # sqlite3 refuses another thread than the one that connected.
            super().close()
            closed.append(threading.get_ident())

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd")) if LINUX else 0

    threads, files = threading.active_count(), descriptors()
    wake = SqliteWake(path, lambda: Told(path).read, inotify=inotify)
    wake.close()  # before it was started: nothing to do
    for _ in range(2):
        hints = Hints(wake)
        wake.start(hints.hint)
        with pytest.raises(RuntimeError, match="started already"):
            wake.start(hints.hint)
        assert hints.next()
        began = time.monotonic()
        wake.close()
        assert time.monotonic() - began < 1.0
        wake.close()
        assert threading.active_count() == threads
    assert len(closed) == 2
    assert descriptors() == files


@pytest.mark.usefixtures("by_events_alone")
@pytest.mark.parametrize("inotify", WAYS)
def test_closing_does_not_wait_for_the_next_look(
    tmp_path: Path, start: Start, inotify: bool
) -> None:
    hints = start(tmp_path / "missing.db", inotify=inotify)
    assert not hints.next(0.1)
    began = time.monotonic()
    hints.wake.close()
    assert time.monotonic() - began < 1.0


def test_a_hint_may_close_its_own_wake(path: Path) -> None:
    wake = SqliteWake(path, lambda: Version(path).read)
    closed = threading.Event()
    threads = threading.active_count()

    def close() -> None:
        wake.close()
        closed.set()

    wake.start(close)
    assert closed.wait(SOON)
    wait_until(lambda: threading.active_count() == threads)


def test_a_hint_that_fails_does_not_end_the_watch(
    path: Path,
    start: Start,
    committers: Callable[[Path], Committer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise RuntimeError("the loop is closed")

    wake = SqliteWake(path, lambda: Version(path).read)
    other = committers(path)
    wake.start(fail)
    try:
        wait_until(lambda: len(calls) == 1)
        other.commit()
        wait_until(lambda: len(calls) == 2)
    finally:
        wake.close()
    assert "the loop is closed" in caplog.text


def test_a_connection_that_fails_is_opened_again(
    path: Path,
    start: Start,
    committers: Callable[[Path], Committer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite_wake, "RECONNECT", 0.01)
    monkeypatch.setattr(sqlite_wake, "IDLE", 0.05)
    tries = count(1)
    opened: list[Version] = []
    broken = threading.Event()

    class Breakable(Version):
        def read(self) -> int:
            if broken.is_set() and self is opened[0]:
                raise sqlite3.OperationalError("disk I/O error")
            return super().read()

    def connect() -> Callable[[], int]:
        if next(tries) == 1:
            raise sqlite3.OperationalError("database is locked")
        opened.append(version := Breakable(path))
        return version.read

    hints = start(path, connect=connect)
    assert len(opened) == 1
    broken.set()
    assert hints.next()
    assert len(opened) == 2
    committers(path).commit()
    assert hints.next()


@pytest.mark.skipif(not LINUX, reason="inotify is Linux's")
def test_where_inotify_is_deaf_it_is_given_up(
    path: Path, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite_wake, "IDLE", 0.02)
    caplog.set_level(logging.INFO, "benbi.wake")
    # Each look finds another version, and nobody writes the file: as on some shared folders.
    versions = count()
    hints = start(path, connect=lambda: lambda: next(versions))
    wait_until(lambda: "without inotify" in caplog.text)
    reached = len(hints.at)
    wait_until(lambda: len(hints.at) > reached + 3)


@pytest.mark.skipif(not LINUX, reason="inotify is Linux's")
def test_where_inotify_can_not_be_had_it_polls(
    path: Path,
    start: Start,
    committers: Callable[[Path], Committer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def at_the_limit() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    # The real limit is one for the whole machine.
    monkeypatch.setattr(sqlite_wake, "Inotify", at_the_limit)
    monkeypatch.setattr(sqlite_wake, "IDLE", 60.0)
    hints, other = start(path), committers(path)
    other.commit()
    assert hints.next()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_watches_by_itself_and_leaves_its_parent_alone(path: Path) -> None:
    code = """
import os, sqlite3, sys, threading, warnings
from benbi.wake.sqlite import SqliteWake
warnings.simplefilter("ignore", DeprecationWarning)  # it forks with a thread, which is the point
path = sys.argv[1]

reads = 0

def connect():
    connection = sqlite3.connect(path, isolation_level=None)
    def read():
        global reads
        reads += 1
        return connection.execute("PRAGMA data_version").fetchall()[0][0]
    return read

def say(words):
    os.write(1, (words + "\\n").encode())

def commit():
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("INSERT INTO t VALUES (1)")

told = threading.Event()
wake = SqliteWake(path, connect)
wake.start(told.set)
assert told.wait(5)
for close_first in (True, False):
    if os.fork() == 0:
        if close_first:
            wake.close()   # the parent's: nothing to do here
        told = threading.Event()
        wake.start(told.set)
        say(f"child: {told.wait(5)}")
        told.clear()
        commit()
        say(f"child, after a commit: {told.wait(5)}")
        wake.close()
        os._exit(0)
    os.wait()
told.clear()
commit()
say(f"parent, after its children have gone: {told.wait(5)}")
told.clear()
before = reads
say(f"parent, left alone: {told.wait(0.3)}")
say("parent, looking: " + ("calmly" if reads - before < 50 else str(reads - before)))
wake.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=30
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        *["child: True", "child, after a commit: True"] * 2,
        "parent, after its children have gone: True",
        "parent, left alone: False",
        "parent, looking: calmly",
    ]


@pytest.mark.parametrize("inotify", WAYS)
def test_an_open_wake_does_not_keep_the_interpreter_from_exiting(path: Path, inotify: bool) -> None:
    code = """
import sqlite3, sys, threading
from benbi.wake.sqlite import SqliteWake
from benbi.wake.poll import Poll
def connect():
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    return lambda: connection.execute("PRAGMA data_version").fetchall()[0][0]
told = threading.Event()
SqliteWake(sys.argv[1], connect, inotify=sys.argv[2] == "True").start(told.set)
Poll(60).start(told.set)
assert told.wait(5)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(inotify)],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_polling_hints_again_and_again_until_it_is_closed() -> None:
    wake = Poll(interval=0.01)
    hints = Hints(wake)
    threads = threading.active_count()
    wake.start(hints.hint)
    for _ in range(3):
        assert hints.next()
    wake.close()
    assert threading.active_count() == threads
    hints.next(0)
    assert not hints.next(0.05)
