"""Each pair of moves that can meet, in every order of their statements, on two connections.

Whatever the order: events and witnessed changes agree, nothing is so that must never be, and what
comes out is what comes out when one move follows the other. Where a move passes over what another
holds, because it comes again, that is so after its next round.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

import pytest

from benbi.store import upstream
from tests.conftest import SOAK
from tests.interleave.acts import ACTS
from tests.interleave.stages import STAGES
from tests.interleave.theatre import Pair, Theatre
from tests.support import postgresql


def pairs(stage: str, *, long: bool) -> list[tuple[str, str]]:
    """Of acts that play on a stage, each with itself as well."""
    playing = [
        act.name
        for act in ACTS.values()
        if stage in act.stages or (long and stage in act.long_stages)
    ]
    return list(combinations_with_replacement(playing, 2))


def case(stage: str, pair: tuple[str, str]) -> object:
    return pytest.param(stage, pair, id=f"{stage}: {pair[0]}, {pair[1]}")


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with postgresql.own_database() as url:
        found = Theatre(url)
        yield found
        found.close()


@pytest.mark.parametrize(
    ("stage", "pair"),
    [case(stage, pair) for stage in STAGES for pair in pairs(stage, long=SOAK)],
)
def test_every_order_is_right(
    theatre: Theatre, stage: str, pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if stage == "unsettled":
        # So that two children are too many for one transaction.
        monkeypatch.setattr(upstream, "STRETCH", 1)
    thorough = SOAK and pair in pairs(stage, long=False)
    assert Pair(theatre, stage, pair).faults(thorough=thorough) == []
