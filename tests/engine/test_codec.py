"""Values come back from JSON as they went in, with their types, or are refused by path."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import math
import os
import re
import socket
import subprocess
import sys
import typing
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    computed_field,
)
from typing_extensions import TypedDict

from benbi.codec import (
    Codec,
    arguments_hash,
    check_against_schema,
    codec_for,
    compile_signature,
    fingerprint,
)
from benbi.errors import InvalidArguments, NotEncodable, Refused, TaskDefinitionError
from benbi.roundtrip import type_name

# What changes from one run to the next is no name: addresses, and the order of a set.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|[{].*[}]")


def numbered(cases: list[Any]) -> list[Any]:
    """Cases with ids of their own; some of the values can not be written out."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*row, id=f"{nth}-{_ADDRESS.sub('', type_name(row[0]))}")
        for nth, row in enumerate(rows)
    ]


def strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.StrEnum):
    SMALL = "s"


class Point(NamedTuple):
    x: int
    y: int


class Filter(TypedDict):
    segment: str
    limit: int


@dataclasses.dataclass
class Gift:
    name: str
    price: float
    tags: set[str] = dataclasses.field(default_factory=set)


class Report(BaseModel):
    household: int
    gifts: list[Gift] = []
    score: float | None = None
    extra: dict[str, Any] = {}


class DetailedReport(Report):
    details: str = ""


class OtherReport(Report):
    pass


class Aliased(BaseModel):
    job_id: str = Field(alias="jobId")
    poll_after: int = Field(5, validation_alias="pollIn", serialization_alias="pollOut")


class Counted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    items: list[int]

    @computed_field
    def total(self) -> int:
        return sum(self.items)


class Opaque:
    pass


NOW = datetime(2026, 11, 30, 12, 30, 1, 250, tzinfo=timezone(timedelta(hours=7)))


@pytest.mark.parametrize(
    ("annotation", "value"),
    numbered(
        [
            (int, 10**30),
            (float, -0.1),
            (str, "bền bỉ \x00 \u2028"),
            (bytes, b"plain"),
            (type(None), None),
            (Gift, Gift("tea", 4.5, {"a", "b"})),
            (Report, Report(household=1, gifts=[Gift("tea", 4.5)], extra={"a": [1, None]})),
            (list[Report], [Report(household=1, score=0.5)]),
            (Aliased, Aliased.model_validate({"jobId": "1", "pollIn": 7})),
            (Counted, Counted(items=[1, 2])),
            (Filter, Filter(segment="dairy", limit=3)),
            (Colour, Colour.BLUE),
            (dict[Colour, int], {Colour.RED: 1}),
            (Point, Point(1, 2)),
            (list[Point], [Point(1, 2)]),
            (tuple[int, str], (1, "a")),
            (tuple[int, ...], (1, 2, 3)),
            (set[str], {"b", "a"}),
            (frozenset[int], frozenset({3, 1})),
            (dict[int, str], {1: "a", 2: "b"}),
            (dict[uuid.UUID, date], {uuid.UUID(int=7): date(2026, 1, 2)}),
            (datetime, NOW),
            (datetime, datetime(2026, 1, 1, 3, 4, 5, 6)),
            (timedelta, timedelta(days=-3, microseconds=1)),
            (uuid.UUID, uuid.UUID(int=7)),
            (Decimal, Decimal("1.10")),
            (Path, Path("a/b")),
            (Literal["a", 1], 1),
            (datetime | None, None),
            (int | str, "5"),
            (str | int, 5),
            (Gift | Point | None, Point(1, 2)),
            (Annotated[int, Field(gt=0)], 3),
            (Any, {"a": [1, 2.5, "x", True, None, {"b": []}]}),
            (Any, Size.SMALL),
            (OrderedDict[str, int], OrderedDict(b=1, a=2)),
        ]
    ),
)
def test_a_value_comes_back_equal_and_of_its_type(annotation: Any, value: Any) -> None:
    codec: Codec[Any] = codec_for(annotation)
    text = codec.encode(value)
    strict_json(text)
    back = codec.decode(text)
    assert back == value
    if not isinstance(value, Size):  # JSON has no StrEnum; it is equal to its text
        assert type(back) is type(value)
    assert codec.encode(back) == text


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(), parts, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_whatever_json_has_comes_back_under_any(value: Any) -> None:
    codec = codec_for(Any)
    assert codec.decode(codec.encode(value)) == value


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-16", categories=["L", "Cs"]))
    | st.binary(max_size=4)
    | st.datetimes()
    | st.uuids()
    | st.just(Colour.RED),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.tuples(parts)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.none(), parts, max_size=3)
        | st.frozensets(st.integers(), max_size=2)
    ),
    max_leaves=8,
)


def as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [as_lists(part) for part in value]
    if isinstance(value, dict):
        return {key: as_lists(part) for key, part in value.items()}
    return value


@settings(max_examples=300)
@given(ANYTHING)
def test_a_value_is_refused_or_comes_back_and_never_comes_back_changed(value: Any) -> None:
    codec = codec_for(Any)
    try:
        text = codec.encode(value)
    except NotEncodable as error:
        assert "$" in str(error)
    else:
        assert strict_json(text) == codec.decode(text) == as_lists(value)


def circle() -> Any:
    rows: list[Any] = []
    rows.append(rows)
    return rows


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "value", "path", "remedy"),
    numbered(
        [
            (float, math.nan, "$", "use None"),
            (Any, {"a": {"b": [1, 2, math.inf]}}, "$.a.b[2]", "use None"),
            (Report, Report(household=1, score=math.nan), "$.score", "use None"),
            (Report, Report(household=1, extra={"x": -math.inf}), "$.extra.x", "use None"),
            (Gift | None, Gift("tea", math.nan), "$.price", "use None"),
            (dict[str, Any], {"a": {1: "x"}}, "$.a", "annotate it as dict[int, …]"),
            (Any, [{"a b": {None: 1}}], '$[0]["a b"]', "str keys"),
            (list, [{1, 2}], "$[0]", "annotate it as set[…]"),
            (Any, {"at": NOW}, "$.at", "annotate it as datetime.datetime"),
            (Any, Decimal("1.1"), "$", "annotate it as decimal.Decimal"),
            (Any, [Point(1, 2)], "$[0]", "annotate it as"),
            (Any, {"g": Gift("tea", 1)}, "$.g", "annotate it as"),
            (Any, {"r": Report(household=1)}, "$.r", "annotate it as"),
            (Any, [b"plain"], "$[0]", "base64"),
            (bytes, b"\xff", "$", "base64"),
            (Any, {"a": "x\ud800"}, "$.a", "index 1"),
            (str, "\udfff", "$", "index 0"),
            (Any, {"k\ud800": 1}, "$", "index 1"),
            (Any, {"a": [Opaque()]}, "$.a[0]", "test_codec.Opaque"),
            (Report, DetailedReport(household=1, details="x"), "$", "annotate"),
            (Report, OtherReport(household=1), "$", "annotate"),
            (Any, circle(), "$[0]", "flatten"),
            (Any, nested(300), "$[0]", "flatten"),
            (int, "many", "$", "valid integer"),
            (int, None, "$", "got NoneType"),
            (dict[str, int], {None: 1}, "$", "str"),
            (dict[float, int], {math.nan: 1}, "$", "key"),
            (dict[tuple[int, int], str], {(1, 2): "a"}, "$ ", "key '1,2'"),
            (Report, {"household": "x"}, "$.household", "valid integer"),
            (type(None), 5, "$", "None"),
            (Report, Report.model_construct(household="x"), "$.household", "valid integer"),
            (Annotated[int, AfterValidator(lambda n: n + 1)], 1, "$", "validators"),
            (Any, (n for n in range(3)), "$", "generator"),
        ]
    ),
)
def test_what_json_can_not_carry_is_refused_with_path_and_remedy(
    annotation: Any, value: Any, path: str, remedy: str
) -> None:
    with pytest.raises(NotEncodable) as caught:
        codec_for(annotation).encode(value, "the result of f")
    message = str(caught.value)
    assert message.startswith(f"the result of f: {path}"), message
    assert remedy in message
    assert "http" not in message


def test_a_coroutine_that_nobody_awaited_is_named() -> None:
    async def late() -> int:
        return 1

    coroutine = late()
    with pytest.raises(NotEncodable, match="nobody awaited"):
        codec_for(int).encode(coroutine)  # type: ignore[arg-type]
    assert asyncio.run(coroutine) == 1


def test_a_value_of_another_type_is_converted_as_an_argument_would_be() -> None:
    report = codec_for(Report).encode({"household": "17"})  # type: ignore[arg-type]
    assert codec_for(Report).decode(report) == Report(household=17)
    assert codec_for(list[int]).encode((1, 2)) == "[1,2]"
    assert codec_for(float).decode(codec_for(float).encode(3)) == 3.0


def test_tuples_without_an_annotation_come_back_as_lists() -> None:
    codec = codec_for(Any)
    assert codec.decode(codec.encode([(1, "a"), (2, "b")])) == [[1, "a"], [2, "b"]]


def test_text_that_is_none_of_the_type_is_refused_on_the_way_back() -> None:
    with pytest.raises(Refused, match=r"the answer: \$\.household"):
        codec_for(Report).decode('{"household": []}', "the answer")
    with pytest.raises(Refused):
        codec_for(Any).decode("{")


def test_an_alias_that_can_not_be_read_back_is_not_written() -> None:
    value = Aliased.model_validate({"jobId": "1", "pollIn": 7})
    assert "pollOut" not in codec_for(Aliased).encode(value)
    assert set(codec_for(Aliased).schema["properties"]) == {"job_id", "poll_after"}


def test_codecs_are_compiled_once_and_unions_keep_their_order() -> None:
    assert codec_for(Report) is codec_for(Report)
    assert codec_for(list[int]) is codec_for(list[int])
    assert codec_for(int | str) is not codec_for(str | int)
    unhashable = Annotated[int, Field(json_schema_extra={"x": 1}), ["not hashable"]]
    assert codec_for(unhashable).decode("3") == 3


@pytest.mark.parametrize(
    "annotation",
    numbered(
        [Opaque, list[Opaque], typing.Callable[[], int], typing.Iterable[int], type[int], "Missing"]
    ),
)
def test_a_type_without_a_form_in_json_is_named(annotation: Any) -> None:
    with pytest.raises(TaskDefinitionError, match="has no form in JSON"):
        codec_for(annotation)


# Calls


def analyse(household: int, budget: float = 1.0, *, tags: set[str] | None = None) -> Report:
    raise NotImplementedError


def untyped(a, b=None):
    raise NotImplementedError


def typed(at: datetime, gift: Gift, by: Annotated[int, Field(gt=0, description="Steps")]) -> None:
    raise NotImplementedError


ANALYSE = compile_signature(analyse, name="analyse")
UNTYPED = compile_signature(untyped, name="untyped")
TYPED = compile_signature(typed, name="typed")


def test_equal_calls_are_equal_text() -> None:
    text = '{"household":17,"budget":2.0,"tags":null}'
    assert ANALYSE.encode_call((17, 2), {}) == text
    assert ANALYSE.encode_call((), {"budget": 2.0, "household": "17"}) == text
    assert ANALYSE.encode_mapping({"tags": None, "budget": 2, "household": 17}) == text
    assert ANALYSE.decode(text) == {"household": 17, "budget": 2.0, "tags": None}


def test_defaults_are_stored_so_that_a_later_one_changes_no_accepted_job() -> None:
    assert ANALYSE.encode_call((17,), {}) == '{"household":17,"budget":1.0,"tags":null}'
    assert ANALYSE.encode_mapping({"household": 17}) == ANALYSE.encode_call((17,), {})


def test_a_parameter_that_is_younger_than_the_call_is_left_to_the_function() -> None:
    assert ANALYSE.decode('{"household":17}') == {"household": 17}


def test_a_call_without_arguments() -> None:
    def nothing() -> None: ...
    def optional(a: int = 3) -> None: ...

    nothing_, optional_ = (compile_signature(fn, name="f") for fn in (nothing, optional))
    assert nothing_.encode_call((), {}) == nothing_.encode_mapping({}) == "{}"
    assert nothing_.decode("{}") == {}
    assert optional_.encode_call((), {}) == optional_.encode_mapping({}) == '{"a":3}'
    assert optional_.decode("{}") == {}
    with pytest.raises(InvalidArguments, match="household: missing"):
        ANALYSE.decode("{}")
    with pytest.raises(InvalidArguments, match="a: unknown; it takes no arguments"):
        nothing_.encode_mapping({"a": 1})


def test_sets_have_one_order_in_every_process() -> None:
    code = (
        "from benbi.codec import compile_signature\n"
        "def f(household: int, tags: set[str]) -> None: ...\n"
        "call = compile_signature(f, name='f').encode_call\n"
        "print(call((1,), {'tags': {'a', 'b', 'c', 'd', 'e'}}))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert texts == {'{"household":1,"tags":["a","b","c","d","e"]}\n'}


def test_sets_inside_models_and_lists_are_sorted_too() -> None:
    gifts = [Gift("x", 1.0, {f"t{n}" for n in range(9)}), Gift("y", 2.0, {"b", "a"})]
    text = codec_for(dict[str, list[Gift]]).encode({"all": gifts})
    assert [gift["tags"] for gift in json.loads(text)["all"]] == [
        [f"t{n}" for n in range(9)],
        ["a", "b"],
    ]


def test_a_door_speaks_json() -> None:
    arguments = {
        "at": "2026-11-30T12:00:00Z",
        "gift": {"name": "tea", "price": 1, "tags": ["b", "a", "a"]},
        "by": 2,
    }
    text = TYPED.encode_mapping(arguments)
    back = TYPED.decode(text)
    assert back["at"] == datetime(2026, 11, 30, 12, tzinfo=UTC)
    assert back["gift"] == Gift("tea", 1.0, {"a", "b"})
    assert TYPED.encode_call((back["at"], back["gift"], 2), {}) == text


def test_a_door_takes_pythons_values_too() -> None:
    gift = Gift("tea", 1.0)
    text = TYPED.encode_mapping({"at": NOW, "gift": gift, "by": 2})
    assert TYPED.decode(text)["gift"] == gift


def test_a_door_reads_strict_models_as_json() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)

        at: datetime

    def strict(it: Any) -> None: ...

    strict.__annotations__["it"] = Strict
    signature = compile_signature(strict, name="strict")
    text = signature.encode_mapping({"it": {"at": "2026-11-30T12:00:00Z"}})
    assert signature.decode(text)["it"].at == datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_everything_that_is_wrong_is_listed_without_the_values() -> None:
    with pytest.raises(InvalidArguments) as caught:
        TYPED.encode_mapping(
            {
                "gift": {"name": 1, "price": "much", "colour": "red"},
                "by": -5,
                "secret": "hunter2",
            }
        )
    problems = dict(caught.value.problems)
    assert problems["at"] == "missing"
    assert problems["by"] == "input should be greater than 0 (got int)"
    assert problems["gift.colour"] == "unknown"
    assert problems["gift.name"].endswith("(got int)")
    assert problems["secret"] == "unknown; it takes at, gift, by"
    assert "hunter2" not in str(caught.value)
    assert "much" not in str(caught.value)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((1, 2.0, {"a"}), {}, "3 arguments by position, but it takes 2"),
        ((1,), {"household": 2}, "household: given twice"),
        ((), {}, "household: missing"),
        ((1,), {"colour": 1}, "colour: unknown"),
        ((1, math.nan), {}, "budget: input should be a finite number"),
        ((1, "1e999"), {}, "budget: input should be a finite number"),
        ((1,), {"tags": ["x\ud800"]}, "tags"),
        (("x",), {}, "household: input should be a valid integer"),
    ],
)
def test_a_wrong_call_is_refused(args: Any, kwargs: Any, problem: str) -> None:
    with pytest.raises(InvalidArguments, match=r"^analyse: ") as caught:
        ANALYSE.encode_call(args, kwargs)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("value", "path"),
    numbered(
        [
            (math.nan, "a:"),
            ({"x": [math.inf]}, "a.x[0]:"),
            ({1: "x"}, "a:"),
            ([{2}], "a[0]:"),
            ([Opaque()], "a[0]:"),
            (NOW, "a:"),
            ("x\ud800", "a:"),
        ]
    ),
)
def test_arguments_without_annotations_are_plain_json_or_refused(value: Any, path: str) -> None:
    for encode in (
        lambda: UNTYPED.encode_call((value,), {}),
        lambda: UNTYPED.encode_mapping({"a": value}),
    ):
        with pytest.raises(InvalidArguments) as caught:
            encode()
        assert str(caught.value).startswith(f"untyped: {path}")


def test_a_number_that_python_could_not_read_back_is_refused() -> None:
    def plain(n: int) -> None: ...

    for signature in (compile_signature(plain, name="plain"), ANALYSE, UNTYPED):
        with pytest.raises(InvalidArguments):
            signature.encode_call((10**6000,), {})


def test_arguments_whose_type_does_not_read_what_it_writes_are_refused() -> None:
    def keyed(by: dict[tuple[int, int], int]) -> None: ...
    def shifted(n: Annotated[int, PlainSerializer(lambda n: n + 1)]) -> None: ...

    with pytest.raises(InvalidArguments, match=r"^keyed: by: "):
        compile_signature(keyed, name="keyed").encode_call(({(1, 2): 3},), {})
    with pytest.raises(InvalidArguments, match=r"^shifted: n: .*must read back what it writes"):
        compile_signature(shifted, name="shifted").encode_call((1,), {})


def test_a_stored_call_that_no_longer_fits_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="colour: unknown"):
        ANALYSE.decode('{"household":1,"colour":2}')
    with pytest.raises(InvalidArguments, match="household"):
        ANALYSE.decode('{"household":"x"}')


def test_the_schema_shows_limits_descriptions_and_defaults() -> None:
    properties = TYPED.arguments_schema["properties"]
    assert properties["by"]["exclusiveMinimum"] == 0
    assert properties["by"]["description"] == "Steps"
    assert TYPED.arguments_schema["required"] == ["at", "gift", "by"]
    assert TYPED.arguments_schema["additionalProperties"] is False
    assert ANALYSE.arguments_schema["properties"]["budget"]["default"] == 1.0
    assert ANALYSE.arguments_schema["required"] == ["household"]
    assert UNTYPED.arguments_schema["properties"]["b"]["default"] is None
    assert UNTYPED.result.schema == {}
    json.dumps([TYPED.arguments_schema, ANALYSE.result.schema])


# Calls of tasks whose code is elsewhere


@pytest.mark.parametrize("signature", [ANALYSE, TYPED, UNTYPED], ids=lambda s: s.name)
def test_a_door_without_code_gives_the_text_that_the_code_would_give(signature: Any) -> None:
    arguments: dict[str, Any] = {
        "analyse": {"tags": ["x"], "household": 17, "budget": 2.5},
        "typed": {"by": 2, "gift": {"price": 1.5, "name": "tea", "tags": []}, "at": "2026-11-30"},
        "untyped": {"a": {"deep": [1]}},
    }[signature.name]
    text = check_against_schema(signature.name, signature.arguments_schema, arguments)
    assert json.loads(text).keys() == json.loads(signature.encode_mapping(arguments)).keys()
    assert list(json.loads(text)) == list(signature.parameters)
    assert signature.decode(text) == signature.decode(signature.encode_mapping(arguments))


def test_a_door_without_code_refuses_what_does_not_fit_the_schema() -> None:
    for arguments, path, problem in [
        ({}, "household", "missing"),
        ({"household": 1, "x": "hunter2"}, "x", "unknown; it takes household, budget, tags"),
        ({"household": "hunter2"}, "household", "should be integer (got str)"),
        ({"household": 1, "tags": [1]}, "tags", "does not meet the schema's anyOf"),
        ({"household": 1, "budget": math.nan}, "", "NaN"),
    ]:
        with pytest.raises(InvalidArguments) as caught:
            check_against_schema("analyse", ANALYSE.arguments_schema, arguments)
        found = dict(caught.value.problems)
        assert problem in found[path]
        assert "hunter2" not in str(caught.value)


def test_without_jsonschema_names_are_checked_and_the_worker_checks_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema.validators", None)
    schema = ANALYSE.arguments_schema
    assert check_against_schema("analyse", schema, {"household": "x"}).startswith("{")
    with pytest.raises(InvalidArguments, match="household: missing; colour: unknown"):
        check_against_schema("analyse", schema, {"colour": 1})


def test_a_reference_in_a_schema_fetches_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schema = {"properties": {"a": {"$ref": address}}}
        assert check_against_schema("f", schema, {"a": 1}) == '{"a":1}'
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_pattern_that_python_does_not_know_is_left_to_the_worker() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": r"\p{Lu}+"}}}
    assert check_against_schema("f", schema, {"a": "x"}) == '{"a":"x"}'


# Hashes


def test_equal_arguments_have_equal_hashes_in_any_order() -> None:
    assert arguments_hash('{"a":{"x":1,"y":2.0}}') == arguments_hash('{"a":{"y":2,"x":1.0}}')
    assert arguments_hash('{"a":[1,2]}') != arguments_hash('{"a":[2,1]}')
    assert arguments_hash('{"a":1}') != arguments_hash('{"a":"1"}')
    assert arguments_hash('{"a":1}') != arguments_hash('{"a":true}')
    assert len(arguments_hash("{}")) == 16


def test_a_fingerprint_tells_calls_apart_by_value() -> None:
    plain = fingerprint("m.f", (1, "a"), {"b": [1.5, None]})
    assert len(plain) == 16
    assert plain == fingerprint("m.f", (1, "a"), {"b": [1.5, None]})
    assert fingerprint("f", (), {"a": {"x": 1, "y": 2}}) == fingerprint(
        "f", (), {"a": {"y": 2, "x": 1}}
    )
    for other in [
        fingerprint("m.g", (1, "a"), {"b": [1.5, None]}),
        fingerprint("m.f", (1, "b"), {"b": [1.5, None]}),
        fingerprint("m.f", (1,), {"a": "a", "b": [1.5, None]}),
        fingerprint("m.f", (1, "a"), {"b": [None, 1.5]}),
    ]:
        assert other != plain


@pytest.mark.parametrize(
    ("one", "other"),
    numbered(
        [
            (Gift("tea", 1.0), Gift("tea", 2.0)),
            (Report(household=1), Report(household=2)),
            ({"a", "b"}, {"a", "c"}),
            (NOW, NOW + timedelta(seconds=1)),
            (Decimal("1.1"), Decimal("1.10")),
            (Colour.RED, Colour.BLUE),
            (Path("a"), Path("b")),
            (b"\xff", b"\xfe"),
            ({1: "a"}, {1: "b"}),
            ("x\ud800", "x\ud801"),
            ([Gift("tea", 1.0, {"b", "a"})], [Gift("tea", 1.0, {"b", "c"})]),
        ]
    ),
)
def test_a_fingerprint_knows_values_that_json_has_no_type_for(one: Any, other: Any) -> None:
    assert fingerprint("f", (one,), {}) != fingerprint("f", (other,), {})


def test_what_json_can_not_carry_counts_by_its_type_only() -> None:
    assert fingerprint("f", (Opaque(),), {}) == fingerprint("f", (Opaque(),), {})
    assert fingerprint("f", (Opaque(),), {}) != fingerprint("f", (Opaque,), {})
    assert fingerprint("f", (Opaque(), 1), {}) != fingerprint("f", (Opaque(), 2), {})
    assert fingerprint("f", ({(1, 2): 3}, 1), {}) != fingerprint("f", ({(1, 2): 3}, 2), {})
    assert fingerprint("f", (circle(), 1), {}) != fingerprint("f", (circle(), 2), {})
    numbers = iter([1, 2])
    fingerprint("f", (numbers,), {})
    assert list(numbers) == [1, 2]


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    code = (
        "from benbi.codec import fingerprint\n"
        "from pathlib import Path\n"
        "print(fingerprint('f', ({'a', 'b', 'c', ('d', 1)}, Path('a'), object()), {}).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
