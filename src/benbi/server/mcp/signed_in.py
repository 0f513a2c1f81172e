"""Tells mcp who signed in, where our own middleware has checked the token."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials

if TYPE_CHECKING:
    from starlette.types import Scope


def access_token(owner: str) -> AccessToken:
    """mcp's record of a caller whom one of our own tokens names; the secret is not carried on."""
    return AccessToken(token="", client_id=owner, subject=owner, scopes=[])


@contextmanager
def signed_in(scope: Scope, access: Any) -> Generator[None]:
    """For the time of one request, as mcp's own middleware would leave it.

    ``scope["user"]`` binds an mcp session to its caller; ``get_access_token()`` answers in tools.
    ``access`` is an ``AccessToken``.
    """
    user = AuthenticatedUser(access)
    scope["user"], scope["auth"] = user, AuthCredentials(access.scopes)
    before = auth_context_var.set(user)
    try:
        yield
    finally:
        auth_context_var.reset(before)
