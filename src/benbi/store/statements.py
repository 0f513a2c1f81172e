"""Loads named SQL statements from ``.sql`` files, so that no SQL stands in Python.

A statement begins with ``-- name: claim``; its parameters are written ``:name``, and ``:now`` is
the transaction's time, which nobody passes. The loader numbers them in the order in which they
first occur: callers pass values by that order (many rows) or by name (one row). Places are
written as the dialect's driver has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_RETURNS = re.compile(r"^(SELECT|WITH)\b|\bRETURNING\b")
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement: ``sql`` with numbered places, ``parameters`` in their order."""

    name: str
    sql: str
    parameters: tuple[str, ...]
    encoded: bytes
    # Whether it returns rows, and whether it asks for the transaction's time.
    returns: bool
    timed: bool

    def values(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the statement's order. KeyError names the one that is missing."""
        return tuple([named[name] for name in self.parameters])


PLACES = {"sqlite": "?", "postgresql": "$"}


def parse(text: str, place: str = "?") -> dict[str, Statement]:
    """The statements of one file, by name."""
    pieces = _NAME.split(text)[1:]
    statements: dict[str, Statement] = {}
    for name, body in zip(pieces[::2], pieces[1::2], strict=True):
        if name in statements:
            raise ValueError(f"statement {name} stands twice")
        statements[name] = _compile(name, _COMMENT.sub("", body).strip().rstrip(";"), place)
    return statements


def _compile(name: str, sql: str, place: str) -> Statement:
    parameters: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        parameter = match[1]
        if parameter not in parameters:
            parameters.append(parameter)
        return f"{place}{parameters.index(parameter) + 1}"

    text = re.sub(r"\s+", " ", _PARAMETER.sub(numbered, sql))
    returns = _RETURNS.search(text) is not None
    return Statement(name, text, tuple(parameters), text.encode(), returns, "now" in parameters)


@cache
def load(dialect: str, placed: Callable[[str], str] = str) -> dict[str, Statement]:
    """All statements of one dialect; ``placed`` puts its tables where they lie."""
    folder = files("benbi.store") / "sql" / dialect
    statements: dict[str, Statement] = {}
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            statements |= parse(placed(file.read_text(encoding="utf-8")), PLACES[dialect])
    return statements


def migrations(dialect: str) -> list[tuple[int, str, str]]:
    """(version, name, SQL) of each migration, in order."""
    folder = files("benbi.store") / "sql" / dialect / "migrations"
    found = [
        (int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return sorted(found)
