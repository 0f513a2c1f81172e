"""What is typed becomes the JSON value that the task's schema asks for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from benbi.cli.options import seconds
from benbi.cli.values import arguments_from, value_from
from benbi.errors import ConfigurationError


def typed(kind: Any, text: str) -> Any:
    """``text`` where the schema is that of the Python type ``kind``."""
    schema = TypeAdapter(kind).json_schema()
    return value_from(text, schema, schema)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "17", 17),
        (float, "1.5", 1.5),
        (str, "17", "17"),
        (str, "true", "true"),
        (str | None, "17", "17"),
        (str | None, "null", None),
        (int | str, "17", 17),
        (int | str, "seventeen", "seventeen"),
        (bool, "yes", True),
        (bool, "false", False),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (Any, "17", 17),
        (Any, "words and more", "words and more"),
        (int, "NaN", "NaN"),
    ],
)
def test_text_becomes_what_the_schema_asks_for(kind: Any, text: str, value: Any) -> None:
    found = typed(kind, text)
    assert found == value
    assert type(found) is type(value)


def test_references_are_followed() -> None:
    schema = {
        "properties": {"code": {"$ref": "#/$defs/Code"}},
        "$defs": {"Code": {"type": "string"}},
    }
    assert arguments_from(["code=007"], schema) == {"code": "007"}


def test_pairs_and_one_object_mean_the_same() -> None:
    assert arguments_from(["a=1", "b=x=y"], {}) == arguments_from(['{"a": 1, "b": "x=y"}'], {})


def test_no_arguments_are_an_empty_object() -> None:
    assert arguments_from([], {}) == {}


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["17"], "neither key=value"),
        (["=17"], "neither key=value"),
        (["a=1", "a=2"], "twice"),
        (['{"a": 1'], "not JSON"),
        (['{"a": NaN}'], "NaN"),
        (["a=1", '{"b": 1}'], "neither key=value"),
    ],
)
def test_other_arguments_are_explained(tokens: list[str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        arguments_from(tokens, {})


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("1.5s", 1.5), ("10m", 600), ("2h", 7200), ("1d", 86400), ("250ms", 0.25)],
)
def test_durations(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 years", "1e3"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        seconds(text)
