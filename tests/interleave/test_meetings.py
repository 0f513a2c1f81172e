"""The table of moves: none is missing, and each pair meets on a stage or says why it can not."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from itertools import combinations_with_replacement

import benbi.store
from tests.interleave.acts import ACTS
from tests.interleave.meetings import ALONE, APART, DEADLOCKS, PARTS, Move
from tests.interleave.stages import STAGES

PLAYED = {act.plays for act in ACTS.values()}


def in_the_store() -> Iterator[Move]:
    """Its public functions of a transaction that writes: by convention, their first parameter is
    called tx, and view where they only read."""
    for module in pkgutil.iter_modules(benbi.store.__path__, "benbi.store."):
        if module.ispkg:
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            ours = inspect.isfunction(found) and found.__module__ == module.name
            if ours and name[0] != "_" and "tx" in list(inspect.signature(found).parameters)[:1]:
                yield found


def name(move: Move) -> str:
    return f"{move.__module__.removeprefix('benbi.store.')}.{move.__name__}"


def reasons(one: Move, other: Move) -> list[str]:
    """Why the two can not meet."""
    return [
        why
        for some, others, why in APART
        if (one in some and other in others) or (other in some and one in others)
    ]


def test_each_move_of_the_store_is_played() -> None:
    known = PLAYED | set(PARTS) | set(ALONE)
    missing = sorted(name(move) for move in in_the_store() if move not in known)
    assert not missing, f"no act plays {missing}, and no table says why"


def test_what_is_said_to_be_a_part_is_not_played() -> None:
    assert not PLAYED & (set(PARTS) | set(ALONE))
    assert set(PARTS) | set(ALONE) <= set(in_the_store())


def test_each_pair_meets_or_says_why_not() -> None:
    met = {
        frozenset({one.plays, other.plays})
        for one, other in combinations_with_replacement(ACTS.values(), 2)
        if (one.stages | one.long_stages) & (other.stages | other.long_stages)
    }
    silent: list[str] = []
    twice: list[str] = []
    for one, other in combinations_with_replacement(sorted(PLAYED, key=name), 2):
        meets, why = frozenset({one, other}) in met, reasons(one, other)
        if not meets and not why:
            silent.append(f"{name(one)}, {name(other)}")
        if meets and why:
            twice.append(f"{name(one)}, {name(other)}")
    assert not silent, f"never on one stage, and no reason is given: {silent}"
    assert not twice, f"said to be apart, and played: {twice}"


def test_acts_play_on_stages_that_there_are() -> None:
    named = set[str]().union(*(act.stages | act.long_stages for act in ACTS.values()))
    assert named == set(STAGES)
    assert all(not act.stages & act.long_stages for act in ACTS.values())
    assert set[str]().union(*DEADLOCKS) <= set(ACTS)
