"""``ctx.save``: a file is written, then recorded under the claim's fence; on replay it is known.

A name is saved once in a job: an ``Artifact`` means one content for good. What an earlier attempt
recorded under the name is returned without reading or writing anything.
"""

from __future__ import annotations

import asyncio
import unicodedata
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benbi.codec import codec_for
from benbi.engine.uses import Identity
from benbi.errors import Abandon, ClaimLost, Refused, StepNameRepeated
from benbi.job import Artifact
from benbi.store.artifacts import prefix
from benbi.store.files import Content, Pending
from benbi.store.lifecycle import StepRecord, Told, as_json

if TYPE_CHECKING:
    from benbi.engine.attempt import Attempt
    from benbi.engine.threads import Threads

LONGEST_NAME: Final = 255  # bytes of UTF-8, as file systems have it
_FORBIDDEN: Final = frozenset("/\\")
_FORBIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


class Use(NamedTuple):
    """One use of ``save`` that has nothing recorded."""

    name: str
    identity: Identity


def checked_name(name: object) -> str:
    """The name, composed (NFC). Refused where it is no plain name of a file."""
    if not isinstance(name, str):
        raise Refused(f"an artifact's name is text, not {type(name).__name__}")
    composed = unicodedata.normalize("NFC", name)
    plain = composed.strip(" .") and not any(
        character in _FORBIDDEN or unicodedata.category(character) in _FORBIDDEN_CATEGORIES
        for character in composed
    )
    if not plain or len(composed.encode(errors="replace")) > LONGEST_NAME:
        raise Refused(
            f"artifact name {name[:80]!r}: the plain name of a file, at most {LONGEST_NAME} bytes, "
            "without / \\ and control characters"
        )
    return composed


def open_save(attempt: Attempt, name: str) -> Use | Artifact:
    """Enters a save: what was recorded, or what is to be written now. Refused where another
    use of this attempt has the name."""
    attempt.check()
    name = checked_name(name)
    try:
        identity = attempt.uses.enter("save", name, None)
    except StepNameRepeated:
        raise _taken(name) from None
    try:
        if not attempt.uses.take_name(name, identity):
            raise _taken(name)
        found = _recorded(attempt, name, identity)
    except BaseException:
        attempt.uses.leave(identity)
        raise
    if found is None:
        return Use(name, identity)
    attempt.uses.leave(identity)
    return codec_for(Artifact).decode(found)


def _recorded(attempt: Attempt, name: str, identity: Identity) -> str | None:
    own = attempt.uses.recorded(identity)
    if own is not None:
        return own.result
    # By its name alone: code that changed may save it at another place.
    for (kind, recorded, _), step in attempt.recorded.steps.items():
        if kind == "save" and recorded == name:
            return step.result
    return None


def _taken(name: str) -> Refused:
    return Refused(
        f"this job saved an artifact {name!r} already, and a name means one content for good; "
        "number them, such as 'page-2.png'"
    )


def written(attempt: Attempt, use: Use, content: Content) -> Pending:
    """The file, on disk and not yet visible. In a thread: it blocks."""
    store = attempt.store
    return store.files.save(store.read_sync(prefix), use.name, content, attempt.check)


def record(use: Use, pending: Pending) -> tuple[Artifact, dict[str, Any]]:
    """The artifact, and what to write of it."""
    artifact = Artifact(use.name, pending.size, pending.sha256)
    text = codec_for(Artifact).encode(artifact)
    kind, name, place = use.identity
    step = StepRecord(kind, name, place, b"", "completed", 1, text, None)
    values = {
        "name": name,
        "size": pending.size,
        "sha256": pending.sha256,
        "file": pending.file,
    }
    told = Told("artifact_saved", None, as_json({"name": name, "size": pending.size}))
    return artifact, {"events": [told], "steps": [step], "also": [("artifact", values)]}


def left(attempt: Attempt, use: Use, pending: Pending | None, error: BaseException | None) -> None:
    """The save is over. A file that was refused goes; one whose record is in doubt stays, and
    is swept where it was not recorded."""
    attempt.uses.leave(use.identity)
    if error is not None:
        attempt.uses.give_name_back(use.name)
    if pending is not None:
        if isinstance(error, ClaimLost | Abandon):
            pending.discard()
        pending.close()


class Saving:
    """The part of ``Context`` that saves."""

    _attempt: Attempt
    _threads: Threads

    async def save(self, name: str, content: Content) -> Artifact:
        """Keeps a file with the job: bytes, the path of a file, or one open for reading bytes.

        Returns once it is durable; files of any size are copied in chunks. ``name`` is the plain
        name of a file and is saved once in a job; on replay what was recorded is returned and
        nothing is read. Removed with the job. Raises Refused for a name that is taken or is none,
        ArtifactTooLarge over ``max_artifact``, OSError.
        """
        self._note_branch()
        use = open_save(self._attempt, name)
        if isinstance(use, Artifact):
            return use
        # A task of its own: what is written is recorded, or removed, whoever is canceled.
        task = asyncio.ensure_future(self._save(use, content))
        self._attempt.steps_under_way.add(task)
        task.add_done_callback(self._step_ended)
        return await asyncio.shield(task)

    async def _save(self, use: Use, content: Content) -> Artifact:
        pending: Pending | None = None
        error: BaseException | None = None
        try:
            pending = await self._threads.run(written, self._attempt, use, content)
            assert pending is not None
            artifact, what = record(use, pending)
            await self._written(**what)
            return artifact
        except BaseException as raised:
            error = raised
            raise
        finally:
            left(self._attempt, use, pending, error)

    async def _written(self, **what: Any) -> Any:
        raise NotImplementedError

    def _note_branch(self) -> None:
        raise NotImplementedError

    def _step_ended(self, task: asyncio.Task[Any]) -> None:
        raise NotImplementedError


class SyncSaving:
    """The part of ``SyncContext`` that saves."""

    _attempt: Attempt

    def save(self, name: str, content: Content) -> Artifact:
        """Keeps a file with the job. As Context.save."""
        use = open_save(self._attempt, name)
        if isinstance(use, Artifact):
            return use
        pending: Pending | None = None
        error: BaseException | None = None
        try:
            pending = written(self._attempt, use, content)
            artifact, what = record(use, pending)
            self._written(**what)
            return artifact
        except BaseException as raised:
            error = raised
            raise
        finally:
            left(self._attempt, use, pending, error)

    def _written(self, **what: Any) -> Any:
        raise NotImplementedError
