"""Writers of one file take turns: fairly, bounded, and whatever happens to one of them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benbi.errors import StoreError, StoreReadOnly
from benbi.store import record_locks, turnstile
from benbi.store.turnstile import Turnstile, turnstile_for
from tests.support import wait_until

Child = subprocess.Popen[str]
Spawn = Callable[..., Child]

# Takes a turn for each line it reads, and holds it until the next line.
HOLDER = """
import sys
from benbi.store.turnstile import turnstile_for
for _ in sys.stdin:
    with turnstile_for(sys.argv[1]).turn():
        print("held", flush=True)
        sys.stdin.readline()
    print("given back", flush=True)
"""

WRITER = """
import sqlite3, sys, time
from benbi.store.turnstile import turnstile_for
path, rows, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
connection = sqlite3.connect(path, isolation_level=None, timeout=30)
connection.execute("PRAGMA synchronous = FULL")
connection.execute("PRAGMA wal_autocheckpoint = 0")
turnstile = turnstile_for(path)
print("ready", flush=True)
sys.stdin.readline()
commits, worst, end = 0, 0.0, time.monotonic() + seconds
while (asked := time.monotonic()) < end:
    with turnstile.turn():
        connection.execute("BEGIN IMMEDIATE")
        worst = max(worst, time.monotonic() - asked)
        connection.executemany("INSERT INTO t VALUES (?)", [("x" * 50,)] * rows)
        connection.execute("COMMIT")
    commits += 1
print(commits, worst, flush=True)
"""


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts Python code in a process of its own; what is left at the end is killed."""
    children: list[Child] = []

    def start(code: str, *arguments: object) -> Child:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        # With whatever it forked, which would keep the pipe open.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def tell(child: Child) -> None:
    assert child.stdin
    child.stdin.write("\n")
    child.stdin.flush()


def heard(child: Child) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def held_by(child: Child) -> None:
    tell(child)
    assert heard(child) == "held"


def free(turnstile: Turnstile) -> bool:
    try:
        with turnstile.turn(0):
            return True
    except TimeoutError:
        return False


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def shares(path: Path, spawn: Spawn, rows: list[int], seconds: float) -> list[tuple[int, float]]:
    """(commits, longest wait in seconds) of one writer process for each entry of ``rows``."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    writers = [spawn(WRITER, path, count, seconds) for count in rows]
    for writer in writers:
        assert heard(writer) == "ready"
    for writer in writers:
        tell(writer)
    answers = [heard(writer).split() for writer in writers]
    (stored,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    assert stored == sum(
        int(commits) * count for (commits, _), count in zip(answers, rows, strict=True)
    )
    return [(int(commits), float(worst)) for commits, worst in answers]


def test_eight_processes_get_even_shares(path: Path, spawn: Spawn) -> None:
    found = shares(path, spawn, [1] * 8, seconds=1.5)
    commits = [count for count, _ in found]
    assert min(commits) >= 0.5 * max(commits)
    assert max(worst for _, worst in found) <= 0.25


def test_a_hot_batch_writer_does_not_starve_the_others(path: Path, spawn: Spawn) -> None:
    *singles, hot = shares(path, spawn, [1, 1, 1, 500], seconds=1.0)
    assert max(worst for _, worst in singles) <= 0.25
    # The batch writer waits no longer than they do.
    assert 2 * min(count for count, _ in singles) >= hot[0]
    assert 2 * hot[0] >= max(count for count, _ in singles)


def test_a_process_that_comes_back_at_once_lets_the_waiting_one_through(
    path: Path, spawn: Spawn
) -> None:
    turns = path.with_name("turns")
    turns.write_bytes(bytes(8))
    hot = spawn(
        """
import mmap, sys, time
from benbi.store.turnstile import turnstile_for
gate, file = turnstile_for(sys.argv[1]), open(sys.argv[2], "r+b")
turns = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")
print("ready", flush=True)
while True:
    with gate.turn():
        turns[0] += 1
        until = time.perf_counter() + 1e-4
        while time.perf_counter() < until:
            pass
""",
        path,
        turns,
    )
    assert heard(hot) == "ready"
    gate = turnstile_for(path)
    overtaken: list[int] = []
    with turns.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
        for _ in range(50):
            before = int.from_bytes(shared[:8], sys.byteorder)
            with gate.turn():
                overtaken.append(int.from_bytes(shared[:8], sys.byteorder) - before)
    # One that had begun, one more where this process was slow to ask; not dozens.
    assert sorted(overtaken)[25] <= 3, overtaken


def test_a_thread_that_comes_back_at_once_lets_the_waiting_one_through(path: Path) -> None:
    gate = turnstile_for(path)
    about_to_ask, through = threading.Event(), threading.Event()
    hot_turns = 0

    def wait_for_a_turn() -> None:
        about_to_ask.set()
        with gate.turn():
            through.set()

    with gate.turn():
        waiting = in_thread(wait_for_a_turn)
        assert about_to_ask.wait(10)
        # Only the line itself knows that the other thread stands in it.
        wait_until(lambda: gate._line._waiting)
    while not through.is_set() and hot_turns < 10_000:
        with gate.turn():
            hot_turns += 1
    waiting.join(10)
    # It was handed over: none of the hot thread's turns came before.
    assert through.is_set()
    assert hot_turns <= 1


def test_threads_are_served_in_the_order_in_which_they_came(path: Path) -> None:
    gate = turnstile_for(path)
    served: list[int] = []

    def ask(number: int) -> None:
        with gate.turn():
            served.append(number)

    threads: list[threading.Thread] = []
    with gate.turn():
        for number in range(5):
            threads.append(in_thread(lambda number=number: ask(number)))
            wait_until(lambda number=number: len(gate._line._waiting) == number + 1)
    for thread in threads:
        thread.join(10)
    assert served == [0, 1, 2, 3, 4]


def test_only_one_thread_and_process_is_in_at_a_time(path: Path, spawn: Spawn) -> None:
    gate, holder = turnstile_for(path), spawn(HOLDER, path)
    with gate.turn():
        tell(holder)
        blocked: list[bool] = []
        other = in_thread(lambda: blocked.append(free(gate)))
        other.join(10)
        assert blocked == [False]
    assert heard(holder) == "held"
    assert not free(gate)
    tell(holder)
    assert heard(holder) == "given back"
    assert free(gate)


def test_a_killed_holder_gives_its_turn_back(path: Path, spawn: Spawn) -> None:
    holder = spawn(HOLDER, path)
    held_by(holder)
    took: list[float] = []

    def ask() -> None:
        with turnstile_for(path).turn():
            took.append(time.monotonic())

    waiting = in_thread(ask)
    killed = time.monotonic()
    holder.kill()
    waiting.join(10)
    assert took and took[0] - killed < 5


def test_a_late_turn_names_the_process_that_writes(path: Path, spawn: Spawn) -> None:
    holder, gate = spawn(HOLDER, path), turnstile_for(path)
    held_by(holder)
    # A stopped process holds its locks for as long as it is stopped.
    os.kill(holder.pid, signal.SIGSTOP)
    asked = time.monotonic()
    with pytest.raises(TimeoutError, match=f"0.1 s.*{holder.pid}"), gate.turn(0.1):
        pass
    assert 0.1 <= time.monotonic() - asked < 5
    # The kernel's wait goes on behind the scenes; whoever asks next is late as well, not stuck.
    with pytest.raises(TimeoutError), gate.turn(0.05):
        pass
    os.kill(holder.pid, signal.SIGCONT)
    tell(holder)
    with gate.turn(10):
        tell(holder)
        assert heard(holder) == "given back"


def test_a_wait_that_was_given_up_keeps_nobody_out(path: Path, spawn: Spawn) -> None:
    holder, gate = spawn(HOLDER, path), turnstile_for(path)
    held_by(holder)
    with pytest.raises(TimeoutError), gate.turn(0.02):
        pass
    tell(holder)
    assert heard(holder) == "given back"
    # The wait came to its end after all, and what it brought was given back at once.
    held_by(holder)
    tell(holder)
    assert heard(holder) == "given back"
    wait_until(lambda: free(gate))


def test_a_thread_that_gave_up_is_not_called(path: Path) -> None:
    gate = turnstile_for(path)
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            with gate.turn(0.02):
                pass
        except TimeoutError as error:
            errors.append(error)

    with gate.turn():
        thread = in_thread(ask)
        thread.join(10)
    assert "other threads of this process" in str(errors[0])
    assert free(gate)


def test_a_timed_turn_is_granted_when_the_holder_leaves(path: Path, spawn: Spawn) -> None:
    holder, gate = spawn(HOLDER, path), turnstile_for(path)
    for _ in range(3):
        held_by(holder)
        took = threading.Event()

        def ask(took: threading.Event = took) -> None:
            with gate.turn(30):
                took.set()

        waiting = in_thread(ask)
        assert not took.is_set()
        tell(holder)
        assert heard(holder) == "given back"
        assert took.wait(10)
        waiting.join(10)
    assert free(gate)


def test_turns_of_one_thread_do_not_nest(path: Path) -> None:
    gate = turnstile_for(path)
    with gate.turn(), pytest.raises(RuntimeError, match="do not nest"), gate.turn():
        pass
    assert free(gate)


def test_an_exception_in_the_block_gives_the_turn_back(path: Path) -> None:
    gate = turnstile_for(path)
    with pytest.raises(ZeroDivisionError), gate.turn():
        raise ZeroDivisionError
    assert free(gate)


def test_what_the_kernel_takes_for_a_deadlock_is_waited_out(path: Path, spawn: Spawn) -> None:
    """Two processes, two files: each holds one in one thread and waits for the other in another."""
    crossed = spawn(
        """
import sys, threading
from benbi.store.turnstile import turnstile_for
first, second = map(turnstile_for, sys.argv[1:])
def ask():
    print("asking", flush=True)
    with second.turn():
        print("through", flush=True)
with first.turn():
    print("held", flush=True)
    sys.stdin.readline()
    asking = threading.Thread(target=ask)
    asking.start()
    sys.stdin.readline()
print("given back", flush=True)
asking.join()
""",
        path,
        other := path.with_name("other.db"),
    )
    assert heard(crossed) == "held"
    refused: list[Exception] = []
    through = threading.Event()

    def ask() -> None:
        try:
            with turnstile_for(path).turn():
                through.set()
        except Exception as error:
            refused.append(error)

    with turnstile_for(other).turn():
        tell(crossed)
        assert heard(crossed) == "asking"
        waiting = in_thread(ask)
        waiting.join(0.2)
        assert not refused and not through.is_set()
    assert heard(crossed) == "through"
    tell(crossed)
    assert heard(crossed) == "given back"
    assert through.wait(10)
    assert crossed.wait(10) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_holds_nothing_and_takes_turns_of_its_own(path: Path, spawn: Spawn) -> None:
    code = """
import os, sys
from benbi.store.turnstile import turnstile_for
gate = turnstile_for(sys.argv[1])
ours, theirs = os.pipe(), os.pipe()
def say(words):
    os.write(1, (words + "\\n").encode())
def free():
    try:
        with turnstile_for(sys.argv[1]).turn(0):
            return True
    except TimeoutError:
        return False
with gate.turn():
    # As if another thread were just about to queue up: in the child it never goes on.
    gate._line._mutex.acquire()
    pid = os.fork()
    if pid:
        gate._line._mutex.release()
        os.read(theirs[0], 1)
    else:
        say(f"inside: {free()}")
if pid:
    os.read(theirs[0], 1)
    say(f"parent, while the child holds: {free()}")
    os.write(ours[1], b"x")
    os.waitpid(pid, 0)
    say(f"parent, after the child: {free()}")
else:
    # It left a block that its parent entered, which must not give anything back.
    say(f"outside: {free()}")
    say(f"same: {turnstile_for(sys.argv[1]) is gate}")
    os.write(theirs[1], b"x")
    with gate.turn(10):
        os.write(theirs[1], b"x")
        os.read(ours[0], 1)
    os._exit(0)
"""
    child = spawn(code, path)
    assert [heard(child) for _ in range(5)] == [
        "inside: False",
        "outside: False",
        "same: True",
        "parent, while the child holds: False",
        "parent, after the child: True",
    ]
    assert child.wait(10) == 0


def test_there_is_one_turnstile_for_a_file_whatever_it_is_called(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = turnstile_for(path)
    link = path.with_name("link.db")
    link.symlink_to(path)
    monkeypatch.chdir(path.parent)
    assert turnstile_for(str(path)) is gate
    assert turnstile_for(link) is gate
    assert turnstile_for("jobs.db") is gate
    assert turnstile_for(path.with_name("other.db")) is not gate
    # As a bind mount shows it: another name, the same lock file.
    os.link(f"{path}-lock", path.with_name("mounted.db-lock"))
    assert turnstile_for(path.with_name("mounted.db")) is gate


def test_threads_that_come_first_together_get_one_turnstile(path: Path) -> None:
    start = threading.Barrier(8)
    found: list[Turnstile] = []

    def ask() -> None:
        start.wait(10)
        found.append(turnstile_for(path))

    for thread in [in_thread(ask) for _ in range(8)]:
        thread.join(10)
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_a_lock_file_that_was_removed_is_made_again(
    path: Path, spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_locks, "LOOK_AGAIN_SECONDS", 0.0)
    gate = turnstile_for(path)
    with gate.turn():
        os.unlink(f"{path}-lock")
    holder = spawn(HOLDER, path)
    held_by(holder)
    assert not free(gate)


@pytest.mark.parametrize("mode", [0o600, 0o660])
def test_the_lock_file_has_the_rights_of_the_database(path: Path, mode: int) -> None:
    path.touch()
    path.chmod(mode)
    turnstile_for(path)
    assert stat.S_IMODE(os.stat(f"{path}-lock").st_mode) == mode


def test_a_folder_that_can_not_be_written_is_told_with_path_and_remedy(spawn: Spawn) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        # Root may write everywhere, so it becomes somebody else.
        code = """
import os, sys
from benbi.errors import StoreReadOnly
from benbi.store.turnstile import turnstile_for
if os.geteuid() == 0:
    os.setuid(65534)
try:
    turnstile_for(sys.argv[1])
except StoreReadOnly as error:
    print(error, flush=True)
"""
        message = heard(spawn(code, f"{folder}/jobs.db"))
        os.chmod(folder, 0o755)
    assert f"{folder}/jobs.db-lock" in message
    assert "write access" in message


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"there is no directory .*missing") as told:
        turnstile_for(tmp_path / "missing" / "jobs.db")
    assert not isinstance(told.value, StoreReadOnly)


def test_a_file_system_without_record_locks_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = turnstile_for(path)

    def lockf(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    # Stands in for a file system that can not be had everywhere.
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "lockf", lockf)
        with pytest.raises(StoreError, match="local disk"), gate.turn():
            pass
    assert free(gate)


def test_without_record_locks_threads_take_turns_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile, "RECORD_LOCKS", False)
    gate = turnstile_for(path)
    with gate.turn():
        blocked: list[bool] = []
        in_thread(lambda: blocked.append(free(gate))).join(10)
        assert blocked == [False]
    assert free(gate)
    assert not path.with_name("jobs.db-lock").exists()


def test_a_turn_that_nobody_disputes_costs_microseconds(path: Path) -> None:
    gate = turnstile_for(path)

    def thousand() -> float:
        started = time.perf_counter()
        for _ in range(1000):
            with gate.turn():
                pass
        return time.perf_counter() - started

    # 5 µs on an idle machine; ten times as much would be felt beside a commit.
    assert min(thousand() for _ in range(10)) / 1000 <= 50e-6
