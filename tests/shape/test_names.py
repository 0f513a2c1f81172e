"""The public names are few and true; each error stands in the tree of its module."""

from __future__ import annotations

import inspect
import re
import types

import benbi
from benbi import errors

PUBLIC_NAMES = 35
TREE_LINE = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Z][A-Za-z]+)(?: {2,}|$)")
UNWINDING = {"Suspend", "Abandon"}


def test_the_public_names_are_few() -> None:
    assert 5 < len(benbi.__all__) <= PUBLIC_NAMES
    assert len(set(benbi.__all__)) == len(benbi.__all__)


def test_the_list_of_public_names_is_true() -> None:
    missing = [name for name in benbi.__all__ if not hasattr(benbi, name)]
    assert not missing
    unlisted = {
        name
        for name, value in vars(benbi).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } - {"annotations", "TYPE_CHECKING", *benbi.__all__}
    assert not unlisted


def test_every_public_name_is_documented() -> None:
    undocumented = [
        name
        for name in benbi.__all__
        if callable(getattr(benbi, name)) and not inspect.getdoc(getattr(benbi, name))
    ]
    assert not undocumented


def parents_in_the_tree() -> dict[str, str | None]:
    """The name of each error in the docstring of ``benbi.errors``, and the one above it."""
    assert errors.__doc__
    above: list[tuple[int, str]] = []
    parents: dict[str, str | None] = {}
    for line in inspect.cleandoc(errors.__doc__).splitlines():
        found = TREE_LINE.match(line) if line.startswith("    ") else None
        if found is None:
            continue
        depth, name = len(found["indent"]), found["name"]
        while above and above[-1][0] >= depth:
            above.pop()
        assert name not in parents, f"{name} stands twice in the tree"
        parents[name] = above[-1][1] if above else None
        above.append((depth, name))
    return parents


def test_the_tree_of_errors_is_the_tree_of_classes() -> None:
    classes = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == errors.__name__
    }
    written = parents_in_the_tree()
    assert set(written) == set(classes) - UNWINDING
    assert set(classes) > UNWINDING
    for name, parent in written.items():
        base = classes[name].__bases__[0]
        assert base.__name__ == (parent or "Exception"), f"{name} stands under {parent}"


def test_every_error_is_documented() -> None:
    undocumented = [name for name in parents_in_the_tree() if not vars(errors)[name].__doc__]
    assert not undocumented
