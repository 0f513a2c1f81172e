"""``Annotated[str, Secret]``: an argument that is encrypted at rest and shown to nobody.

While a job runs that was given secrets, ``hide`` takes their values out of every text that benbi
stores or logs for it: errors, tracebacks, progress, log lines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import quote

MASK: Final = "***"
# Beside the arguments of a stored call, whose secrets are masks there: no parameter's name.
SEALED: Final = "$sealed"
# In the schema of an argument that holds one, so that doors without the code encrypt it as well.
IN_SCHEMA: Final = "x-benbi-secret"
# In the compiled form of its type.
_MARK: Final = "benbi_secret"
# Shorter ones would take letters out of words.
SHORTEST_HIDDEN: Final = 4

_found: ContextVar[list[str] | None] = ContextVar("benbi_secrets_found", default=None)
_hidden: ContextVar[Hidden | None] = ContextVar("benbi_secrets_hidden", default=None)


class Secret:
    """Marks text among a task's arguments: ``token: Annotated[str, Secret]``, in models and
    dataclasses, too.

    The argument is encrypted with BENBI_KEY (``benbi[secrets]``) before it is stored, and masked
    wherever arguments or errors are shown. What a task returns, or records in steps, is not.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        inner: dict[str, Any] = handler(source)
        text = inner
        while text["type"].startswith("function-") and "schema" in text:
            # Validators of the user's.
            text = text["schema"]
        if text["type"] != "str":
            raise TypeError("Secret marks text: write Annotated[str, Secret]")
        after = {"type": "no-info", "function": _note}
        return {
            "type": "function-after",
            "function": after,
            "schema": inner,
            "metadata": {_MARK: True},
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> dict[str, Any]:
        shown: dict[str, Any] = handler(core)
        return {**shown, "format": "password", "writeOnly": True}


def is_secret(node: Mapping[str, Any]) -> bool:
    """Is this node of a compiled type marked?"""
    metadata: Mapping[str, Any] = node.get("metadata") or {}
    return bool(metadata.get(_MARK))


def _note(value: str) -> str:
    found = _found.get()
    if found is not None:
        found.append(value)
    return value


@contextmanager
def noting() -> Generator[list[str]]:
    """The values of the secrets that are decoded within the block."""
    found: list[str] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


class Hidden:
    """The secrets of one job. ``salt`` is the job's own: hashes of what may hold one are keyed."""

    def __init__(self, values: Iterable[str], salt: bytes) -> None:
        self.salt = salt
        forms = {form for value in values for form in _forms(value)}
        self._forms = sorted(forms, key=len, reverse=True)

    def text(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, MASK)
        return text


def _forms(value: str) -> Iterable[str]:
    """How a value may stand in a text: as it is, in a repr, in JSON, in an address."""
    written = (value, repr(value)[1:-1], json.dumps(value)[1:-1], ascii(value)[1:-1], quote(value))
    return (form for form in written if len(form) >= SHORTEST_HIDDEN)


def keep_hidden(hidden: Hidden) -> None:
    """From now on in this context, and in what is started from it."""
    _hidden.set(hidden)


def hide(text: str) -> str:
    """The text without the secrets of the job that runs here."""
    hidden = _hidden.get()
    return text if hidden is None else hidden.text(text)


def stand_in(text: str) -> str:
    """The text, or what stands for it where it shows a secret of the job that runs here: the same
    on every attempt of this job, and told apart from what stands for another text."""
    shown = hide(text)
    if shown == text:
        return text
    data = text.encode("utf-8", "surrogatepass")
    return f"{shown}-{hashlib.blake2b(data, digest_size=12, key=hash_key()).hexdigest()}"


def hash_key() -> bytes:
    """The key of hashes that are stored for the job that runs here; empty where it has no secret:
    whoever reads the database must not be able to find a short one by trying."""
    hidden = _hidden.get()
    return b"" if hidden is None else hidden.salt


def masked(text: str) -> str:
    """Stored arguments as anybody may see them."""
    if f'"{SEALED}"' not in text:
        return text
    data = json.loads(text)
    data.pop(SEALED, None)
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def secrets_in(schema: Mapping[str, Any]) -> list[str]:
    """The arguments that a published schema says are to be encrypted."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return [name for name, part in properties.items() if part.get(IN_SCHEMA)]
