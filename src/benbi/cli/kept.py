"""``benbi jobs artifacts | save | logs``: what jobs keep beside their record."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO, Final

from cyclopts import Parameter

from benbi.cli import documents, exits
from benbi.cli.options import AT_LEAST_ONE, DEFAULT, FLAG, Common, opened
from benbi.errors import Refused
from benbi.job import Artifact, LogLine

JobId = Annotated[str, Parameter(help="The id of the job.")]

_CHUNK: Final = 1024 * 1024


def artifacts(job_id: JobId, /, *, common: Common = DEFAULT) -> None:
    """List the files that a job saved: size, SHA-256 and name."""

    async def read() -> list[Artifact]:
        async with opened(common) as benbi:
            return await benbi.artifacts(job_id)

    found = asyncio.run(read())
    if common.as_json:
        documents.write({"artifacts": [asdict(artifact) for artifact in found]})
        return
    if not found:
        print("no artifacts")
    room = max((len(f"{artifact.size:,}") for artifact in found), default=0)
    for artifact in found:
        line = f"{artifact.size:>{room},}  {artifact.sha256}  {artifact.name}"
        print(exits.visible(line))


def save(
    job_id: JobId,
    name: Annotated[str, Parameter(help="The name of the artifact.")],
    path: Annotated[
        Path | None, Parameter(help="Where to; default: its name, in the working directory.")
    ] = None,
    /,
    *,
    force: Annotated[bool, FLAG, Parameter(help="Write over a file that is there.")] = False,
    common: Common = DEFAULT,
) -> None:
    """Save one of a job's files here."""

    async def act() -> tuple[Artifact, Path]:
        async with opened(common) as benbi:
            artifact, source = await benbi.artifact_path(job_id, name)
            target = path or Path(artifact.name)
            if target.is_dir():
                target = target / artifact.name
            # While the database is open: retention may remove the file from another process.
            _copied(artifact, source, target, force=force)
            return artifact, target

    artifact, target = asyncio.run(act())
    if common.as_json:
        documents.write({**asdict(artifact), "path": str(target)})
        return
    print(exits.visible(f"{target}  {artifact.size:,} bytes"))


def _copied(artifact: Artifact, source: Path, target: Path, *, force: bool) -> None:
    """Copies the file whole, or leaves nothing. Raises Refused."""
    part = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        if target.exists() and not force:
            raise Refused(f"{target} is there already; give another path, or --force")
        with source.open("rb") as content, part.open("xb") as file:
            digest = _copy(content, file)
        if digest != artifact.sha256:
            raise Refused(f"the stored file of {artifact.name!r} was changed: its SHA-256 differs")
        part.replace(target)
    except OSError as error:
        raise Refused(f"{error.filename or target}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def _copy(content: BinaryIO, file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := content.read(_CHUNK):
        digest.update(chunk)
        file.write(chunk)
    return digest.hexdigest()


def logs(
    job_id: JobId,
    /,
    *,
    attempt: Annotated[
        int | None,
        Parameter(validator=AT_LEAST_ONE, help="Of this attempt; default: the newest that logged."),
    ] = None,
    follow: Annotated[bool, FLAG, Parameter(help="Go on while the job runs.")] = False,
    common: Common = DEFAULT,
) -> None:
    """Show what a job logged: the last 64 KiB of an attempt."""

    async def act() -> int:
        async with opened(common) as benbi:
            if follow:
                count = 0
                async for line in benbi.follow_logs(job_id, attempt=attempt):
                    _show(line, common)
                    count += 1
                return count
            found = await benbi.logs(job_id, attempt=attempt)
            for line in found:
                _show(line, common)
            return len(found)

    if not asyncio.run(act()):
        exits.tell("nothing was logged")


def _show(line: LogLine, common: Common) -> None:
    if common.as_json:
        documents.write(asdict(line))
        return
    from benbi.cli import words

    text = f"{words.clock(line.at)} {line.level} {line.logger}: {line.message}"
    print(exits.visible(text), flush=True)
