"""Who is calling, by bearer token: one rule for every path of the server, ``/mcp`` included.

``owner_of_scope(scope)`` is the owner of a request that ``SignIn`` let in, ``owner_from(access)``
the same owner where only mcp's access token is at hand.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable
from typing import Any, Final, Protocol

from starlette.types import Scope

from benbi.errors import ConfigurationError

TOKEN_VARIABLE: Final = "BENBI_TOKEN"
# Reachable without sign-in and under any Host: probes have no token and use addresses.
OPEN_PATHS: Final = frozenset({"/healthz"})
OWNER_KEY: Final = "benbi.owner"


class Access(Protocol):
    """What is read of mcp's ``AccessToken``; ``expires_at`` is in seconds since the epoch."""

    @property
    def client_id(self) -> str: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def claims(self) -> dict[str, Any] | None: ...
    @property
    def expires_at(self) -> int | None: ...


class Verifier(Protocol):
    """What checks a bearer token: mcp's ``TokenVerifier``, so that one serves both doors."""

    async def verify_token(self, token: str) -> Access | None:
        """The token's principal, or None where the token is not good."""
        ...


class Tokens:
    """A fixed set of bearer tokens, each of one owner.

    Each item is ``"owner:token"`` or a token alone, whose owner is a label derived from it,
    the same after every restart. Raises ConfigurationError where a token can not be sent in
    a header, or belongs to two owners.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._owners: dict[bytes, str] = {}
        for item in tokens:
            owner, token = _split(item)
            digest = hashlib.sha256(token.encode()).digest()
            if self._owners.setdefault(digest, owner) != owner:
                raise ConfigurationError(
                    f"one token is given to {self._owners[digest]!r} and to {owner!r}; "
                    "give each owner a token of its own"
                )

    @classmethod
    def from_environment(cls) -> Tokens:
        """The tokens of ``BENBI_TOKEN``, separated by white space; none where it is unset."""
        return cls(os.environ.get(TOKEN_VARIABLE, "").split())

    def __len__(self) -> int:
        return len(self._owners)

    def __repr__(self) -> str:
        return f"Tokens(owners={sorted(set(self._owners.values()))})"

    def owner_of(self, token: str) -> str | None:
        """The owner whose token this is, or None."""
        given = hashlib.sha256(token.encode()).digest()
        found = None
        # No early exit: how long it takes must not tell which token came close.
        for digest, owner in self._owners.items():
            if hmac.compare_digest(digest, given):
                found = owner
        return found

    async def verify_token(self, token: str) -> Access | None:
        """``owner_of`` as mcp's TokenVerifier; the secret itself is not carried on."""
        # Late: what is below benbi.server.mcp reads owners from here.
        from benbi.server.mcp.signed_in import access_token

        owner = self.owner_of(token)
        return None if owner is None else access_token(owner)


def _split(item: str) -> tuple[str, str]:
    owner, colon, token = item.partition(":")
    if not colon:
        owner, token = "", item
    if not token or not all("!" <= character <= "~" for character in token):
        raise ConfigurationError(
            f"a token{f' of owner {owner!r}' if owner else ''} is empty or has characters that "
            "do not fit into a header; use ASCII letters, digits and signs without spaces"
        )
    if colon and not owner:
        raise ConfigurationError("a token has an empty owner; write owner:token or the token alone")
    return owner or _label(token), token


def _label(token: str) -> str:
    return "token-" + hashlib.sha256(b"benbi owner of " + token.encode()).hexdigest()[:12]


def owner_from(access: Access) -> str:
    """The owner that a verified token stands for.

    A subject is unique only within its issuer, and a hosted chat app has one client for all
    its people: so issuer and subject, and the client only where no subject is named. One kind
    never looks like another.
    """
    issuer, subject = (access.claims or {}).get("iss"), access.subject
    if not subject:
        return f"client:{access.client_id}"
    if issuer:
        return f"{issuer}#{subject}"
    return f"#{subject}" if "#" in subject or subject.startswith("client:") else subject


def owner_of_scope(scope: Scope) -> str | None:
    """The owner that signed in; None where the server has no sign-in (only this machine calls)."""
    return scope.get(OWNER_KEY)


def route_path(scope: Scope) -> str:
    """The path below the prefix under which the app is mounted."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(prefix) :] if prefix and path.startswith(prefix + "/") else path
