"""Chapter 2. Arguments are typed, and checked where the job is made: bad input never runs."""

from __future__ import annotations

import sqlite3
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from benbi import (
    Benbi,
    InvalidArguments,
    PayloadTooLarge,
    Refused,
    TaskDefinitionError,
    UnknownTask,
)


class Colour(StrEnum):
    RED = "red"


class Order(BaseModel):
    number: int
    colour: Colour
    due: date


async def test_arguments_arrive_with_their_types(app: Benbi) -> None:
    """Models, dataclasses, enums, dates: the function gets what its annotations say."""

    @app.task
    async def postpone(order: Order, by: timedelta) -> date:
        assert order.colour is Colour.RED
        return order.due + by

    async with app.working():
        order = Order(number=1, colour=Colour.RED, due=date(2027, 2, 28))
        job = await postpone.enqueue(order, by=timedelta(days=1))
        assert await job.result() == date(2027, 3, 1)


async def test_wrong_arguments_are_refused_where_the_call_is_made(app: Benbi) -> None:
    """The error names all that is wrong, and nothing is stored."""

    @app.task
    async def book(seats: int, row: str) -> None: ...

    wrong: Any = {"seats": "two", "rwo": "A"}
    with pytest.raises(InvalidArguments) as refused:
        await book.enqueue(**wrong)
    assert {path for path, _ in refused.value.problems} == {"seats", "row", "rwo"}
    assert await app.jobs() == []


async def test_what_json_can_not_carry_is_refused(app: Benbi) -> None:
    """Nothing is ever pickled, and nothing comes back as something else."""

    @app.task
    async def price(of: float) -> None: ...

    with pytest.raises(InvalidArguments, match="of"):
        await price.enqueue(float("nan"))


async def test_large_arguments_are_refused_with_the_remedy(app: Benbi) -> None:
    """A job carries a reference to a large thing, not the thing."""

    @app.task
    async def read(text: str) -> None: ...

    with pytest.raises(PayloadTooLarge, match="reference"):
        await read.enqueue("x" * 2_000_000)


async def test_a_default_is_part_of_the_call(app: Benbi) -> None:
    """It is stored with the job: a default that changes later changes no accepted job."""

    @app.task
    async def wrap(gift: str, paper: str = "gold") -> None: ...

    job = await wrap.enqueue("a kite")
    assert await app.arguments_json(job.id) == '{"gift":"a kite","paper":"gold"}'


async def test_a_job_can_be_made_by_name(app: Benbi) -> None:
    """With arguments as JSON has them: this is what HTTP, MCP and the command line do."""

    @app.task
    async def remind(on: date) -> int:
        return on.year

    async with app.working():
        job = await app.enqueue("remind", {"on": "2027-02-28"})
        assert await job.result() == 2027

    with pytest.raises(UnknownTask, match="remnd"):
        await app.enqueue("remnd", {"on": "2027-02-28"})


async def test_a_function_that_can_not_be_a_task_is_refused_at_once(app: Benbi) -> None:
    """When the module is imported, not when the first job runs; with the parameter's name."""

    async def copy(into: sqlite3.Connection) -> None: ...

    with pytest.raises(TaskDefinitionError, match="'into'"):
        app.task(copy)


def test_all_refusals_are_one_kind_of_error() -> None:
    """``except Refused`` catches all that is the caller's fault; nothing was stored."""
    for error in (InvalidArguments, PayloadTooLarge, UnknownTask):
        assert issubclass(error, Refused)
