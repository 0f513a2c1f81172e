# pyright: strict
"""The settings of a task are checked where it is registered."""

from datetime import timedelta
from typing import Any, assert_type

from benbi import Benbi, JobHandle, Retry, Task, Tool

app = Benbi()


@app.task(
    name="gifts",
    queue="gifts",
    retry=Retry(attempts=2, unknown=False),
    timeout=timedelta(minutes=5),
    tool=Tool(same_call_within="10m", wait=5, required=True),
    aliases=["find_gifts"],
    max_losses=1,
    keep="7d",
    grace=5,
    exclusive=True,
)
async def everything(household: int) -> int:
    return household


assert_type(everything.enqueue_sync(17), JobHandle[int])
assert_type(everything.timeout, float | None)
assert_type(app.tasks, dict[str, Task[Any, Any]])


@app.task(queue=5)  # expect: reportArgumentType
async def wrong_queue() -> None: ...


@app.task(retry="often")  # expect: reportArgumentType
async def wrong_retry() -> None: ...


@app.task(timout=5)  # expect: reportCallIssue, reportUntypedFunctionDecorator
async def misspelled() -> None: ...


@app.task("gifts")  # expect: reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator
async def name_by_position() -> None: ...


Tool(wait="20s")  # expect: reportArgumentType
Tool(colour="red")  # expect: reportCallIssue
