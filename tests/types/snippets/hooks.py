# pyright: strict
"""Resources keep the type that their function hands out; what is around is given a Context."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import assert_type

from benbi import Benbi, Context, SyncContext

app = Benbi()


class Pool:
    size = 1


@app.resource
async def pool() -> AsyncIterator[Pool]:
    yield Pool()


@app.resource
def gen(pool: Pool) -> Iterator[int]:
    yield pool.size


@app.resource
@asynccontextmanager
async def amanager() -> AsyncGenerator[Pool]:
    yield Pool()


@app.resource
@contextmanager
def manager() -> Generator[bytes]:
    yield b""


@app.resource
async def coroutine() -> str:
    return ""


@app.resource
def plain() -> Pool:
    return Pool()


@app.around
async def around(ctx: Context) -> AsyncGenerator[None]:
    assert_type(ctx.task, str)
    yield


@app.around
@asynccontextmanager
async def also_around(ctx: Context) -> AsyncGenerator[None]:
    yield


@app.around  # expect: reportArgumentType, reportUntypedFunctionDecorator
async def not_around(ctx: Context) -> None: ...


def not_registered() -> int:
    return 1


@app.task
async def use(ctx: Context) -> None:
    assert_type(await ctx.resource(pool), Pool)
    assert_type(await ctx.resource(gen), int)
    assert_type(await ctx.resource(amanager), Pool)
    assert_type(await ctx.resource(manager), bytes)
    assert_type(await ctx.resource(coroutine), str)
    assert_type(await ctx.resource(plain), Pool)
    await ctx.resource(not_registered)  # expect: reportArgumentType


@app.task
def use_in_a_thread(ctx: SyncContext) -> None:
    assert_type(ctx.resource(pool), Pool)
    assert_type(ctx.resource(plain), Pool)


with app.override(pool, lambda: "a fake"):
    pass
