"""Chapter 23. What is too large for a result is saved as a file, and goes with its job."""

from __future__ import annotations

from pathlib import Path

import pytest

from benbi import Artifact, Benbi, Context, JobFailed, Retry, SyncContext, Transient

SOON = Retry(attempts=3, first=0.01)


async def test_a_file_is_saved_and_read(app: Benbi) -> None:
    """Bytes, or the path of a file; what comes back names its size and its SHA-256."""

    @app.task
    async def report(ctx: Context) -> Artifact:
        return await ctx.save("report.csv", b"name,price\nkite,9\n")

    async with app.working():
        job = await report.enqueue()
        artifact = await job.result()
    assert (artifact.name, artifact.size, len(artifact.sha256)) == ("report.csv", 18, 64)
    assert await app.artifacts(job.id) == [artifact]
    with await app.open_artifact(job.id, "report.csv") as file:
        assert file.read() == b"name,price\nkite,9\n"


async def test_a_plain_function_saves_as_well(app: Benbi, tmp_path: Path) -> None:
    """A path is copied: what happens to the file later is nothing to the artifact."""
    source = tmp_path / "page.png"
    source.write_bytes(b"pixels")

    @app.task
    def keep(ctx: SyncContext, path: str) -> Artifact:
        return ctx.save("page.png", path)

    async with app.working():
        job = await keep.enqueue(str(source))
        await job.result()
    source.write_bytes(b"other pixels")
    with await app.open_artifact(job.id, "page.png") as file:
        assert file.read() == b"pixels"


async def test_a_file_is_saved_once(app: Benbi) -> None:
    """On a later attempt ``save`` returns what was recorded, and writes nothing."""
    seen: list[Artifact] = []

    @app.task(retry=SOON)
    async def draw(ctx: Context) -> None:
        seen.append(await ctx.save("picture.svg", f"<svg>{ctx.attempt}</svg>".encode()))
        if ctx.attempt == 1:
            raise Transient("the printer is busy")

    async with app.working():
        job = await draw.enqueue()
        await job.result()
    assert seen[0] == seen[1]
    with await app.open_artifact(job.id, "picture.svg") as file:
        assert file.read() == b"<svg>1</svg>"


async def test_a_name_means_one_content(app: Benbi) -> None:
    """A second save under one name is refused: who holds an ``Artifact`` can rely on it."""

    @app.task
    async def draw(ctx: Context) -> None:
        await ctx.save("picture.svg", b"<svg/>")
        await ctx.save("picture.svg", b"<svg></svg>")

    async with app.working():
        job = await draw.enqueue()
        with pytest.raises(JobFailed, match="saved an artifact 'picture\\.svg' already"):
            await job.result()
