"""Imports go one way, and each driver and framework has one place."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shape.source import ROOT, SOURCE, modules

# Where each thing from outside may be imported. What is not listed here may not be imported
# at all: a new dependency is added to pyproject.toml and to this table.
PLACES: dict[str, tuple[str, ...]] = {
    "sqlite3": ("benbi.store.sqlite",),
    "psycopg": ("benbi.store.postgresql",),
    "sqlalchemy": ("benbi.callers.sqlalchemy",),
    "django": ("benbi.callers.django", "benbi.django"),
    "asgiref": ("benbi.django",),
    "pydantic": ("benbi",),
    "pydantic_core": ("benbi",),
    "typing_extensions": ("benbi",),
    "cronsim": ("benbi.engine", "benbi.task"),
    "cryptography": ("benbi.sealing",),
    "jsonschema": ("benbi.answers", "benbi.codec"),
    "mcp": ("benbi.server.mcp", "benbi.mcp"),
    "mcp_types": ("benbi.server.mcp",),
    "anyio": ("benbi.server",),
    "fastmcp": ("benbi.server.mcp",),
    "fastapi": ("benbi.server.http",),
    "sse_starlette": ("benbi.server.http",),
    "starlette": ("benbi.server",),
    "uvicorn": ("benbi.server",),
    "cyclopts": ("benbi.cli",),
    "rich": ("benbi.cli",),
}

# Of the standard library, in a newer Python than the oldest that we run on.
STANDARD = sys.stdlib_module_names | {"annotationlib"}


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Runs the contracts of pyproject.toml over the package in ``source``."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
    )


def test_the_contracts_hold() -> None:
    done = lint_imports(SOURCE)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("job", "benbi.errors", None),
        ("store/planted", "benbi.app", "Imports go one way"),
        ("outcome", "benbi.store", "Imports go one way"),
        ("engine/planted", "benbi.server", "Imports go one way"),
        ("server/planted", "benbi.store.store", "A door touches the app"),
        ("cli/planted", "benbi.engine", "A door touches the app"),
    ],
)
def test_the_contracts_bite(
    tmp_path: Path, importer: str, imported: str, contract: str | None
) -> None:
    copy = tmp_path / "benbi"
    shutil.copytree(SOURCE / "benbi", copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / f"{importer}.py").open("a", encoding="utf-8") as file:
        file.write(f"\nimport {imported}\n")
    done = lint_imports(tmp_path)
    if contract is None:
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert done.returncode == 1, done.stdout + done.stderr
        broken = [line for line in done.stdout.splitlines() if " BROKEN" in line]
        assert any(contract in line for line in broken), done.stdout


def test_what_comes_from_outside_has_one_place() -> None:
    misplaced: list[str] = []
    for module in modules():
        for name, line in module.imports():
            top = name.partition(".")[0]
            if top == "benbi" or (top in STANDARD and top not in PLACES):
                continue
            places = PLACES.get(top, ())
            if not any(f"{module.name}.".startswith(f"{place}.") for place in places):
                allowed = " or ".join(places) or "no module: it is not in the table of this test"
                misplaced.append(f"{module.path}:{line}: {name} belongs in {allowed}")
    assert not misplaced, "\n".join(misplaced)


def test_the_package_has_no_relative_imports() -> None:
    relative = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative, relative
