"""The HTTP door: REST, event streams and ``/mcp``, for callers who may be anywhere."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from benbi.errors import MissingExtra

if TYPE_CHECKING:
    from benbi.server.http.door import build
    from benbi.server.http.server import serve

__all__ = ["build", "serve"]

_MODULES: Final = {"build": "door", "serve": "server"}


# Late, since benbi.server.mcp needs benbi.server.http.auth and nothing else of the door.
def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("benbi"):
            raise
        raise MissingExtra("server", "the HTTP door") from error
