"""Chapter 17. Code changes while jobs wait: names and arguments of old jobs stay good."""

from __future__ import annotations

from pathlib import Path

from benbi import Benbi


async def test_a_renamed_task_answers_to_its_old_name(tmp_path: Path) -> None:
    """``aliases=`` names what earlier versions of the code enqueued."""
    url = str(tmp_path / "jobs.db")
    async with Benbi(url) as yesterday:

        @yesterday.task
        async def send_mail(to: str) -> str:
            return f"mail for {to}"

        job_id = (await send_mail.enqueue("Mai")).id

    async with Benbi(url) as today:

        @today.task(aliases=["send_mail"])
        async def send_message(to: str) -> str:
            return f"message for {to}"

        async with today.working():
            assert await today.handle(job_id).result() == "message for Mai"


async def test_a_new_parameter_with_a_default_fits_old_jobs(tmp_path: Path) -> None:
    """What an old job does not say is left to the function's default."""
    url = str(tmp_path / "jobs.db")
    async with Benbi(url) as yesterday:

        @yesterday.task(name="greet")
        async def greet_plainly(name: str) -> str:
            return f"hello {name}"

        job_id = (await greet_plainly.enqueue("Mai")).id

    async with Benbi(url) as today:

        @today.task
        async def greet(name: str, language: str = "vi") -> str:
            return f"chào {name}" if language == "vi" else f"hello {name}"

        async with today.working():
            assert await today.handle(job_id).result() == "chào Mai"
