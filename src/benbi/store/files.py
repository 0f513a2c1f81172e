"""The files of artifacts: written whole, under names of our own, in one folder.

A file is visible only through the row that records it. Until then whoever writes it holds its
lock, so that the sweep of what a crash left never takes a file from a save under way.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from benbi.errors import ArtifactTooLarge, Refused

try:
    import fcntl
except ImportError:  # Windows: a file that is open can not be removed there.
    fcntl = None

# Bytes, a path, or a file that is open for reading bytes.
Content = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO

CHUNK = 1024 * 1024
# Younger files are left alone: between the making of a file and its lock there is a moment.
SETTLED_SECONDS = 600.0
_PART = ".part"


class Pending:
    """A file that is written and not yet recorded. Closing it gives up its lock."""

    def __init__(self, path: Path, size: int, sha256: str, held: int | None) -> None:
        self.file = path.name
        self.size = size
        self.sha256 = sha256
        self._path = path
        self._held = held

    def close(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def discard(self) -> None:
        """Removes it: it will never be recorded."""
        self.close()
        self._path.unlink(missing_ok=True)


class Files:
    """One folder of files; it is made when the first is saved.

    ``folder`` None: a temporary one, removed at ``close``. ``limit``: bytes of one file; None:
    as many as there are. ``like``: the file whose rights the others get.
    """

    def __init__(
        self, folder: Path | None, *, limit: int | None = None, like: Path | None = None
    ) -> None:
        self._named = folder
        self._limit = limit
        self._like = like
        self._lock = threading.Lock()
        self._temporary: Path | None = None

    @property
    def folder(self) -> Path | None:
        """Where they are; None where no temporary one was needed yet."""
        return self._named or self._temporary

    def path_of(self, file: str) -> Path | None:
        """The file of that stored name; None where it is not here."""
        if self.folder is None:
            return None
        path = self.folder / file
        return path if path.is_file() else None

    def save(self, prefix: str, name: str, content: Content, check: Callable[[], None]) -> Pending:
        """Writes ``content`` through to the disk; blocks. ``check`` may raise between two chunks.

        Raises ArtifactTooLarge, Refused for what is no content, OSError.
        """
        folder = self._made()
        path = folder / f"{prefix}-{uuid4().hex}"
        part = path.with_name(path.name + _PART)
        with _chunks(name, content) as chunks:
            held = _create_locked(part)
            try:
                self._set_rights(held)
                size, digest = self._fill(held, name, chunks, check)
                os.fsync(held)
                if fcntl is None:
                    os.close(held)
                part.rename(path)
                _sync_folder(folder)
            except BaseException:
                with suppress(OSError):
                    os.close(held)
                part.unlink(missing_ok=True)
                path.unlink(missing_ok=True)
                raise
        return Pending(path, size, digest, None if fcntl is None else held)

    def _fill(
        self, fd: int, name: str, chunks: Iterable[memoryview], check: Callable[[], None]
    ) -> tuple[int, str]:
        size, digest = 0, hashlib.sha256()
        for chunk in chunks:
            check()
            size += len(chunk)
            if self._limit is not None and size > self._limit:
                raise ArtifactTooLarge(name, self._limit)
            digest.update(chunk)
            while chunk:
                chunk = chunk[os.write(fd, chunk) :]
        return size, digest.hexdigest()

    def _made(self) -> Path:
        with self._lock:
            if self.folder is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="benbi-artifacts-"))
                self._end = weakref.finalize(self, _remove_folder, self._temporary, os.getpid())
            found = self.folder
            assert found is not None
            if not found.is_dir():
                found.mkdir(mode=0o700, exist_ok=True)
                if (mode := self._mode()) is not None:
                    # Who may read a file must be able to enter.
                    found.chmod(mode | (mode & 0o444) >> 2)
            return found

    def _mode(self) -> int | None:
        if self._like is None or os.name != "posix":
            return None
        return stat.S_IMODE(self._like.stat().st_mode) & 0o666

    def _set_rights(self, fd: int) -> None:
        if (mode := self._mode()) is not None:
            os.fchmod(fd, mode)

    # What is not needed any more.

    def remove(self, files: Iterable[str]) -> None:
        """Removes files that nothing records any more. What can not be removed is left."""
        folder = self.folder
        if folder is None:
            return
        for file in files:
            with suppress(OSError):
                (folder / file).unlink(missing_ok=True)

    def settled(self, prefix: str, now: float | None = None) -> list[str]:
        """The stored names with this prefix, but those that were written to a moment ago."""
        before = (time.time() if now is None else now) - SETTLED_SECONDS
        found: list[str] = []
        with suppress(FileNotFoundError), os.scandir(self.folder or _nowhere()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.name.startswith(f"{prefix}-") and entry.stat().st_mtime < before:
                        found.append(entry.name)
        return found

    def remove_orphan(self, file: str, is_recorded: Callable[[], bool]) -> bool:
        """Removes a file that nobody is saving and nothing records; True where it did.

        Whoever saves it holds its lock until it is recorded: what is recorded is asked after
        the lock is ours.
        """
        assert self.folder is not None
        path = self.folder / file
        try:
            fd = os.open(path, os.O_RDWR)
        except OSError:
            return False
        try:
            if not _locked(fd) or is_recorded():
                return False
            if fcntl is not None:
                path.unlink(missing_ok=True)
        finally:
            os.close(fd)
        if fcntl is None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        return not path.exists()

    def close(self) -> None:
        """Removes a temporary folder."""
        if self._temporary is not None:
            self._end()
            self._temporary = None


def _remove_folder(folder: Path, process: int) -> None:
    # A forked child must not take it from its parent.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _nowhere() -> str:
    raise FileNotFoundError


def _create_locked(path: Path) -> int:
    """A new file, ours alone until its descriptor is closed."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        if fcntl is None:
            return fd
        fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return fd
        # A process that was stopped just here for very long: it was taken for an orphan.
        os.close(fd)


def _locked(fd: int) -> bool:
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def _chunks(name: str, content: Any) -> Generator[Iterator[memoryview]]:
    if isinstance(content, bytes | bytearray | memoryview):
        whole = _bytes_of(content)
        yield (whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK))
    elif isinstance(content, str | os.PathLike):
        with open(content, "rb", buffering=0) as file:  # pyright: ignore[reportUnknownArgumentType]
            yield _read(name, file)
    elif hasattr(content, "read"):
        yield _read(name, content)
    else:
        raise Refused(
            f"artifact {name!r}: content is bytes, the path of a file, or a file open for reading "
            f"bytes, not {type(content).__name__}"
        )


def _read(name: str, file: Any) -> Iterator[memoryview]:
    while chunk := file.read(CHUNK):
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise Refused(f"artifact {name!r}: the file gives text; open it with mode 'rb'")
        yield _bytes_of(chunk)


def _bytes_of(content: Any) -> memoryview:
    return memoryview(content).cast("B")
