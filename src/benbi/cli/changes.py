"""Which Python files have changed: their times and sizes are compared, nothing is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages"})


class Changes:
    """The Python files under some folders, without hidden ones and environments."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._seen = dict(self._files())

    def look(self) -> Path | None:
        """A file that was changed, made or removed since the last look; None: none."""
        before, self._seen = self._seen, dict(self._files())
        changed = before.items() ^ self._seen.items()
        return Path(min(path for path, _ in changed)) if changed else None

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for folder in self._folders:
            for place, folders, files in os.walk(folder):
                folders[:] = [
                    name
                    for name in folders
                    if name[0] != "."
                    and name not in _NOT_OURS
                    and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
                ]
                for name in files:
                    if name.endswith(".py"):
                        path = os.path.join(place, name)
                        with suppress(OSError):
                            found = os.stat(path)
                            yield path, (found.st_mtime_ns, found.st_size)
