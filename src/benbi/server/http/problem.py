"""Errors as problem details (RFC 9457), one body for every error that the door answers.

``type`` is ``urn:benbi:problem:`` and the error's name, or ``about:blank`` where the
status says it all; ``detail`` says what is wrong and what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from benbi import errors

MEDIA_TYPE: Final = "application/problem+json"

# The first class that fits decides; what is not listed is a fault of ours.
_STATUSES: Final[tuple[tuple[type[errors.BenbiError], int], ...]] = (
    (errors.JobNotFound, 404),
    (errors.ArtifactNotFound, 404),
    (errors.IdempotencyConflict, 409),
    (errors.NotPermitted, 409),
    (errors.AnswerRefused, 409),
    (errors.PayloadTooLarge, 413),
    (errors.Refused, 422),
    (errors.StoreError, 503),
)
_RETRY_AFTER_SECONDS: Final = "1"


def problem(
    status: int,
    detail: str,
    *,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """A response with a problem as its body; ``members`` are added to it as they are."""
    body = {
        "type": f"urn:benbi:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **members,
    }
    return Response(json.dumps(body), status, dict(headers or {}), MEDIA_TYPE)


def problem_of(error: errors.BenbiError) -> Response:
    """The response to an error of benbi; its message reaches the client where it may help."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(error).__name__).lower()
    status = next((status for listed, status in _STATUSES if isinstance(error, listed)), 500)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem(status, "the server failed; its log says why")
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        # What the database said may name files and hosts: that is for the log.
        retry = {"retry-after": _RETRY_AFTER_SECONDS}
        return problem(status, "the database did not take the call", kind=kind, headers=retry)
    return problem(status, str(error), kind=kind, **_members(error))


def _members(error: errors.BenbiError) -> dict[str, Any]:
    match error:
        case errors.InvalidArguments():
            return {"problems": [{"path": path, "problem": what} for path, what in error.problems]}
        case errors.IdempotencyConflict() | errors.JobNotFound():
            return {"job_id": error.job_id}
        case errors.PayloadTooLarge():
            return {"size": error.size, "limit": error.limit}
        case _:
            return {}
