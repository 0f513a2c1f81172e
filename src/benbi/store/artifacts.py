"""Artifacts as the database sees them, and the sweep of files that it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from benbi.errors import ArtifactNotFound
from benbi.job import Artifact
from benbi.store import views
from benbi.store.database import Transaction
from benbi.store.lifecycle import as_json
from benbi.store.moves import STRETCH

if TYPE_CHECKING:
    from benbi.store.store import Store


class Stored(NamedTuple):
    """An artifact and the name of its file."""

    artifact: Artifact
    file: str


def artifacts(view: Transaction, job_id: str, owner: str | None) -> list[Artifact]:
    """What the job saved, in the order of their records."""
    return [stored.artifact for stored in _stored(view, job_id, owner)]


def artifact(view: Transaction, job_id: str, name: str, owner: str | None) -> Stored:
    """One of them. JobNotFound, ArtifactNotFound."""
    for stored in _stored(view, job_id, owner):
        if stored.artifact.name == name:
            return stored
    raise ArtifactNotFound(f"job {job_id} has no artifact {name!r}")


def _stored(view: Transaction, job_id: str, owner: str | None) -> list[Stored]:
    n = views.find(view, job_id, owner).n
    return [
        Stored(Artifact(name, size, sha256), file)
        for name, size, sha256, file in view.rows("artifacts_of", n=n)
    ]


def prefix(view: Transaction) -> str:
    """What the stored names of this database begin with."""
    ((found,),) = view.rows("artifact_prefix")
    return found


def recorded_among(view: Transaction, files: Sequence[str]) -> set[str]:
    """Those of the stored names that an artifact of a job records."""
    return {file for (file,) in view.rows("recorded_files", files=as_json(files))}


def sweep(store: Store, now: float | None = None) -> int:
    """Removes files that a crash left between their writing and their record; how many.

    Blocks. ``now``: seconds since the epoch; None: by the host's clock.
    """
    files = store.files
    if files.folder is None or not files.folder.is_dir():
        return 0
    found = files.settled(store.read_sync(prefix), now)
    removed = 0
    for start in range(0, len(found), STRETCH):
        stretch = found[start : start + STRETCH]
        known = store.read_sync(recorded_among, stretch)
        for file in stretch:
            if file not in known:
                removed += files.remove_orphan(file, lambda: _is_recorded(store, file))  # noqa: B023
    return removed


def _is_recorded(store: Store, file: str) -> bool:
    return bool(store.read_sync(recorded_among, [file]))
