"""Functions whose annotations name what exists only for a type checker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context as RequestContext

if TYPE_CHECKING:
    from decimal import Decimal

    import benbi
    from benbi import Context
    from benbi import Context as Renamed


def with_context(ctx: benbi.SyncContext, a: int) -> None: ...
async def with_async_context(ctx: Context, a: int) -> None: ...
async def renamed_context(ctx: Renamed, a: int) -> None: ...
async def foreign_context(ctx: RequestContext, a: int) -> None: ...
def needs_decimal(a: int, price: list[Decimal]) -> None: ...
def gives_decimal(a: int) -> Decimal: ...  # type: ignore[empty-body]


def make_local() -> Callable[..., Any]:
    class Row: ...

    def local(row: Row) -> None: ...

    return local
