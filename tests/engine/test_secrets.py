"""A planted secret is nowhere: not in the database, its log, errors, events or what is logged."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from benbi import (
    Benbi,
    ConfigurationError,
    Context,
    IdempotencyConflict,
    InvalidArguments,
    JobFailed,
    Retry,
    Secret,
    Snooze,
    SyncContext,
    TaskDefinitionError,
    Transient,
)
from benbi.errors import MissingExtra
from benbi.fingerprint import arguments_hash, fingerprint
from benbi.secret import SEALED, masked
from benbi.store.database import Transaction
from tests.support import wait_until_async
from tests.support.working import state_reached, working

PLANTED = 'pl4nted-"é\\secret'
Token = Annotated[str, Secret]
KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(3)]
SOON = Retry(attempts=2, first=0.01, jitter=0)

log = logging.getLogger("test.secrets")


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENBI_KEY", KEYS[0])


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    async with Benbi(str(tmp_path / "jobs.db")) as app:
        yield app


def assert_nowhere(folder: Path, *texts: str) -> None:
    """Neither the planted secret nor the telling part of it, in whichever form."""
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert stored.startswith(b"SQLite format 3") or b"SQLite format 3" in stored
    for telling in ("pl4nted", base64.b64encode(PLANTED.encode()).decode()[:8]):
        assert telling.encode() not in stored
        assert all(telling not in text for text in texts)


@dataclass
class Account:
    name: str
    token: Token


class Bank(BaseModel):
    accounts: list[Account]
    note: Token | None = None


async def test_a_job_that_ends_well_tells_nothing(
    app: Benbi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Any] = []

    def use(token: str, pin: str) -> int:
        log.warning("in a step with %s", token)
        return len(token)

    @app.task(retry=SOON)
    async def charge(ctx: Context, token: Token, bank: Bank, plain: str) -> int:
        seen.append((token, bank))
        log.warning("token %s, bank %r", token, bank)
        ctx.log.warning(f"token {token!r} {json.dumps(token)}")
        await ctx.progress(1, 2, f"with {token}")
        if ctx.attempt == 1:
            raise Transient(f"no {token}")
        return await ctx.step(use)(token, "1234")

    bank = Bank(accounts=[Account("a", PLANTED)], note=PLANTED)
    async with working(app):
        job = await charge.options(key="k").enqueue(PLANTED, bank, plain="shown")
        assert await job.result(10) == len(PLANTED)
    assert seen == [(PLANTED, bank)] * 2
    shown = await app.arguments_json(job.id)
    assert json.loads(shown) == {"token": "***", "bank": "***", "plain": "shown"}
    lines = [line.message for line in await app.logs(job.id)]
    assert "in a step with ***" in lines and "token '***' \"***\"" in lines
    assert_nowhere(tmp_path, caplog.text, str(await app.events(job.id)), str(lines))


@pytest.mark.parametrize("plain", [True, False])
async def test_a_job_that_fails_tells_nothing(
    app: Benbi, tmp_path: Path, caplog: pytest.LogCaptureFixture, plain: bool
) -> None:
    """Where the message would be cut in the middle of it, too."""

    async def step(token: str) -> None:
        raise ConnectionError("x" * 3990 + token)

    if plain:

        @app.task(name="charge", retry=1)
        def charge(ctx: SyncContext, token: Token) -> None:
            try:
                raise KeyError(token)
            except KeyError:
                log.exception("a traceback")
                raise ValueError("y" * 3992 + token) from None
    else:

        @app.task(name="charge", retry=1)
        async def charge(ctx: Context, token: Token) -> None:
            await ctx.step(step)(token)

    async with working(app):
        job = await charge.enqueue(PLANTED)
        with pytest.raises(JobFailed) as failed:
            await job.result(10)
    error = failed.value.job.error
    assert error is not None and "***" in error.traceback
    events = await app.events(job.id)
    assert_nowhere(tmp_path, caplog.text, str(error), str(events), str(failed.value))


async def test_names_and_keys_tell_nothing(
    app: Benbi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of steps, questions, loggers and classes; a second attempt still knows what it recorded."""
    calls: list[str] = []
    keys: list[str] = []

    def use(token: str) -> None:
        calls.append(token)

    @app.task(retry=SOON)
    async def charge(ctx: Context, token: Token) -> None:
        async def keyed() -> None:
            keys.append(ctx.key)

        await ctx.step(use, key=token)(token)
        await ctx.step(use, key=f"for {token}")(token)
        await ctx.step(use, name=f"use {token}")(token)
        await ctx.step(keyed, key=token)()
        await ctx.ask("Go on?", bool, key=f"question {token}")
        logging.getLogger(f"bank.{token}").warning("logged")
        if ctx.attempt == 1:
            raise type(f"No{token}", (Transient,), {})("once")

        async def failing() -> None:
            raise type(f"Bad{token}", (Unreadable,), {})

        await ctx.step(failing)()

    async with working(app):
        job = await charge.enqueue(PLANTED)
        await state_reached(app, job.id, "input_required")
        (question,) = (await job.get()).questions
        assert question.key.startswith("question ***-")
        await job.answer(True)
        with pytest.raises(JobFailed) as failed:
            await job.result(10)
    assert calls == [PLANTED] * 3 and len(keys) == 1
    error = failed.value.job.error
    assert error is not None and error.type == "Bad***"
    steps = [e.data for e in await app.events(job.id) if e.type == "step_completed"]
    assert [step["name"] for step in steps if step][2].startswith("use ***-")
    assert [line.logger for line in await app.logs(job.id)] == ["bank.***"]
    assert "bank.***" in [record.name for record in caplog.records]
    logged = [(record.name, record.getMessage()) for record in caplog.records]
    assert_nowhere(tmp_path, caplog.text, str(await app.events(job.id)), str(error), *keys)
    assert_nowhere(tmp_path, str(logged), str(question), str(failed.value))


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


async def test_keys_that_hold_a_secret_are_told_apart(app: Benbi) -> None:
    calls: list[int] = []

    @app.task
    async def charge(ctx: Context, one: Token, two: Token) -> None:
        for number, key in enumerate((one, two, one)):
            await ctx.step(calls.append, key=key)(number)

    async with working(app):
        with pytest.raises(JobFailed, match="recorded with other arguments"):
            await (await charge.enqueue("tok-a", "tok-b")).result(10)
    assert calls == [0, 1]


async def test_a_snooze_and_an_answer_tell_nothing(app: Benbi, tmp_path: Path) -> None:
    @app.task
    async def charge(ctx: Context, token: Token) -> None:
        if ctx.attempt == 1:
            raise Snooze(0.001, f"waits for {token}")

    async with working(app):
        job = await charge.enqueue(PLANTED)
        await job.result(10)
    assert_nowhere(tmp_path, str(await app.events(job.id)))


def talkative(value: str) -> str:
    if value.startswith("pl4nted"):
        raise ValueError(f"{value} is no token")
    return value


async def test_a_refusal_tells_nothing(app: Benbi, tmp_path: Path) -> None:
    @app.task
    async def charge(
        token: Annotated[str, AfterValidator(talkative), Secret], n: int = 0
    ) -> None: ...

    @app.task
    async def deep(bank: Bank) -> None: ...

    calls: list[Any] = [
        lambda: charge.enqueue(PLANTED),
        lambda: charge.enqueue({PLANTED: PLANTED}),
        lambda: charge.enqueue("x", n=PLANTED),
        lambda: charge.enqueue("x" + PLANTED + "\ud800"),
        lambda: app.enqueue("charge", {"token": PLANTED}),
        lambda: app.enqueue("deep", {"bank": {"accounts": [{PLANTED: 1}]}}),
        lambda: deep.enqueue({"accounts": PLANTED}),
    ]
    told: list[str] = []
    for call in calls:
        with pytest.raises(InvalidArguments) as refused:
            await call()
        told += [str(refused.value), repr(refused.value.problems)]
    assert_nowhere(tmp_path, *told, repr(deep.call(Bank(accounts=[Account("a", PLANTED)]))))


async def test_a_door_without_the_code_encrypts_as_well(app: Benbi, tmp_path: Path) -> None:
    @app.task
    async def charge(token: Token, bank: Bank | None = None) -> str:
        return token[:2]

    await app.publish()
    async with Benbi(str(tmp_path / "jobs.db")) as door:
        (entry,) = await door.catalogue()
        assert entry.arguments_schema["properties"]["token"]["writeOnly"] is True
        bank = {"accounts": [{"name": "a", "token": PLANTED}]}
        job = await door.enqueue("charge", {"token": PLANTED, "bank": bank})
        assert json.loads(await door.arguments_json(job.id)) == {"token": "***", "bank": "***"}
    async with working(app):
        assert await app.handle(job.id).result(10) == "pl"
    assert_nowhere(tmp_path)


async def test_the_same_call_is_known_though_it_is_encrypted_anew(app: Benbi) -> None:
    @app.task
    async def charge(token: Token) -> None: ...

    first = await charge.options(key="k").enqueue(PLANTED)
    assert (await charge.options(key="k").enqueue(PLANTED)).id == first.id
    with pytest.raises(IdempotencyConflict) as conflict:
        await charge.options(key="k").enqueue("another")
    assert "another" not in str(conflict.value)
    within = charge.options(same_call_within=60)
    assert (await within.enqueue("x")).id == (await within.enqueue("x")).id


async def test_a_short_secret_can_not_be_found_by_trying(app: Benbi, tmp_path: Path) -> None:
    """No hash of it is stored that whoever reads the database could compute."""
    prints: list[bytes] = []

    def use(pin: str) -> None: ...

    @app.task
    async def charge(ctx: Context, pin: Token) -> None:
        await ctx.step(use)(pin)
        prints.append(fingerprint(use.__qualname__, (pin,), {}))

    async with working(app):
        await (await charge.options(key="k").enqueue("1234")).result(10)

    def look(tx: Transaction) -> list[bytes]:
        cursor = tx._cursor  # type: ignore[attr-defined]
        found = cursor.execute(
            "SELECT fingerprint FROM benbi_steps UNION ALL SELECT arguments_hash FROM benbi_jobs"
        )
        return [value for (value,) in found.fetchall()]

    stored = await app.store.read(look)
    assert stored[0] == prints[0], "within the job it is the same on every attempt"
    assert fingerprint(use.__qualname__, ("1234",), {}) not in stored
    assert arguments_hash('{"pin":"1234"}') not in stored


async def test_keys_are_rotated(app: Benbi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new one in front: old jobs are read, and the same call stays the same."""

    @app.task
    async def charge(ctx: Context, token: Token) -> str:
        return token

    old = await charge.options(key="k").enqueue("first")
    monkeypatch.setenv("BENBI_KEY", f"{KEYS[1]}, {KEYS[0]}")
    assert (await charge.options(key="k").enqueue("first")).id == old.id
    new = await charge.enqueue("second")
    async with working(app):
        assert await old.result(10) == "first"
    again = await charge.enqueue("third")
    monkeypatch.setenv("BENBI_KEY", KEYS[1])
    async with working(app):
        assert (await new.result(10), await again.result(10)) == ("second", "third")


async def test_a_worker_with_another_key_fails_the_job_for_good(
    app: Benbi, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def charge(token: Token) -> None: ...

    job = await charge.enqueue(PLANTED)
    monkeypatch.setenv("BENBI_KEY", KEYS[2])
    async with working(app):
        with pytest.raises(JobFailed, match="a key that is not in BENBI_KEY of this worker"):
            await job.result(10)
        monkeypatch.setenv("BENBI_KEY", f"{KEYS[2]} {KEYS[0]}")
        await job.retry()
        await job.result(10)


async def test_a_worker_without_a_key_leaves_the_job_to_others_and_says_so(
    app: Benbi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def charge(token: Token) -> None: ...

    @app.task
    async def other() -> None: ...

    job = await charge.enqueue(PLANTED)
    monkeypatch.delenv("BENBI_KEY")
    async with working(app):
        await (await other.enqueue()).result(10)
    assert (await job.get()).state == "pending"
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "charge" in said and "BENBI_KEY" in said and "stay pending" in said


@pytest.mark.parametrize("wrong", ["short", "not base64 !", base64.b64encode(b"x" * 16).decode()])
async def test_a_wrong_key_is_refused_without_showing_it(
    app: Benbi, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    @app.task
    async def charge(token: Token) -> None: ...

    monkeypatch.setenv("BENBI_KEY", wrong)
    with pytest.raises(ConfigurationError, match="keys of 32 bytes in base64") as refused:
        await charge.enqueue(PLANTED)
    assert wrong not in str(refused.value)
    assert await app.jobs() == []


async def test_without_the_extra_the_refusal_names_it(
    app: Benbi, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def charge(token: Token) -> None: ...

    monkeypatch.setenv("BENBI_KEY", base64.b64encode(b"never compiled before, 32 bytes!").decode())
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    with pytest.raises(MissingExtra, match=r"benbi\[secrets\]"):
        await charge.enqueue(PLANTED)


def test_what_can_not_be_a_secret_is_refused_where_it_is_registered() -> None:
    app = Benbi(":memory:")

    def default(token: Token = "in the code") -> None: ...
    def number(token: Annotated[int, Secret]) -> None: ...
    def result() -> Token: ...
    def nested() -> Bank: ...

    for function, said in (
        (default, "its default would stand in the code"),
        (number, r"Annotated\[str, Secret\]"),
        (result, "only a task's arguments are encrypted"),
        (nested, "only a task's arguments are encrypted"),
    ):
        with pytest.raises(TaskDefinitionError, match=said):
            app.task(function)


async def test_a_schedule_takes_no_secret(app: Benbi) -> None:
    """It is stored as it is in the code, by each process alike."""

    @app.task
    async def charge(token: Token | None = None) -> None: ...

    with pytest.raises(TaskDefinitionError, match="token: secret") as refused:
        app.cron(every="1h")(charge.call(PLANTED))
    assert PLANTED not in str(refused.value)
    app.cron(every="1h")(charge)


async def test_a_secret_may_be_left_out(app: Benbi) -> None:
    """Then nothing is encrypted, and no key is needed."""

    @app.task
    async def charge(token: Token | None = None) -> bool:
        return token is None

    async with working(app):
        job = await charge.enqueue()
        assert await job.result(10)
    assert SEALED not in await app.arguments_json(job.id)
    assert "default" in charge.signature.arguments_schema["properties"]["token"]


async def test_jobs_side_by_side_hide_their_own_secrets_only(app: Benbi) -> None:
    @app.task
    async def say(ctx: Context, token: Token, word: str) -> None:
        await asyncio.sleep(0)
        await ctx.progress(1, 1, f"{token} {word}")

    async with working(app):
        jobs = [await say.enqueue(f"tok-{n}", f"tok-{1 - n}") for n in range(2)]
        for job in jobs:
            await job.result(10)
    for n, job in enumerate(jobs):
        told = await wait_until_async(lambda job=job: said(app, job.id))
        assert told == f"*** tok-{1 - n}"


async def said(app: Benbi, job_id: str) -> str:
    progress = (await app.get(job_id)).progress
    return progress.message if progress else ""


def test_other_arguments_are_shown_as_they_are_stored() -> None:
    assert masked('{"a": 1}') == '{"a": 1}'
    assert masked(json.dumps({"a": SEALED})) == '{"a":"$sealed"}'


async def test_a_job_that_was_stored_before_its_argument_became_secret(
    app: Benbi, tmp_path: Path
) -> None:
    app.task(name="charge")(_before)
    job = await app.enqueue("charge", {"token": "tok-old"})
    app.tasks.clear()
    app.task(name="charge", retry=1)(_after)
    async with working(app):
        await state_reached(app, job.id, "failed")
    error = (await job.get()).error
    assert error is not None and error.message == "no ***"


async def _before(token: str) -> None: ...


async def _after(token: Token) -> None:
    raise ValueError(f"no {token}")
