"""A question becomes a form that MCP clients can show, and its answer comes back typed."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from mcp_types import ElicitRequestFormParams
from pydantic import BaseModel, Field, TypeAdapter

from benbi.job import Question
from benbi.server.mcp.questions import answer_from, elicitation, takes_null


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int | None
    zip: Annotated[str, Field(min_length=5, pattern=r"\d+")] = "00000"
    colour: Colour = Colour.RED


class Nested(BaseModel):
    addresses: list[Address]


def question(type_: Any) -> Question:
    return Question("q", "Well?", TypeAdapter(type_).json_schema(), None)


def asked(type_: Any) -> dict[str, Any]:
    """The form's schema; what mcp itself would refuse fails here."""
    request = elicitation(question(type_))
    assert request["method"] == "elicitation/create"
    params = ElicitRequestFormParams.model_validate(request["params"])
    assert params.message == "Well?"
    assert params.requested_schema["type"] == "object"
    return params.requested_schema


@pytest.mark.parametrize(
    ("type_", "property_"),
    [
        (bool, {"type": "boolean"}),
        (int, {"type": "integer"}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (Literal["small", "large"], {"type": "string", "enum": ["small", "large"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"], "title": "Colour"}),
    ],
)
def test_a_plain_value_is_asked_for_in_one_property(type_: Any, property_: dict[str, Any]) -> None:
    schema = asked(type_)
    assert schema["properties"] == {"answer": property_}
    assert schema["required"] == ["answer"]


def test_a_plain_value_comes_back_alone() -> None:
    assert answer_from(question(bool), {"answer": False}) is False
    with pytest.raises(ValueError, match="answer"):
        answer_from(question(bool), {"other": True})


def test_a_flat_model_is_its_own_form() -> None:
    schema = asked(Address)
    assert schema["properties"]["number"] == {"type": "integer", "title": "Number"}
    assert schema["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["zip"]["default"] == "00000"
    # What may be null can be left empty in a form.
    assert schema["required"] == ["street"]


def test_what_is_left_empty_in_a_form_is_null() -> None:
    answer = answer_from(question(Address), {"street": "Mill Lane"})
    assert Address.model_validate(answer) == Address(street="Mill Lane", number=None)


def test_what_no_form_can_hold_is_asked_for_as_json() -> None:
    schema = asked(Nested)
    assert schema["properties"]["answer"]["type"] == "string"
    assert '"addresses"' in schema["properties"]["answer"]["description"]
    content = {"answer": '{"addresses": [{"street": "Mill Lane", "number": 3}]}'}
    assert Nested.model_validate(answer_from(question(Nested), content)).addresses[0].number == 3
    with pytest.raises(ValueError, match="Expecting"):
        answer_from(question(Nested), {"answer": "no json"})


def test_null_is_an_answer_only_where_the_type_says_so() -> None:
    assert takes_null(question(bool | None))
    assert not takes_null(question(bool))
    assert asked(str | None)["required"] == []
    assert answer_from(question(str | None), {}) is None
