"""What doors and handles can ask of the files that jobs saved.

``owner``: None is an operator and sees every job; to anybody else a foreign job looks like a
missing one (JobNotFound).
"""

from __future__ import annotations

import asyncio
import unicodedata
from pathlib import Path
from typing import BinaryIO

from benbi.errors import ArtifactNotFound
from benbi.job import Artifact
from benbi.loops import refuse_in_loop
from benbi.store import artifacts
from benbi.store.store import Store


class ArtifactOperations:
    """The operations on artifacts."""

    @property
    def store(self) -> Store:
        raise NotImplementedError

    async def artifacts(self, job_id: str, *, owner: str | None = None) -> list[Artifact]:
        """What the job saved, oldest first. JobNotFound."""
        return await self.store.read(artifacts.artifacts, job_id, owner)

    def artifacts_sync(self, job_id: str, *, owner: str | None = None) -> list[Artifact]:
        refuse_in_loop("artifacts")
        return self.store.read_sync(artifacts.artifacts, job_id, owner)

    async def artifact_path(
        self, job_id: str, name: str, *, owner: str | None = None
    ) -> tuple[Artifact, Path]:
        """One artifact and where its content is: a file to read and not to change.

        JobNotFound; ArtifactNotFound, also where the file is not in the folder of this process.
        """
        found = await self.store.read(artifacts.artifact, job_id, _composed(name), owner)
        return found.artifact, await asyncio.to_thread(_path, self.store, found)

    def artifact_path_sync(
        self, job_id: str, name: str, *, owner: str | None = None
    ) -> tuple[Artifact, Path]:
        refuse_in_loop("artifact_path")
        found = self.store.read_sync(artifacts.artifact, job_id, _composed(name), owner)
        return found.artifact, _path(self.store, found)

    async def open_artifact(self, job_id: str, name: str, *, owner: str | None = None) -> BinaryIO:
        """The content, open for reading bytes; close it. Raises as ``artifact_path``."""
        _, path = await self.artifact_path(job_id, name, owner=owner)
        return await asyncio.to_thread(path.open, "rb")

    def open_artifact_sync(self, job_id: str, name: str, *, owner: str | None = None) -> BinaryIO:
        refuse_in_loop("open_artifact")
        return self.artifact_path_sync(job_id, name, owner=owner)[1].open("rb")


def _composed(name: str) -> str:
    """As ``ctx.save`` stored it."""
    return unicodedata.normalize("NFC", name)


def _path(store: Store, found: artifacts.Stored) -> Path:
    path = store.files.path_of(found.file)
    if path is None:
        raise ArtifactNotFound(
            f"the file of artifact {found.artifact.name!r} is not in the folder of this process; "
            "every process needs the same artifacts= or BENBI_ARTIFACTS"
        )
    return path
