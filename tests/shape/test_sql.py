"""SQL lives in .sql files, where the statements of a job's life stand in their order."""

from __future__ import annotations

import ast
import re

import pytest

from benbi.store.statements import load
from tests.shape.source import SOURCE, modules

# Prose may begin with such a word: a keyword in capitals, or a verb with its companion.
STATEMENT = re.compile(
    r"\s*(?:(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH)\s"
    r"|(?i:insert\s+into|delete\s+from|update\s+\w+\s+set|select\s[^.]*?\sfrom)\s)"
)


def statements(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, text) of each string literal that looks like a statement."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and STATEMENT.match(node.value)
    ]


def test_no_sql_in_python() -> None:
    found = [
        f"{module.path}:{line}: {text.strip()[:60]}"
        for module in modules()
        for line, text in statements(module.tree)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        'x = "SELECT 1"',
        'x = f"DELETE FROM {table}"',
        'x = """\n  update jobs set state = 1"""',
        'x = "insert into jobs values (1)"',
        'run("select n from jobs")',
    ],
)
def test_sql_in_python_is_seen(code: str) -> None:
    assert statements(ast.parse(code))


@pytest.mark.parametrize("code", ['"""Select the first."""', 'x = "Update the tool"', 'x = "with"'])
def test_prose_is_not_sql(code: str) -> None:
    assert not statements(ast.parse(code))


def test_the_sql_files_are_there() -> None:
    assert list((SOURCE / "benbi" / "store" / "sql").rglob("*.sql"))


# Whose values differ, and why, is said where they stand.
OF_ONE_DIALECT = {
    "sqlite": {"take_write_lock", "newcomers", "created", "arguments"},
    "postgresql": {
        *(
            "begin_read",
            "limits_read",
            "begin_write",
            "limits_write",
            "commit",
            "rollback",
            "begun",
            "standby",
            "reached",
        ),
        *("listen", "notify", "upstream_job_unlocked"),
    },
}
VALUES_DIFFER = {
    *("enqueue", "enqueue_linked", "candidates"),
    *("changed_since", "same_call_lock"),
}


def test_each_dialect_has_the_same_statements() -> None:
    names = {dialect: set(load(dialect)) - own for dialect, own in OF_ONE_DIALECT.items()}
    assert names["sqlite"] == names["postgresql"]
    for dialect, own in OF_ONE_DIALECT.items():
        assert own <= set(load(dialect))


def test_values_that_are_passed_by_place_stand_in_one_order() -> None:
    ours, theirs = load("sqlite"), load("postgresql")
    differing = {
        name for name in set(ours) & set(theirs) if ours[name].parameters != theirs[name].parameters
    }
    assert differing == VALUES_DIFFER
