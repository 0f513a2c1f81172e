"""Encrypts what is secret among stored arguments. The one module that knows cryptography.

BENBI_KEY holds keys of 32 bytes in base64, separated by spaces or commas: the first encrypts,
each decrypts, so that keys can be rotated. Hashes are keyed by the last: a key is added in front,
and calls with the same arguments stay the same call until the oldest is taken away.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from benbi.errors import ConfigurationError, MissingExtra, SecretUnreadable
from benbi.secret import MASK, SEALED

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

VARIABLE: Final = "BENBI_KEY"
_KEY_BYTES: Final = 32
_MAKE_ONE: Final = "make one with: openssl rand -base64 32"


def seal(task: str, text: str, secrets: Collection[str]) -> str:
    """The call with its secrets encrypted; as it is where it has none.

    Raises ConfigurationError without a key, MissingExtra without benbi[secrets].
    """
    data: dict[str, Any] = json.loads(text)
    taken = {name: data[name] for name in secrets if data.get(name) is not None}
    if not taken:
        return text
    crypt, _ = _keys(task)
    whole = json.dumps({"salt": os.urandom(32).hex(), "arguments": taken}, ensure_ascii=False)
    token = crypt.encrypt(whole.encode()).decode()
    shown = data | dict.fromkeys(taken, MASK) | {SEALED: token}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def unseal(task: str, text: str) -> tuple[str, bytes]:
    """The call as it was given, and its salt. Raises SecretUnreadable, ConfigurationError."""
    crypt, _ = _keys(task)
    from cryptography.fernet import InvalidToken

    data: dict[str, Any] = json.loads(text)
    try:
        whole = json.loads(crypt.decrypt(data.pop(SEALED)))
    except InvalidToken:
        raise SecretUnreadable(
            f"the secrets of this call of {task} were encrypted with a key that is not in "
            f"{VARIABLE} of this worker; add it there, then retry the job"
        ) from None
    plain = data | whole["arguments"]
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")), bytes.fromhex(
        whole["salt"]
    )


def keyed_hash(task: str, digest: bytes) -> bytes:
    """16 bytes that are equal for equal digests, and tell nothing to whoever has no key."""
    _, key = _keys(task)
    return hashlib.blake2b(digest, digest_size=16, key=key, person=b"benbi-arguments").digest()


def obstacle(task: str) -> str | None:
    """Why this process can not decrypt anything; None: it has a key."""
    try:
        _keys(task)
    except ConfigurationError as error:
        return str(error)
    return None


def _keys(task: str) -> tuple[MultiFernet, bytes]:
    named = os.environ.get(VARIABLE, "").replace(",", " ").split()
    if not named:
        raise ConfigurationError(
            f"task {task} takes secrets, which are encrypted: set {VARIABLE} in every process "
            f"({_MAKE_ONE})"
        )
    try:
        return _compiled(tuple(named))
    except ImportError as error:
        raise MissingExtra("secrets", f"task {task} takes secrets, which") from error


@lru_cache(maxsize=4)
def _compiled(named: tuple[str, ...]) -> tuple[MultiFernet, bytes]:
    from cryptography.fernet import Fernet, MultiFernet

    keys = [_key(text) for text in named]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys]), keys[-1]


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(
            f"{VARIABLE}: keys of {_KEY_BYTES} bytes in base64, separated by spaces; {_MAKE_ONE}"
        )
    return key
