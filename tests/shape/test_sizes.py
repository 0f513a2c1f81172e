"""A module over 400 lines is two things; a function that does not fit a screen is several."""

from __future__ import annotations

import ast

from tests.shape.source import modules

MODULE_LINES = 400
FUNCTION_LINES = 60


def test_no_module_is_longer_than_a_sitting() -> None:
    too_long = {
        module.name: lines
        for module in modules()
        if (lines := len(module.text.splitlines())) > MODULE_LINES
    }
    assert not too_long, f"over {MODULE_LINES} lines: {too_long}"


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {
        f"{module.name}:{node.lineno} {node.name}": lines
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    }
    assert not too_long, f"over {FUNCTION_LINES} lines: {too_long}"


def test_there_is_something_to_measure() -> None:
    assert len(modules()) > 20
