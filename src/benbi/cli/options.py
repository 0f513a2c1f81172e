"""Options that several commands share, and what their values mean."""

from __future__ import annotations

import os
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from benbi.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from benbi import Benbi
    from benbi.cli.target import Target

# A switch that is off unless it is named.
FLAG: Final = Parameter(negative="", show_default=False)

AT_LEAST_ONE: Final = Number(gte=1)
NOT_NEGATIVE: Final = Number(gte=0)

_COMMON: Final = Group("Common options", sort_key=99)
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])?(?:I?B)?")
_BYTES: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_SECONDS: Final = {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3_600, "d": 86_400}


@Parameter(name="*", group=_COMMON)
@dataclass(frozen=True, kw_only=True)
class Common:
    """What every command takes."""

    url: Annotated[
        str | None,
        # Not read from the environment here: Benbi does that, and an app that names its
        # database in its code goes before the environment, but not before the command line.
        Parameter(
            help="The database: a path or sqlite:////path/jobs.db. Default: BENBI_URL, else a "
            "file in your state directory."
        ),
    ] = None
    as_json: Annotated[
        bool,
        FLAG,
        Parameter(name="--json", help="JSON on stdout."),
    ] = False
    debug: Annotated[
        bool,
        FLAG,
        Parameter(help="Show the traceback of an error."),
    ] = False


DEFAULT: Final = Common()

StateName = Literal[
    "waiting",
    "scheduled",
    "pending",
    "running",
    "retrying",
    "input_required",
    "completed",
    "failed",
    "canceled",
    "skipped",
]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which jobs a command is about."""

    state: Annotated[StateName | None, Parameter(help="Only jobs in this state.")] = None
    task: Annotated[str | None, Parameter(help="Only jobs of this task.")] = None
    queue: Annotated[str | None, Parameter(help="Only jobs of this queue.")] = None
    owner: Annotated[str | None, Parameter(help="Only jobs of this owner.")] = None

    def given(self) -> dict[str, str]:
        """Those that were given, by their names in Python."""
        return {name: value for name, value in vars(self).items() if value is not None}


ANY_JOB: Final = Filters()

ModuleApp = Annotated[
    str,
    Parameter(help="Where the tasks are: module:app, module, or path/to/file.py:app."),
]


def seconds(text: str) -> float:
    """A duration in seconds: ``90``, ``1.5s``, ``10m``, ``2h``, ``1d``."""
    found = _SPAN.fullmatch(text.strip())
    if not found:
        raise ConfigurationError(f"{text!r} is not a duration; write 90, 1.5s, 10m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2] or ""]


def size(text: str) -> int:
    """A size in bytes: ``512M``, ``1.5G``, ``800000``."""
    found = _SIZE.fullmatch(text.strip().upper())
    if not found or not (bytes_ := round(float(found[1]) * _BYTES[found[2] or ""])):
        raise ConfigurationError(f"{text!r} is no size in bytes; write 512M, 2G or 500000000")
    return bytes_


def names(text: str | None) -> list[str] | None:
    """The names in a list with commas; None where there is no list.

    Raises ConfigurationError for a list without names.
    """
    if text is None:
        return None
    found = [name for part in text.split(",") if (name := part.strip())]
    if not found:
        raise ConfigurationError(f"{text!r} names no queue; write gifts, or gifts,mail")
    return found


@asynccontextmanager
async def opened(common: Common) -> AsyncGenerator[Benbi]:
    """The database alone, without any task code; closed at the end."""
    async with existing(common) as app:
        yield app


def existing(common: Common) -> Benbi:
    """An app without tasks on a database that is there.

    Raises StoreError where it is not: a mistyped path must not become a new, empty database.
    """
    from benbi import Benbi

    app = Benbi(common.url)
    path = app.database.path
    if path is not None and not os.path.exists(path):
        raise StoreError(
            f"there is no database at {path}; a worker makes it (benbi work module:app), or "
            "benbi db migrate does"
        )
    return app


def loaded(text: str, common: Common) -> Target:
    """The Benbi object that ``text`` names, on the database of ``--url`` where one is given.

    Raises ConfigurationError where its code names another one.
    """
    from benbi import Benbi
    from benbi.cli.target import load

    if common.url is None:
        return load(text)
    # Benbi() without an address of its own reads it; a child process inherits it.
    os.environ["BENBI_URL"] = common.url
    target = load(text)
    wanted = Benbi(common.url).url
    if target.app.url != wanted:
        raise ConfigurationError(
            f"{text} keeps its jobs in {target.app.url}, as its code says, not in {wanted}; "
            "write Benbi() there to choose with --url or BENBI_URL"
        )
    return target
