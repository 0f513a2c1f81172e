"""Whose jobs a call may see: the principal that the request's access token names."""

from __future__ import annotations

from mcp.server.auth.middleware.auth_context import get_access_token

from benbi.server.http.auth import owner_from

NOBODY = ""


def current_owner() -> str:
    """The owner of the request being served, as on every door; ``""`` without sign-in."""
    token = get_access_token()
    return NOBODY if token is None else owner_from(token)
