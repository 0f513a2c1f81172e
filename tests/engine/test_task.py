"""What may be a task, what is said of it, and the calls that are made of it."""

from __future__ import annotations

import asyncio
import functools
import math
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pytest
from pydantic import Field

import benbi
from benbi import Benbi, Context, JobFailed, Retry, SyncContext, Task, Tool
from benbi.codec import compile_signature
from benbi.errors import InvalidArguments, Refused, TaskDefinitionError
from benbi.options import Options
from tests.engine import unresolved


class Opaque:
    pass


async def analyse(ctx: Context, household: int, budget: float = 1.0) -> str:
    """Finds gifts.

    At length.
    """
    return f"{household} {budget}"


def blocking(ctx: SyncContext, household: int) -> str:
    return str(household)


@pytest.fixture
def app() -> Benbi:
    return Benbi("sqlite://")


def test_a_task_takes_the_name_and_doc_of_its_function_and_still_is_one(app: Benbi) -> None:
    task = app.task(analyse)
    assert isinstance(task, Task)
    assert app.tasks == {"analyse": task}
    assert (task.name, task.__name__, task.queue) == ("analyse", "analyse", "default")
    assert task.doc == "Finds gifts.\n\nAt length."
    assert (task.retry, task.timeout, task.tool, task.aliases) == (Retry(3), None, None, ())
    assert (task.max_losses, task.keep, task.grace, task.exclusive) == (3, None, 10.0, False)
    assert repr(task) == "<Task analyse(household, budget)>"
    coroutine = task(None, 1, budget=2.0)
    with pytest.raises(StopIteration, match=r"1 2\.0"):
        coroutine.send(None)


def test_settings_are_kept_and_durations_are_seconds(app: Benbi) -> None:
    task = app.task(
        name="find-gifts",
        queue="gifts",
        retry=5,
        timeout=timedelta(minutes=5),
        tool=True,
        aliases=["find_gifts"],
        max_losses=1,
        keep="7d",
        grace="1m30s",
        exclusive=True,
    )(analyse)
    assert (task.name, task.queue, task.retry) == ("find-gifts", "gifts", Retry(attempts=5))
    assert (task.timeout, task.keep, task.grace) == (300.0, 604_800.0, 90.0)
    assert task.tool == Tool()
    assert (task.aliases, task.max_losses, task.exclusive) == (("find_gifts",), 1, True)
    other = app.task(name="other", retry=Retry(2, unknown=False), tool=Tool(wait=5))(analyse)
    assert other.retry == Retry(attempts=2, unknown=False)
    assert other.tool == Tool(wait=5)


def test_a_tool_says_seconds() -> None:
    assert Tool().same_call_within == 600.0
    assert Tool(same_call_within="1h30m").same_call_within == 5_400.0
    assert Tool(same_call_within=None).same_call_within is None
    for wrong in [
        {"same_call_within": "ten"},
        {"same_call_within": "10"},
        {"same_call_within": 0},
        {"wait": -1},
        {"wait": math.nan},
        {"required": "yes"},
        {"description": 5},
    ]:
        with pytest.raises(TaskDefinitionError, match=r"Tool\(" + next(iter(wrong))):
            Tool(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"retry": 0}, "retry=0"),
        ({"retry": True}, "retry=True"),
        ({"retry": "often"}, "retry='often'"),
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1}, "timeout=-1"),
        ({"timeout": math.inf}, "timeout=inf"),
        ({"timeout": math.nan}, "timeout=nan"),
        ({"timeout": True}, "timeout=True"),
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"timeout": 10**12}, "ten years"),
        ({"keep": "0s"}, "keep='0s'"),
        ({"grace": -0.5}, "grace=-0.5"),
        ({"queue": ""}, "queue=''"),
        ({"queue": 5}, "queue=5"),
        ({"queue": "a\x00b"}, "NUL"),
        ({"queue": "q\ud800"}, "surrogates"),
        ({"tool": "yes"}, "tool='yes'"),
        ({"tool": True, "name": "x.y"}, "MCP hosts"),
        ({"tool": True, "name": "x" * 65}, "MCP hosts"),
        ({"aliases": "old"}, "aliases='old': a list"),
        ({"aliases": ["old name"]}, "alias 'old name'"),
        ({"max_losses": 0}, "max_losses=0"),
        ({"name": ""}, "name=''"),
        ({"name": "a b"}, "name='a b'"),
        ({"name": "1a"}, "name='1a'"),
        ({"name": "x" * 129}, "128 characters"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    app: Benbi, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        app.task(**settings)(analyse)
    assert problem in str(caught.value)
    assert not app.tasks


def test_only_a_function_with_a_name_can_be_registered(app: Benbi) -> None:
    with pytest.raises(TaskDefinitionError, match=r"say @app\.task"):
        app.task(lambda a: a)
    with pytest.raises(TaskDefinitionError, match=r"say @app\.task"):
        app.task(functools.partial(analyse, budget=5))
    with pytest.raises(TaskDefinitionError, match="is no function"):
        app.task("gifts")  # type: ignore[call-overload]
    with pytest.raises(TaskDefinitionError, match="is a class"):
        app.task(Opaque)

    def nested(a: int) -> int:
        return a

    assert app.task(nested).name == "nested"
    assert app.task(name="double")(lambda a: a * 2).call(4).arguments == '{"a":4}'
    partial = app.task(name="rich")(functools.partial(analyse, budget=5.0))
    assert partial.signature.is_async
    assert partial.call(1).arguments == '{"household":1,"budget":5.0}'


def test_a_name_or_alias_is_taken_once(app: Benbi) -> None:
    app.task(analyse)
    with pytest.raises(TaskDefinitionError, match="'analyse'"):
        app.task(name="other", aliases=["analyse"])(blocking)


# Contexts


def test_the_context_is_no_argument() -> None:
    signature = compile_signature(analyse, name="f")
    assert signature.takes_context and signature.is_async
    assert (signature.context_kind, signature.parameters) == ("async", ("household", "budget"))
    assert set(signature.arguments_schema["properties"]) == {"household", "budget"}
    plain = compile_signature(blocking, name="f")
    assert (plain.context_kind, plain.is_async) == ("sync", False)


def test_a_context_is_found_behind_every_spelling() -> None:
    def qualified(context: benbi.SyncContext, a: int) -> None: ...
    def positional(context: SyncContext, /, a: int) -> None: ...
    def annotated(context: Annotated[SyncContext, "x"], a: int) -> None: ...

    class MyContext(SyncContext):
        pass

    def derived(context: Any, a: int) -> None: ...

    derived.__annotations__["context"] = MyContext

    for fn in (qualified, positional, annotated, derived, unresolved.with_context):
        signature = compile_signature(fn, name="f")
        assert (signature.context_kind, signature.parameters) == ("sync", ("a",)), fn
    assert compile_signature(unresolved.with_async_context, name="f").context_kind == "async"


def without_annotation(ctx, a: int) -> None: ...  # type: ignore[no-untyped-def]
def context_last(a: int, ctx: SyncContext) -> None: ...
def context_twice(ctx: SyncContext, other: SyncContext) -> None: ...
def context_or_none(ctx: SyncContext | None, a: int) -> None: ...
def context_by_name(*, ctx: SyncContext, a: int) -> None: ...
def plain_with_async_context(ctx: Context, a: int) -> None: ...
async def async_with_sync_context(ctx: SyncContext, a: int) -> None: ...
def many(*rows: int) -> None: ...
def named(**rows: int) -> None: ...
def only_positional(a: int, /, b: int) -> None: ...
def opaque(a: int, client: list[Opaque]) -> None: ...
def opaque_result(a: int) -> Opaque: ...  # type: ignore[empty-body]
def callback(a: int, then: Callable[[], int]) -> None: ...
def stream(a: int, rows: Iterator[int]) -> None: ...
def wrong_default(a: int = None) -> None: ...  # noqa: RUF013
def negative_default(a: Annotated[int, Field(gt=0)] = -1) -> None: ...
def field_default(a: int = Field(5)) -> None: ...
def aliased(a: Annotated[int, Field(alias="A")]) -> None: ...
def generator(a: int) -> Iterator[int]:
    yield a


async def async_generator(a: int) -> AsyncIterator[int]:
    yield a


class Service:
    def method(self, a: int) -> int:
        return a

    def bound(self: Service, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("fn", "parameter", "remedy"),
    [
        (without_annotation, "'ctx'", "annotate it (`ctx: Context`"),
        (context_last, "'ctx'", "move it there"),
        (context_twice, "'other'", "must be the first"),
        (context_or_none, "'ctx'", "annotate it as plain Context"),
        (context_by_name, "'ctx'", "before the `*`"),
        (plain_with_async_context, "'ctx'", "annotate it as SyncContext"),
        (async_with_sync_context, "'ctx'", "annotate it as Context"),
        (many, "'*rows'", "take a list"),
        (named, "'**rows'", "a dict"),
        (only_positional, "'a'", "remove the `/`"),
        (opaque, "'client'", "test_task.Opaque"),
        (opaque_result, "the result", "test_task.Opaque"),
        (callback, "'then'", "has no form in JSON"),
        (stream, "'rows'", "has no form in JSON"),
        (wrong_default, "'a'", "annotate it as int | None"),
        (negative_default, "'a'", "greater than 0"),
        (field_default, "'a'", "a: Annotated[int, Field(…)] = value"),
        (aliased, "'a'", "travel by name"),
        (generator, "generator", "ctx.partial"),
        (async_generator, "generator", "ctx.partial"),
        (Service.method, "'self'", "use a function"),
        (unresolved.needs_decimal, "'price'", "outside `if TYPE_CHECKING:`"),
        (unresolved.gives_decimal, "the result", "outside `if TYPE_CHECKING:`"),
        (unresolved.make_local(), "'row'", "define classes outside functions"),
        (unresolved.foreign_context, "'ctx'", "from benbi import Context"),
        (unresolved.renamed_context, "'ctx'", "outside `if TYPE_CHECKING:`"),
        (len, "'obj'", "remove the `/`"),
    ],
)
def test_what_can_not_be_a_task_is_refused_with_a_remedy(
    app: Benbi, fn: Any, parameter: str, remedy: str
) -> None:
    with pytest.raises(TaskDefinitionError) as caught:
        app.task(fn)
    message = str(caught.value)
    assert message.startswith(f"task {fn.__name__}: ")
    assert parameter in message
    assert remedy in message
    assert not app.tasks


def test_what_looks_odd_but_can_be_a_task() -> None:
    def never(a: int) -> NoReturn:
        raise NotImplementedError

    def keyword_only(*, _a: int, model_config: str = "x") -> None: ...

    class Callable_:
        async def __call__(self, ctx: Context, a: int) -> int:
            return a

    @functools.wraps(analyse)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return analyse(*args, **kwargs)

    assert compile_signature(never, name="f").result.encode(None) == "null"
    keyword = compile_signature(keyword_only, name="f")
    assert keyword.encode_call((), {"_a": 1}) == '{"_a":1,"model_config":"x"}'
    assert keyword.decode('{"_a":1,"model_config":"x"}') == {"_a": 1, "model_config": "x"}
    called = compile_signature(Callable_(), name="f")
    assert (called.is_async, called.context_kind, called.parameters) == (True, "async", ("a",))
    wrapped = compile_signature(decorated, name="f")
    assert (wrapped.is_async, wrapped.parameters) == (True, ("household", "budget"))
    bound = compile_signature(Service().bound, name="f")
    assert bound.parameters == ("a",)


# Calls and options


def test_a_call_is_checked_where_it_is_made(app: Benbi) -> None:
    task = app.task(analyse)
    call = task.call(17, budget=2)
    assert call.task is task
    assert call.arguments == '{"household":17,"budget":2.0}'
    assert call.options == Options()
    bound = task.options(key="k", owner="u1", priority=5, delay="30s", queue="q").call(17)
    assert bound.options == Options(key="k", owner="u1", priority=5, delay=30.0, queue="q")
    with pytest.raises(InvalidArguments, match="household: missing"):
        task.call()  # type: ignore[call-arg]
    with pytest.raises(InvalidArguments, match="colour: unknown"):
        task.call(1, colour="red")  # type: ignore[call-arg]


def test_a_parameter_may_be_called_as_our_own_are(app: Benbi) -> None:
    @app.task
    def odd(args: int, kwargs: int, key: str, task: str) -> None: ...

    call = odd.call(args=1, kwargs=2, key="k", task="t")
    assert call.arguments == '{"args":1,"kwargs":2,"key":"k","task":"t"}'


async def test_enqueue_gives_a_handle_of_a_stored_job(app: Benbi) -> None:
    task = app.task(analyse)
    async with app:
        handle = await task.options(owner="u1", priority=7).enqueue(17)
        assert str(uuid.UUID(handle.id)) == handle.id
        job = await handle.get()
        assert (job.task, job.owner, job.priority) == ("analyse", "u1", 7)
        assert (await (await task.enqueue(1)).get()).owner == ""


def test_enqueue_sync_gives_a_handle_of_a_stored_job(app: Benbi) -> None:
    task = app.task(blocking)
    handle = task.enqueue_sync(17)
    assert handle.get_sync().task == "blocking"
    assert task.options(owner="u2").enqueue_sync(18).get_sync().owner == "u2"
    app.close_sync()


async def test_a_call_of_another_app_is_refused(tmp_path: Path) -> None:
    """It would be stored where nobody knows its task. Inside a job, too."""
    app, other = (Benbi(str(tmp_path / name)) for name in ("one.db", "other.db"))
    foreign = other.task(analyse).call(17)

    @app.task(retry=1)
    async def adds(ctx: Context) -> None:
        await ctx.run([foreign])

    @app.task(retry=1)
    def adds_sync(ctx: SyncContext) -> None:
        ctx.run([foreign])

    said = "task analyse is one of another app"
    for stores in (app.run, app.enqueue_many):
        with pytest.raises(Refused, match=said):
            await stores([adds.call(), foreign])
    with pytest.raises(Refused, match=said):
        await app.enqueue_many([foreign], atomic=False)
    assert await app.jobs() == []
    async with app, app.working():
        for job in await app.enqueue_many([adds.call(), adds_sync.call()]):
            with pytest.raises(JobFailed, match=said):
                await job.result(10)
    for stores_sync in (app.run_sync, app.enqueue_many_sync):
        with pytest.raises(Refused, match=said):
            await asyncio.to_thread(stores_sync, [foreign])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": ""}, "key is 0 bytes"),
        ({"key": "é" * 101}, "key is 202 bytes"),
        ({"key": 5}, "key=5"),
        ({"key": "a\x00"}, "NUL"),
        ({"owner": None}, "owner=None"),
        ({"owner": "u\ud800"}, "surrogates"),
        ({"priority": 32_768}, "priority=32768"),
        ({"priority": -32_768}, "priority=-32768"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"priority": True}, "priority=True"),
        ({"delay": -1}, "delay=-1"),
        ({"delay": math.nan}, "delay=nan"),
        ({"delay": math.inf}, "delay=inf"),
        ({"delay": "tomorrow"}, "delay='tomorrow'"),
        ({"delay": 1, "run_at": datetime.now(UTC)}, "say one of them"),
        ({"run_at": datetime(2026, 11, 30, 12)}, "no time zone"),
        ({"run_at": 1_764_500_000}, "a datetime with a time zone"),
        ({"queue": " "}, "queue=' '"),
        ({"expires_in": 0}, "more than 0"),
        ({"same_call_within": -5}, "same_call_within=-5"),
    ],
)
def test_a_wrong_option_is_refused(app: Benbi, options: dict[str, Any], problem: str) -> None:
    task = app.task(analyse)
    with pytest.raises(Refused) as caught:
        task.options(**options)
    assert problem in str(caught.value)


def test_the_limits_of_options_are_inside() -> None:
    Options(key="é" * 100, priority=32_767)
    Options(priority=-32_767, delay=0, run_at=None, expires_in=0.001)
    assert Options(run_at=datetime.now(UTC)).delay is None


# Code versions


def version_of(source: str) -> str:
    scope: dict[str, Any] = {}
    exec(source, scope)
    return Benbi("sqlite://").task(scope["f"]).code_version


def test_a_code_version_follows_the_code_and_nothing_else() -> None:
    one = version_of("def f(a: int): return a in {'x', 'y', 1}")
    assert len(one) == 12
    assert version_of("\n\n# moved\ndef f(a: int): return a in {'x', 'y', 1}") == one
    assert version_of("def f(a: int): return a in {'x', 'z', 1}") != one
    assert version_of("def f(a: float): return a in {'x', 'y', 1}") != one
    inner = version_of("def f(a: int): return (lambda: a + 1)()")
    assert version_of("def f(a: int): return (lambda: a + 2)()") != inner
