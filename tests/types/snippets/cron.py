# pyright: strict
"""``app.cron`` returns what it plans, with its types; its own settings are checked."""

from datetime import datetime, timedelta
from typing import assert_type

from benbi import Benbi, Context, JobHandle
from benbi.job import Schedule
from benbi.task import Call

app = Benbi()


@app.cron("0 9 * * mon-fri", timezone="Asia/Ho_Chi_Minh", catchup="all", name="morning")
@app.cron(every=timedelta(minutes=10))
@app.task(queue="reports")
async def report(ctx: Context, limit: int = 5) -> list[str]:
    assert_type(ctx.scheduled_for, datetime | None)
    return []


@app.task
async def weather(city: str) -> float:
    return 1.0


assert_type(report.enqueue_sync(limit=3), JobHandle[list[str]])
report.enqueue_sync(limit="3")  # expect: reportArgumentType
assert_type(app.cron("@daily")(weather.call("Hue")), Call)
app.cron("@daily")(weather.call(7))  # expect: reportArgumentType
assert_type(app.schedules_sync(), list[Schedule])
app.cron("@daily", catchup="some")  # expect: reportArgumentType
app.cron("@daily", every="10m")  # expect: reportCallIssue
app.cron(every="10m", timezone="UTC")  # expect: reportCallIssue
app.cron()  # expect: reportCallIssue


@app.cron("@daily")  # expect: reportCallIssue, reportArgumentType, reportUntypedFunctionDecorator
async def no_task() -> None: ...
