"""Names of tools: ``[a-zA-Z0-9_-]``, at most 64 characters, each once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 64
DEFAULT_PREFIX: Final = "benbi"
JOB_TOOLS: Final = ("status", "cancel", "answer", "list")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]+")


def prefix_from(name: str | None) -> str:
    """The prefix of the job tools: a server's name with ``_`` for what a tool may not be named.

    ``Gift Genius (EU)`` gives ``Gift_Genius_EU`` and so ``Gift_Genius_EU_job_status``. A name
    without a usable character gives ``benbi``; a long one is cut so that every tool fits.
    """
    longest = LONGEST - max(len(job_tool("", verb)) for verb in JOB_TOOLS)
    slug = _FOREIGN.sub("_", name or "").strip("_-")
    return slug[:longest].rstrip("_-") or DEFAULT_PREFIX


def job_tool(prefix: str, verb: str) -> str:
    """``gifts_job_status`` for the prefix ``gifts`` and the verb ``status``."""
    return f"{prefix}_job_{verb}"


def tool_names(tasks: Iterable[str], *, taken: Iterable[str] = ()) -> dict[str, str]:
    """A tool name for each task: its own where it fits, else as near to it as can be.

    Names that come out alike, or are ``taken``, get a tail made from the task's name: the
    same in every process and after every restart.
    """
    used = set(taken)
    names: dict[str, str] = {}
    ordered = sorted(set(tasks), key=lambda task: (_slug(task) != task, task))
    for task in ordered:
        name = _slug(task)
        if name in used or len(name) > LONGEST:
            tail = hashlib.sha256(task.encode()).hexdigest()[:8]
            name = f"{name[: LONGEST - len(tail) - 1]}_{tail}"
        used.add(name)
        names[task] = name
    return names


def _slug(task: str) -> str:
    return _FOREIGN.sub("_", task) or "_"
