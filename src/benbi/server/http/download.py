"""A job's file as a download: whatever it holds, no browser shows or runs it in our origin."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.responses import FileResponse

from benbi.job import Artifact

# A task may save what somebody else wrote: HTML, SVG, a script.
_HARMLESS: Final = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}


def download(artifact: Artifact, path: Path) -> FileResponse:
    """The file under its own name; ranges are served."""
    return FileResponse(
        path,
        filename=artifact.name,
        media_type="application/octet-stream",
        content_disposition_type="attachment",
        headers={**_HARMLESS, "etag": f'"{artifact.sha256}"'},
    )
