# pyright: strict
"""A task's arguments and result are known wherever it is enqueued, without its context."""

from dataclasses import dataclass
from typing import assert_type

from benbi import Benbi, Context, JobHandle, SyncContext
from benbi.task import BoundTask, Call, Task

app = Benbi()


@dataclass
class Report:
    gifts: list[str]


@app.task
async def analyse(ctx: Context, household: int, budget: float = 1.0) -> Report:
    return Report([])


@app.task(queue="gifts", retry=5, timeout=300, tool=True)
async def analyse_later(ctx: Context, household: int, *, budget: float) -> Report:
    return Report([])


@app.task
async def without_context(household: int) -> str:
    return str(household)


@app.task
def blocking(ctx: SyncContext, household: int) -> str:
    return str(household)


@app.task(name="plain")
def plain_without_context(household: int) -> None: ...


@app.task()
async def without_anything() -> None: ...


async def right() -> None:
    job = await analyse.enqueue(17, budget=2)
    assert_type(job, JobHandle[Report])
    assert_type(await job.result(), Report)
    assert_type(analyse.enqueue_sync(17), JobHandle[Report])
    assert_type(analyse.call(17), Call)
    assert_type(await analyse_later.enqueue(17, budget=1.0), JobHandle[Report])
    assert_type(await without_context.enqueue(household=17), JobHandle[str])
    assert_type(await blocking.enqueue(17), JobHandle[str])
    assert_type(blocking.enqueue_sync(17).result_sync(), str)
    assert_type(await plain_without_context.enqueue(17), JobHandle[None])
    assert_type(await without_anything.enqueue(), JobHandle[None])
    assert_type(without_anything, Task[[], None])
    await app.enqueue_many([analyse.call(17), blocking.call(17)])


async def right_with_options() -> None:
    bound = analyse.options(key="k", owner="u1", priority=5, delay="30s")
    assert_type(await bound.enqueue(17, budget=2), JobHandle[Report])
    assert_type(bound.enqueue_sync(17), JobHandle[Report])
    assert_type(bound.call(17), Call)
    assert_type(without_anything.options(), BoundTask[[], None])


async def wrong() -> None:
    await analyse.enqueue()  # expect: reportCallIssue
    await analyse.enqueue("17")  # expect: reportArgumentType
    await analyse.enqueue(17, 1.0, 2)  # expect: reportCallIssue
    await analyse.enqueue(17, colour="red")  # expect: reportCallIssue
    await analyse_later.enqueue(17, 1.0)  # expect: reportCallIssue
    await analyse_later.enqueue(17)  # expect: reportCallIssue
    await analyse.options(key="k").enqueue("17")  # expect: reportArgumentType
    await without_context.enqueue(None)  # expect: reportArgumentType
    await blocking.enqueue("17")  # expect: reportArgumentType
    await plain_without_context.enqueue()  # expect: reportCallIssue
    await without_anything.enqueue(1)  # expect: reportCallIssue
    analyse.call("17")  # expect: reportArgumentType
    analyse.enqueue_sync(household="17")  # expect: reportArgumentType
    analyse.enqueue(17)  # expect: reportUnusedCoroutine
    report = await (await analyse.enqueue(17)).result()
    report.colour = "red"  # expect: reportAttributeAccessIssue


async def wrong_options() -> None:
    analyse.options(key=5)  # expect: reportArgumentType
    analyse.options(colour="red")  # expect: reportCallIssue
    analyse.options(priority="high")  # expect: reportArgumentType
    analyse.options(run_at="tomorrow")  # expect: reportArgumentType
