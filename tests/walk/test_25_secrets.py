"""Chapter 25. A token that a job needs is encrypted in the database and masked everywhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest

from benbi import Benbi, ConfigurationError, JobFailed, Permanent, Secret

KEY = "q6Yb0XJm1zqfV2v0w3Xj5H8m2sT4uVwXyZ0123456+8="
TOKEN = "sk-live-51H8m2sT4uVwXyZ"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``openssl rand -base64 32`` gives it, in the environment of every process."""
    monkeypatch.setenv("BENBI_KEY", KEY)


def stored_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("jobs.db*") if path.is_file())


@pytest.mark.usefixtures("key")
async def test_a_secret_is_encrypted_at_rest(app: Benbi, tmp_path: Path) -> None:
    """The task gets it as it is; the database and its log never have it."""

    @app.task
    async def charge(amount: int, token: Annotated[str, Secret]) -> int:
        return amount if token == TOKEN else 0

    async with app.working():
        job = await charge.enqueue(100, token=TOKEN)
        assert await job.result() == 100
    assert json.loads(await app.arguments_json(job.id))["token"] == "***"
    assert TOKEN.encode() not in stored_in(tmp_path)


@pytest.mark.usefixtures("key")
async def test_an_error_does_not_tell_it(app: Benbi) -> None:
    """Not even where the task's own message holds it."""

    @app.task
    async def charge(token: Annotated[str, Secret]) -> None:
        raise Permanent(f"the bank does not know {token}")

    async with app.working():
        job = await charge.enqueue(TOKEN)
        with pytest.raises(JobFailed, match=r"the bank does not know \*\*\*"):
            await job.result()


async def test_without_a_key_nothing_is_stored(app: Benbi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal says what to do."""
    monkeypatch.delenv("BENBI_KEY", raising=False)

    @app.task
    async def charge(token: Annotated[str, Secret]) -> None: ...

    with pytest.raises(ConfigurationError, match="set BENBI_KEY in every process"):
        await charge.enqueue(TOKEN)
    assert await app.jobs() == []
