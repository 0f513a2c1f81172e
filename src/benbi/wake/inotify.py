"""Linux's inotify by way of ctypes: which files of a directory were written or replaced."""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

MODIFY: Final = 0x002
MOVED_TO: Final = 0x080
CREATE: Final = 0x100
OVERFLOW: Final = 0x4000
_HEADER: Final = struct.Struct("iIII")


class Change(NamedTuple):
    """``watch``: what ``Inotify.watch`` returned; ``name``: of a file in a watched directory."""

    watch: int
    mask: int
    name: bytes


class Inotify:
    """One inotify instance. Raises ``OSError`` where there is none, or a limit is reached."""

    def __init__(self) -> None:
        # Only a process that watches pays for it: it is slow to import.
        import ctypes

        self._errno = ctypes.get_errno
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._libc.inotify_init1.argtypes = [ctypes.c_int]
            self._libc.inotify_add_watch.argtypes = [
                ctypes.c_int,
                ctypes.c_char_p,
                ctypes.c_uint32,
            ]
            self._libc.inotify_rm_watch.argtypes = [ctypes.c_int, ctypes.c_int]
        except AttributeError as missing:
            raise OSError(f"no inotify here: {missing}") from missing
        self.fd: int = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: str, mask: int) -> int:
        """The number of the watch; the same again for the same file."""
        return self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), mask), path)

    def forget(self, watch: int) -> None:
        """End a watch; one that ended by itself is no error."""
        self._libc.inotify_rm_watch(self.fd, watch)

    def changes(self) -> list[Change]:
        """What happened since the last call; does not wait."""
        found: list[Change] = []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                found.append(Change(watch, mask, data[at : at + length].rstrip(b"\0")))
                at += length

    def close(self) -> None:
        os.close(self.fd)

    def _checked(self, result: int, path: str | None = None) -> int:
        if result < 0:
            number = self._errno()
            raise OSError(number, os.strerror(number), path)
        return result
