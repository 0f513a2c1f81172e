# pyright: strict
"""Inside a task: steps keep the types of their functions, answers are of the type asked for."""

from typing import Any, Literal, assert_type

from benbi import Benbi, Context, Retry, SyncContext

app = Benbi()


async def load(household: int, *, since: str = "") -> list[str]:
    return [str(household), since]


def count(rows: list[str]) -> int:
    return len(rows)


@app.task
async def analyse(ctx: Context, household: int) -> int:
    rows = await ctx.step(load)(household, since="2026")
    assert_type(rows, list[str])
    assert_type(await ctx.step(count, name="count", retry=Retry(3), timeout=30)(rows), int)
    assert_type(await ctx.ask("Go on?", bool), bool)
    assert_type(await ctx.ask("Who are you?"), str)
    assert_type(await ctx.ask("Which size?", Literal["s", "m"], timeout="1h", default="m"), Any)
    age: int = await ctx.ask("Your age?", str)  # expect: reportAssignmentType
    await ctx.ask("Go on?", bool, timout=5)  # expect: reportCallIssue
    assert_type(ctx.canceled, bool)
    assert_type(ctx.key, str)
    await ctx.progress(1, 4, "loaded")
    await ctx.partial({"rows": rows})
    await ctx.step(load)("17")  # expect: reportArgumentType
    await ctx.step(load)()  # expect: reportCallIssue
    await ctx.progress("half")  # expect: reportArgumentType
    ctx.progress(1)  # expect: reportUnusedCoroutine
    return len(rows) + age


@app.task
def analyse_in_a_thread(ctx: SyncContext, household: int) -> int:
    rows = ctx.step(count)(["a"])
    assert_type(rows, int)
    assert_type(ctx.ask("Go on?", bool), bool)
    assert_type(ctx.ask("Who are you?"), str)
    ctx.progress(1, 4, "loaded")
    ctx.step(count)(household)  # expect: reportArgumentType
    return rows
