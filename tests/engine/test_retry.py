"""Which errors are tried again, and when. Client libraries: test_retry_clients.py."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import ftplib
import http.client
import inspect
import json
import math
import multiprocessing
import smtplib
import socket
import sqlite3
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benbi import errors
from benbi.retry import LONGEST_RETRY_AFTER, Retry, Verdict, classify, delay

# -- The policy and its delays ------------------------------------------------------------------


def test_the_defaults() -> None:
    assert Retry() == Retry(
        attempts=3, first=1.0, factor=2.0, longest=3600.0, jitter=0.25, unknown=True
    )
    assert Retry(5).attempts == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 2.5},
        {"attempts": True},
        {"attempts": "3"},
        {"first": -0.1},
        {"first": math.nan},
        {"first": "1"},
        {"first": True},
        {"factor": 0.5},
        {"factor": math.inf},
        {"longest": math.inf},
        {"longest": -1},
        {"longest": 10**400},
        {"jitter": 1.01},
        {"jitter": -0.01},
        {"unknown": 0},
        {"unknown": None},
    ],
)
def test_a_wrong_policy_names_what_is_wrong(wrong: dict[str, Any]) -> None:
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match="must be") as told:
        Retry(**wrong)
    assert f"{name}={value!r}" in str(told.value)


def test_longest_may_not_be_less_than_first() -> None:
    with pytest.raises(ValueError, match="longest must not be less than first"):
        Retry(first=7200)
    assert Retry(first=7200, longest=7200).first == 7200


def test_delays_double_up_to_the_longest() -> None:
    policy = Retry(first=1, factor=2, longest=10, jitter=0)
    assert [delay(policy, failures, b"job") for failures in range(1, 7)] == [1, 2, 4, 8, 10, 10]


seconds = st.floats(min_value=0, max_value=1e6)
policies = st.builds(
    lambda first, more, factor, jitter: Retry(
        first=first, longest=first + more, factor=factor, jitter=jitter
    ),
    seconds,
    seconds,
    st.floats(min_value=1, max_value=1e300),
    st.floats(min_value=0, max_value=1),
)
counts = st.integers(min_value=0, max_value=10**12)


@given(policies, counts, st.binary(max_size=20))
def test_a_delay_stays_between_its_bounds(policy: Retry, failures: int, seed: bytes) -> None:
    unshaken = Retry(first=policy.first, longest=policy.longest, factor=policy.factor, jitter=0)
    full = delay(unshaken, failures, seed)
    got = delay(policy, failures, seed)
    assert min(policy.first, policy.longest) <= full <= policy.longest
    assert full * (1 - policy.jitter) * (1 - 1e-9) <= got <= full


@given(policies, counts, counts, st.binary(max_size=20))
def test_without_jitter_no_delay_is_shorter_than_the_one_before(
    policy: Retry, one: int, other: int, seed: bytes
) -> None:
    unshaken = Retry(first=policy.first, longest=policy.longest, factor=policy.factor, jitter=0)
    sooner, later = sorted([one, other])
    assert delay(unshaken, sooner, seed) <= delay(unshaken, later, seed)


@given(policies, counts, st.binary(max_size=20), st.floats(min_value=0))
def test_never_before_the_time_that_the_other_side_asked_for(
    policy: Retry, failures: int, seed: bytes, asked: float
) -> None:
    got = delay(policy, failures, seed, asked)
    floor = min(asked, LONGEST_RETRY_AFTER)
    assert floor <= got <= max(floor, policy.longest) + policy.longest * policy.jitter
    assert got >= delay(policy, failures, seed)


@given(policies, counts, st.binary(max_size=20))
def test_the_same_job_and_failure_give_the_same_delay(
    policy: Retry, failures: int, seed: bytes
) -> None:
    assert delay(policy, failures, seed) == delay(policy, failures, bytes(seed))
    for nonsense in (None, math.nan, -5.0):
        assert delay(policy, failures, seed, nonsense) == delay(policy, failures, seed)


def test_jitter_spreads_jobs_and_failures_apart() -> None:
    policy = Retry(first=100, factor=1, longest=100, jitter=0.5)
    jobs = [delay(policy, 1, b"job %d" % n) for n in range(200)]
    assert min(jobs) < 60
    assert max(jobs) > 90
    assert len(set(jobs)) == 200
    assert len({delay(policy, failures, b"one job") for failures in range(1, 50)}) == 49
    # A fleet that was told one time does not come back in one instant.
    assert len({delay(policy, 1, b"job %d" % n, 300.0) for n in range(200)}) == 200


def test_delays_are_the_same_in_every_process() -> None:
    """A hash that is salted per process would pass the property above."""
    assert delay(Retry(first=8, longest=8), 1, b"job") == pytest.approx(7.042896, abs=1e-6)


# -- Python's own errors ------------------------------------------------------------------------


class Mine(RuntimeError):
    """An error of somebody's own, which no rule knows."""


def os_error(name: str) -> OSError:
    return OSError(getattr(errno, name), "said the kernel")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        subprocess.TimeoutExpired("sleep", 1),
        ConnectionError(),
        ConnectionResetError(),
        BrokenPipeError(),
        http.client.RemoteDisconnected(),
        http.client.IncompleteRead(b"the begin"),
        asyncio.IncompleteReadError(b"the begin", 9),
        socket.gaierror(socket.EAI_NONAME, "no such host"),
        ssl.SSLError(1, "handshake"),
        ssl.SSLEOFError(8, "end of file"),
        smtplib.SMTPServerDisconnected(),
        smtplib.SMTPDataError(451, b"try later"),
        ftplib.error_temp("421"),
        *map(os_error, ["EAGAIN", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT"]),
        *map(os_error, ["EMFILE", "ENOSPC", "EBUSY", "EINTR", "ENOMEM"]),
    ],
    ids=repr,
)
def test_transient(error: BaseException) -> None:
    assert classify(error).kind == "transient"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("no such file"),
        PermissionError("not permitted"),
        IsADirectoryError(),
        *map(os_error, ["ENOENT", "EACCES", "EPERM", "EISDIR", "EEXIST", "EROFS", "ENAMETOOLONG"]),
        ssl.SSLCertVerificationError(1, "self-signed"),
        smtplib.SMTPAuthenticationError(535, b"no"),
        ftplib.error_perm("550"),
        http.client.InvalidURL(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        sqlite3.IntegrityError("UNIQUE constraint failed"),
        sqlite3.ProgrammingError("wrong thread"),
    ],
    ids=repr,
)
def test_permanent(error: BaseException) -> None:
    assert classify(error).kind == "permanent"


@pytest.mark.parametrize(
    "error",
    [
        TypeError(),
        NameError(),
        UnboundLocalError(),
        AttributeError(),
        ImportError(),
        ModuleNotFoundError(),
        NotImplementedError(),
        AssertionError(),
        SyntaxError(),
        IndentationError(),
        RecursionError(),
    ],
    ids=repr,
)
def test_bugs(error: BaseException) -> None:
    assert classify(error).kind == "bug"


@pytest.mark.parametrize(
    "error",
    [
        Exception(),
        RuntimeError(),
        Mine(),
        ValueError(),
        KeyError("k"),
        IndexError(),
        ZeroDivisionError(),
        StopAsyncIteration(),
        EOFError(),
        OSError("without an errno"),
        os_error("EIO"),
        MemoryError(),
        KeyboardInterrupt(),
        SystemExit(1),
        json.JSONDecodeError("Expecting value", "", 0),
        subprocess.CalledProcessError(1, "false"),
        sqlite3.OperationalError("no such table: gifts"),
        DeprecationWarning(),
    ],
    ids=repr,
)
def test_unknown(error: BaseException) -> None:
    assert classify(error).kind == "unknown"


def test_names_that_several_modules_give_to_their_own() -> None:
    assert classify(multiprocessing.TimeoutError()).kind == "transient"
    for canceled in (asyncio.CancelledError(), concurrent.futures.CancelledError()):
        assert classify(canceled).rule.endswith("canceled, but not by benbi")


def test_a_locked_database_is_transient(tmp_path: Path) -> None:
    one, other = (
        sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None) for _ in range(2)
    )
    try:
        one.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as told:
            other.execute("BEGIN IMMEDIATE")
    finally:
        one.close()
        other.close()
    assert classify(told.value) == Verdict("transient", "SQLite: locked or busy")
    # SQLITE_BUSY_SNAPSHOT and SQLITE_FULL: the low byte is what counts.
    for code in (517, 13):
        coded = sqlite3.OperationalError("said the database")
        coded.sqlite_errorcode = code
        assert classify(coded).kind == "transient"
    # As raised by a wrapper that keeps the message only.
    assert classify(sqlite3.OperationalError("database is locked")).kind == "transient"
    assert classify(sqlite3.OperationalError("no such column: unlocked")).kind == "unknown"


def test_a_subclass_inherits_the_rule_of_its_nearest_known_ancestor() -> None:
    class GoneAway(ConnectionResetError):
        pass

    class NoSuchGift(Mine, FileNotFoundError):
        pass

    assert classify(GoneAway()) == Verdict(
        "transient", "builtins.ConnectionError: the connection failed"
    )
    assert classify(NoSuchGift()).kind == "permanent"


# -- Errors of benbi itself -----------------------------------------------------------------------

OURS = {
    "BenbiError": "unknown",
    "ConfigurationError": "permanent",
    "MissingExtra": "permanent",
    "TaskDefinitionError": "bug",
    "Refused": "permanent",
    "UnknownTask": "permanent",
    "InvalidArguments": "permanent",
    "NotEncodable": "permanent",
    "PayloadTooLarge": "permanent",
    "ArtifactTooLarge": "permanent",
    "SecretUnreadable": "permanent",
    "ArtifactNotFound": "permanent",
    "IdempotencyConflict": "permanent",
    "JobNotFound": "permanent",
    "ScheduleNotFound": "permanent",
    "NotPermitted": "permanent",
    "AnswerRefused": "permanent",
    "JobEnded": "permanent",
    "JobFailed": "permanent",
    "JobCanceled": "permanent",
    "JobSkipped": "permanent",
    "ForTasks": "unknown",
    "Permanent": "permanent",
    "Transient": "transient",
    "Snooze": "transient",
    "Skip": "permanent",
    "ClaimLost": "transient",
    "ReplayError": "bug",
    "StepChanged": "bug",
    "StepNameRepeated": "bug",
    "UseWait": "bug",
    "StoreError": "unknown",
    "StoreBusy": "transient",
    "StoreFull": "transient",
    "StoreReadOnly": "unknown",
    "ForeignDatabase": "permanent",
    "SchemaTooNew": "unknown",
    "Suspend": "unknown",
    "Abandon": "unknown",
}


def test_every_error_of_ours_has_its_verdict() -> None:
    ours = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    assert ours.keys() == OURS.keys()
    for name, ours_class in ours.items():
        # What is judged is the class: the arguments differ from one to the next.
        error = ours_class.__new__(ours_class)
        error.retry_after = error.delay = None
        verdict = classify(error)
        assert verdict.kind == OURS[name], name
        assert verdict.rule.startswith(name)


def test_the_task_has_the_last_word() -> None:
    assert classify(errors.Transient("busy", retry_after=30)) == Verdict(
        "transient", "Transient: the task said so", 30.0
    )
    assert classify(errors.Snooze(12)).retry_after == 12.0
    assert classify(errors.Transient("busy", retry_after=math.nan)).retry_after is None
    assert classify(errors.Transient("busy", retry_after=-1)).retry_after is None

    class Closed(errors.Permanent, ConnectionError):
        status_code = 503

    assert classify(Closed()).kind == "permanent"
    error = errors.Permanent("no such account")
    error.__cause__ = TimeoutError()
    assert classify(error).kind == "permanent"


# -- HTTP by shape --------------------------------------------------------------------------------


class Shaped(Exception):
    """An error of a client library that nobody has heard of."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("refused")
        vars(self).update(attributes)


class Answer:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


SHAPES: dict[str, Callable[[int], BaseException]] = {
    "status_code": lambda status: Shaped(status_code=status),
    "http_status": lambda status: Shaped(http_status=status),
    "status and headers": lambda status: Shaped(status=status, headers={}),
    "response.status_code": lambda status: Shaped(response=Answer(status_code=status)),
    "response.status": lambda status: Shaped(response=Answer(status=status)),
    "resp.status": lambda status: Shaped(resp=Answer(status=status)),
    "two": lambda status: Shaped(status_code=200, response=Answer(status_code=status)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (304, "permanent"),
        (400, "permanent"),
        (401, "permanent"),
        (404, "permanent"),
        (408, "transient"),
        (409, "permanent"),
        (425, "transient"),
        (429, "transient"),
        (500, "transient"),
        (501, "permanent"),
        (504, "transient"),
        (505, "permanent"),
        (529, "transient"),
        (200, "unknown"),
        (600, "unknown"),
    ],
)
def test_a_status_is_found_in_any_shape(shape: str, status: int, kind: str) -> None:
    assert classify(SHAPES[shape](status)).kind == kind


@pytest.mark.parametrize(
    "attributes",
    [
        {"status": 404},  # of an order, perhaps
        {"code": 404},
        {"status_code": "404"},
        {"status_code": True},
        {"headers": {"Retry-After": "5"}},
    ],
)
def test_what_is_no_http_status(attributes: dict[str, Any]) -> None:
    assert classify(Shaped(**attributes)).kind == "unknown"


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 7 "}, 7.0),
        ({"Retry-After": 7}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 -0000",
                "Date": "Wed, 21 Oct 2026 09:28:00 +0200",
            },
            30.0,
        ),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:00:00 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            0.0,
        ),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "today"}, None),
        ({"Retry-After": "-7"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "1e3"}, None),
        ({"Retry-After": "٣"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({"Retry-After": None}, None),
        ({}, None),
        (None, None),
        ("Retry-After: 7", None),
    ],
)
def test_retry_after(headers: Any, wait: float | None) -> None:
    verdict = classify(Shaped(status_code=429, headers=headers))
    assert verdict == Verdict("transient", "HTTP 429: may pass", wait)


def test_a_refusal_that_names_a_time_is_transient() -> None:
    later = {"Retry-After": "60"}
    assert classify(Shaped(status_code=403, headers=later)) == Verdict(
        "transient", "HTTP 403 with Retry-After: may pass", 60.0
    )
    assert classify(Shaped(status_code=501, headers=later)).kind == "permanent"


# -- Causes and groups ----------------------------------------------------------------------------


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("cause", "kind", "wait"),
    [
        (TimeoutError(), "transient", None),
        (Shaped(status_code=429, headers={"Retry-After": "9"}), "transient", 9.0),
        (FileNotFoundError(), "permanent", None),
        (caused(ValueError(), ConnectionError()), "transient", None),
        (KeyError(), "unknown", None),
        # Whoever wrote "from" had met the error and handled it.
        (AttributeError(), "unknown", None),
    ],
)
def test_an_unknown_error_takes_the_kind_of_its_cause(
    cause: BaseException, kind: str, wait: float | None
) -> None:
    verdict = classify(caused(Mine("no gifts"), cause))
    assert (verdict.kind, verdict.retry_after) == (kind, wait)
    if kind != "unknown":
        assert " from " in verdict.rule


def test_a_context_is_no_cause() -> None:
    error = Mine()
    error.__context__ = TimeoutError()
    assert classify(error).kind == "unknown"
    assert classify(caused(TimeoutError(), FileNotFoundError())).kind == "transient"
    assert classify(caused(FileNotFoundError(), TimeoutError())).kind == "permanent"


def test_causes_in_a_circle_or_in_a_long_row_come_to_an_end() -> None:
    one, other = Mine(), Mine()
    caused(one, other)
    caused(other, one)
    assert classify(one).kind == "unknown"
    assert classify(caused(group := ExceptionGroup("", [Mine()]), group)).kind == "unknown"
    # Three ways back from each member: 3^20 looks, were each error looked at more than once.
    members = [Mine(), Mine(), Mine()]
    circle = ExceptionGroup("", members)
    for member in members:
        caused(member, circle)
    assert classify(circle).kind == "unknown"
    last: BaseException = TimeoutError()
    for _ in range(5000):
        last = caused(Mine(), last)
    assert classify(last).kind == "unknown"
    nested: BaseException = TimeoutError()
    for _ in range(5000):
        nested = BaseExceptionGroup("", [nested])
    assert classify(nested).kind == "unknown"


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ([TimeoutError()], "transient"),
        ([TimeoutError(), Mine()], "unknown"),
        ([TimeoutError(), Mine(), FileNotFoundError()], "permanent"),
        ([TypeError(), FileNotFoundError(), Mine(), TimeoutError()], "bug"),
        ([TimeoutError(), ExceptionGroup("inner", [TypeError()])], "bug"),
        ([TimeoutError(), asyncio.CancelledError()], "unknown"),
    ],
)
def test_a_group_is_as_bad_as_its_worst_member(members: list[BaseException], kind: str) -> None:
    verdict = classify(BaseExceptionGroup("together", members))
    assert verdict.kind == kind
    assert verdict.rule.startswith(f"the worst of {len(members)}: ")


def test_a_group_waits_for_the_latest_of_its_members() -> None:
    group = [errors.Transient(retry_after=5), errors.Transient(retry_after=50), TimeoutError()]
    assert classify(ExceptionGroup("together", group)).retry_after == 50.0
    assert classify(ExceptionGroup("together", [*group, TypeError()])).retry_after is None


def test_a_task_group_is_judged_by_what_went_wrong_in_it() -> None:
    async def fetch() -> None:
        raise TimeoutError

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fetch())
            tasks.create_task(fetch())

    with pytest.raises(ExceptionGroup) as told:
        asyncio.run(both())
    assert classify(told.value).kind == "transient"


# -- Whatever the error is like --------------------------------------------------------------------


class Hostile(Exception):
    """Every attribute that a rule may look at raises."""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or name == "args":
            return super().__getattribute__(name)
        raise RuntimeError("do not look")

    def __str__(self) -> str:
        raise RuntimeError("do not print")


def test_an_error_that_can_not_be_read_is_unknown() -> None:
    assert classify(Hostile()).kind == "unknown"
    assert classify(Shaped(response=Hostile(), headers=Hostile(), resp=Hostile())).kind == "unknown"
    grpc = type("RpcError", (Exception,), {"__module__": "grpc", "code": lambda self: 1 / 0})
    assert classify(grpc()).kind == "unknown"


def test_a_rule_never_quotes_the_message() -> None:
    secret = "sk-very-secret"
    wrapped = caused(Mine(secret), ConnectionError(secret))
    group = ExceptionGroup(secret, [TypeError(secret), ValueError(secret)])
    refused = Shaped(status_code=401, body=secret, headers={"Retry-After": secret})
    for error in (wrapped, group, refused, OSError(errno.EPERM, secret), errors.Permanent(secret)):
        assert secret not in classify(error).rule
