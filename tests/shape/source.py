"""The package's own source, read once: what the tests of its shape look at."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Module:
    """One module of benbi: ``name`` is dotted, ``text`` is its source."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    def imports(self) -> Iterator[tuple[str, int]]:
        """(absolute dotted name, line) of each import, those inside functions included."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, node.lineno
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module, node.lineno


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package, by name."""
    found = []
    for path in sorted((SOURCE / "benbi").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found.append(Module(name, path, text, ast.parse(text)))
    return tuple(found)


@cache
def project_files() -> tuple[Path, ...]:
    """Every file that is, or with the next commit may be, part of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(path for path in paths if path.is_file())
