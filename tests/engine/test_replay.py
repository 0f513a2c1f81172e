"""Replay: what was recorded is returned, everything else runs again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benbi import Benbi, Context, JobFailed, Retry, Snooze, SyncContext, Transient
from benbi.job import Event
from tests.support.working import state_reached, working

SOON = Retry(attempts=3, first=0.01, jitter=0)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Benbi]:
    app = Benbi(str(tmp_path / "jobs.db"))
    async with app:
        yield app


@dataclass
class Page:
    title: str


async def log_of(app: Benbi, job_id: str) -> list[Event]:
    return [event async for event in app.follow(job_id)]


async def test_a_step_in_a_loop_is_recorded_for_each_use(app: Benbi) -> None:
    bodies: list[int] = []
    tries: list[int] = []

    async def page(number: int) -> int:
        bodies.append(number)
        return number * 10

    @app.task(retry=SOON)
    async def crawl(ctx: Context) -> list[int]:
        tries.append(ctx.attempt)
        pages = [await ctx.step(page)(number) for number in range(5)]
        if ctx.attempt < 3:
            raise Transient("once more")
        return pages

    async with working(app):
        job = await crawl.enqueue()
        assert await job.result(10) == [0, 10, 20, 30, 40]
    assert bodies == [0, 1, 2, 3, 4]
    assert tries == [1, 2, 3]


async def test_steps_of_a_task_group_are_each_recorded_once(app: Benbi) -> None:
    bodies: list[str] = []

    async def fetch(name: str) -> str:
        bodies.append(name)
        return name.upper()

    @app.task(retry=SOON)
    async def gather_all(ctx: Context) -> list[str]:
        async with asyncio.TaskGroup() as group:
            under_way = [
                group.create_task(as_task(ctx.step(fetch, key=name)(name))) for name in "abc"
            ]
        if ctx.attempt == 1:
            raise Transient("once more")
        return [task.result() for task in under_way]

    async with working(app):
        assert await (await gather_all.enqueue()).result(10) == ["A", "B", "C"]
    assert sorted(bodies) == ["a", "b", "c"]


async def as_task(awaitable: Any) -> Any:
    return await awaitable


async def test_concurrent_uses_of_one_name_need_a_key(app: Benbi) -> None:
    async def fetch(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @app.task
    async def both(ctx: Context) -> list[str]:
        return await asyncio.gather(ctx.step(fetch)("a"), ctx.step(fetch)("b"))

    async with working(app):
        with pytest.raises(JobFailed, match="tell them apart with key="):
            await (await both.enqueue()).result(10)


async def test_two_asks_in_gather_are_asked_together_and_siblings_end(app: Benbi) -> None:
    after_suspension: list[str] = []
    recorded: list[str] = []

    async def slow_step() -> str:
        recorded.append("body")
        await asyncio.sleep(0.05)
        return "done"

    @app.task
    async def ask_two(ctx: Context) -> list[Any]:
        async def work() -> str:
            text = await ctx.step(slow_step)()
            await ctx.progress(1, 1, "a sibling goes on")
            after_suspension.append(text)
            return text

        return list(
            await asyncio.gather(
                work(),
                ctx.ask("Your name?", str, key="name"),
                ctx.ask("Your age?", int, key="age"),
            )
        )

    async with working(app):
        job = await ask_two.enqueue()
        waiting = await state_reached(app, job.id, "input_required")
        assert [question.key for question in waiting.questions] == ["name", "age"]
        assert recorded == ["body"], "the step under way was recorded before the suspension"
        assert after_suspension == [], "a sibling must not go on after the suspension"
        await job.answer("Mai", question="name")
        assert (await job.get()).state == "input_required"
        await job.answer(41, question="age")
        assert await job.result(10) == ["done", "Mai", 41]
    assert recorded == ["body"]


async def test_an_ask_in_a_task_group_cancels_the_siblings(app: Benbi) -> None:
    canceled: list[bool] = []

    @app.task
    async def grouped(ctx: Context) -> str:
        async def idle() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                canceled.append(True)
                raise

        if ctx.attempt > 1:
            return await ctx.ask("Go on?", str)
        async with asyncio.TaskGroup() as group:
            group.create_task(idle())
            group.create_task(as_task(ctx.ask("Go on?", str)))
        return "unreachable"

    async with working(app):
        job = await grouped.enqueue()
        await state_reached(app, job.id, "input_required")
        assert canceled == [True]
        await job.answer("yes")
        assert await job.result(10) == "yes"


async def test_a_bare_except_around_ask_is_still_a_suspension(
    app: Benbi, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def careless(ctx: Context) -> str:
        try:
            return await ctx.ask("Colour?", str)
        except:  # noqa: E722
            return "swallowed"

    async with working(app):
        job = await careless.enqueue()
        await state_reached(app, job.id, "input_required")
        assert "caught its suspension" in caplog.text
        await job.answer("blue")
        assert await job.result(10) == "blue"


async def test_return_in_finally_around_ask_is_still_a_suspension(app: Benbi) -> None:
    @app.task
    async def hasty(ctx: Context) -> str:
        answer = "none"
        try:
            answer = await ctx.ask("Colour?", str)
        finally:
            return answer  # noqa: B012

    async with working(app):
        job = await hasty.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("red")
        assert await job.result(10) == "red"


async def test_after_a_swallowed_suspension_the_context_is_closed(app: Benbi) -> None:
    effects: list[str] = []

    @app.task
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.ask("Really?", bool)
        except BaseException:
            await ctx.step(effects.append)("must not run")
        return "went on"

    async with working(app):
        job = await stubborn.enqueue()
        await state_reached(app, job.id, "input_required")
        assert effects == []


@pytest.mark.parametrize(("on_change", "outcome"), [("fail", None), ("keep", 2), ("rerun", 200)])
async def test_changed_arguments_of_a_recorded_step(
    app: Benbi, on_change: Any, outcome: int | None
) -> None:
    async def double(number: int) -> int:
        return number * 2

    @app.task(retry=SOON)
    async def changing(ctx: Context) -> int:
        number = 1 if ctx.attempt == 1 else 100
        value = await ctx.step(double, on_change=on_change)(number)
        if ctx.attempt == 1:
            raise Transient("once more")
        return value

    async with working(app):
        job = await changing.enqueue()
        if outcome is None:
            with pytest.raises(JobFailed, match="other arguments or another function"):
                await job.result(10)
            assert (await job.get()).attempt == 2, "a changed step is never tried again"
        else:
            assert await job.result(10) == outcome


async def test_changed_code_between_steps_gets_no_other_steps_result(app: Benbi) -> None:
    async def first() -> str:
        return "first"

    async def second() -> str:
        return "second"

    @app.task(retry=SOON)
    async def edited(ctx: Context) -> list[str]:
        if ctx.attempt == 1:
            await ctx.step(first)()
            raise Transient("deployed a new version")
        return [await ctx.step(second)(), await ctx.step(first)()]

    async with working(app):
        assert await (await edited.enqueue()).result(10) == ["second", "first"]


async def test_another_function_under_one_step_name_is_noticed(app: Benbi) -> None:
    async def old() -> int:
        return 1

    async def new() -> int:
        return 2

    @app.task(retry=SOON)
    async def renamed(ctx: Context) -> int:
        function = old if ctx.attempt == 1 else new
        value = await ctx.step(function, name="load")()
        if ctx.attempt == 1:
            raise Transient("once more")
        return value

    async with working(app):
        with pytest.raises(JobFailed, match="another function"):
            await (await renamed.enqueue()).result(10)


async def test_first_run_and_replay_see_one_type(app: Benbi) -> None:
    seen: list[type] = []

    async def pair() -> Any:
        return (1, 2)

    async def typed() -> tuple[int, int]:
        return (1, 2)

    @app.task(retry=SOON)
    async def types(ctx: Context) -> None:
        seen.append(type(await ctx.step(pair)()))
        seen.append(type(await ctx.step(typed)()))
        if ctx.attempt == 1:
            raise Transient("once more")

    async with working(app):
        await (await types.enqueue()).result(10)
    assert seen == [list, tuple, list, tuple]


async def test_progress_and_partials_are_not_told_twice(app: Benbi) -> None:
    @app.task
    async def teller(ctx: Context) -> bool:
        await ctx.progress(1, 4, "history loaded")
        await ctx.partial({"gifts": [1, 2, 3]})
        go_on = await ctx.ask("Go on?", bool)
        await ctx.partial({"gifts": [4]})
        return go_on

    async with working(app):
        job = await teller.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer(True)
        assert await job.result(10) is True
    told = [event for event in await log_of(app, job.id) if event.type in ("progress", "partial")]
    assert [event.type for event in told] == ["progress", "partial", "partial"]
    assert [event.data for event in told if event.type == "partial"] == [
        {"gifts": [1, 2, 3]},
        {"gifts": [4]},
    ]


async def test_progress_never_goes_back_on_replay(app: Benbi) -> None:
    @app.task
    async def counter(ctx: Context) -> bool:
        for done in range(25 if ctx.attempt == 1 else 50):
            await ctx.progress(done + 1, 50, f"chunk {done + 1 + ctx.attempt}")
        return await ctx.ask("Go on?", bool)

    async with working(app):
        job = await counter.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer(True)
        assert await job.result(10) is True
    told = [event.data["done"] for event in await log_of(app, job.id) if event.type == "progress"]
    assert told == sorted(told) and told[-1] == 50


async def test_a_sleep_is_slept_once(app: Benbi) -> None:
    @app.task(retry=SOON)
    async def napper(ctx: Context) -> int:
        await ctx.sleep(0.05)
        if ctx.attempt == 2:
            raise Transient("once more")
        return ctx.attempt

    async with working(app):
        job = await napper.enqueue()
        assert await job.result(10) == 3
    states = [e.type for e in await log_of(app, job.id) if e.type not in ("progress", "partial")]
    assert states == [
        *("created", "started", "scheduled", "pending"),
        *("started", "retrying", "pending", "started", "completed"),
    ]
    assert (await job.get()).failures == 1, "sleeping charges nothing"


async def test_now_uuid_and_random_are_the_same_on_replay(app: Benbi) -> None:
    seen: list[Any] = []

    @app.task(retry=SOON)
    async def chance(ctx: Context) -> None:
        seen.append((await ctx.now(), await ctx.uuid(), await ctx.random()))
        if ctx.attempt == 1:
            raise Transient("once more")

    async with working(app):
        await (await chance.enqueue()).result(10)
    assert len(seen) == 2 and seen[0] == seen[1]


async def test_fresh_retry_by_hand_runs_the_steps_again(app: Benbi) -> None:
    bodies: list[int] = []

    def load() -> int:
        bodies.append(1)
        return len(bodies)

    @app.task(retry=1)
    async def fragile(ctx: Context) -> int:
        value = await ctx.step(load)()
        if ctx.attempt < 3:
            raise RuntimeError("no")
        return value

    async with working(app):
        job = await fragile.enqueue()
        with pytest.raises(JobFailed):
            await job.result(10)
        await job.retry()
        with pytest.raises(JobFailed):
            await job.result(10)
        assert bodies == [1], "a retry by hand keeps the recorded steps"
        await job.retry(fresh=True)
        assert await job.result(10) == 2
    assert (await job.get()).generation == 2


async def test_sync_tasks_replay_alike(app: Benbi) -> None:
    bodies: list[str] = []

    def load(name: str) -> str:
        bodies.append(name)
        return name.upper()

    @app.task(retry=SOON)
    def blocking(ctx: SyncContext) -> str:
        text = ctx.step(load)("a") + ctx.step(load)("b")
        ctx.progress(1, 2, "loaded")
        ctx.partial(text)
        ctx.sleep(0.02)
        if ctx.attempt == 2:
            raise Transient("once more")
        return text + ctx.ask("And?", str)

    async with working(app):
        job = await blocking.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("!")
        assert await job.result(10) == "AB!"
    assert bodies == ["a", "b"]


async def test_a_step_tries_again_in_its_place(app: Benbi) -> None:
    tries: list[int] = []

    async def flaky() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise Transient("not yet")
        return len(tries)

    @app.task(retry=1)
    async def patient(ctx: Context) -> int:
        return await ctx.step(flaky, retry=SOON)()

    async with working(app):
        job = await patient.enqueue()
        assert await job.result(10) == 3
    assert (await job.get()).attempt == 1
    types = [event.type for event in await log_of(app, job.id)]
    assert types.count("step_failed") == 2 and types.count("step_completed") == 1


async def test_a_long_back_off_of_a_step_frees_the_slot_uncharged(app: Benbi) -> None:
    async def limited() -> int:
        raise Transient("later", retry_after=600)

    @app.task(retry=1)
    async def polite(ctx: Context) -> int:
        return await ctx.step(limited, retry=Retry(attempts=5))()

    async with working(app):
        job = await polite.enqueue()
        record = await state_reached(app, job.id, "scheduled")
    assert record.failures == 0
    assert (record.run_at - record.created_at).total_seconds() > 500


async def test_the_key_is_stable_over_attempts_and_apart_for_steps(app: Benbi) -> None:
    keys: list[tuple[str, str]] = []

    @app.task(retry=SOON)
    async def keyed(ctx: Context) -> None:
        async def inside() -> str:
            return ctx.key

        keys.append((ctx.key, await ctx.step(inside)()))
        if ctx.attempt == 1:
            raise Transient("once more")

    async with working(app):
        await (await keyed.enqueue()).result(10)
    assert keys[0] == keys[1]
    assert keys[0][0] != keys[0][1]


async def test_a_step_whose_annotation_can_not_be_resolved_says_so(app: Benbi) -> None:
    @dataclass
    class Local:
        name: str

    async def load() -> Local:
        return Local("here only")

    @app.task
    async def read(ctx: Context) -> str:
        return (await ctx.step(load)()).name

    async with working(app):
        with pytest.raises(JobFailed, match="'Local' can not be resolved"):
            await (await read.enqueue()).result(10)


async def test_only_the_result_of_a_step_need_be_resolved(app: Benbi) -> None:
    async def load(where: Elsewhere) -> Page:  # type: ignore[name-defined]  # noqa: F821
        return Page("typed")

    @app.task
    async def read(ctx: Context) -> str:
        return (await ctx.step(load)("there")).title

    async with working(app):
        assert await (await read.enqueue()).result(10) == "typed"


async def test_a_suspension_that_is_let_through_is_no_fault(
    app: Benbi, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task
    async def patient(ctx: Context) -> str:
        await ctx.sleep(0.01)
        return await ctx.ask("Well?")

    async with working(app):
        job = await patient.enqueue()
        await state_reached(app, job.id, "input_required")
        await job.answer("yes")
        assert await job.result(10) == "yes"
    assert not caplog.records


@pytest.mark.parametrize("duration", [float("nan"), -1, "soon", 1e30])
async def test_what_is_no_duration_fails_at_once(app: Benbi, duration: Any) -> None:
    @app.task
    async def snoozes() -> None:
        raise Snooze(duration)

    @app.task
    async def sleeps(ctx: Context) -> None:
        await ctx.sleep(duration)

    @app.task
    async def asks(ctx: Context) -> None:
        await ctx.ask("Well?", timeout=duration)

    async with working(app):
        for task in (snoozes, sleeps, asks):
            job = await task.enqueue()
            with pytest.raises(JobFailed, match=r"permanent.*seconds"):
                await job.result(10)
            assert (await job.get()).attempt == 1


async def test_durations_may_be_words(app: Benbi) -> None:
    @app.task
    async def snoozes() -> None:
        raise Snooze("1h")

    @app.task
    async def sleeps(ctx: Context) -> None:
        await ctx.sleep(timedelta(hours=1))

    async with working(app):
        for task in (snoozes, sleeps):
            record = await state_reached(app, (await task.enqueue()).id, "scheduled")
            assert 3500 < (record.run_at - record.created_at).total_seconds() < 3700


async def test_a_step_of_a_call_instead_of_a_function_says_what_to_write(app: Benbi) -> None:
    async def load(page: int) -> int:
        return page

    @app.task
    async def read(ctx: Context) -> int:
        called: Any = load(1)
        return await ctx.step(called)()

    async with working(app):
        with pytest.raises(JobFailed, match=r"bug.*ctx\.step\(fn\)\(…\)"):
            await (await read.enqueue()).result(10)


async def test_an_error_without_a_message_is_told_by_its_type(app: Benbi) -> None:
    @app.task(retry=1)
    async def dawdles() -> None:
        raise TimeoutError

    async with working(app):
        with pytest.raises(JobFailed, match="TimeoutError"):
            await (await dawdles.enqueue()).result(10)


async def test_a_question_that_no_database_takes_ends_its_job(app: Benbi) -> None:
    @app.task
    async def asks(ctx: Context) -> None:
        await ctx.ask("half a pair: \ud83d")

    async with working(app):
        job = await asks.enqueue()
        with pytest.raises(JobFailed, match="unstorable"):
            await job.result(10)
    assert (await job.get()).questions == ()


async def test_a_snooze_with_a_strange_reason_ends_its_job(app: Benbi) -> None:
    @app.task
    async def snoozes() -> None:
        reason: Any = object()
        raise Snooze(1, reason)

    async with working(app):
        with pytest.raises(JobFailed, match="unstorable"):
            await (await snoozes.enqueue()).result(10)
