"""Each pair of moves that can meet on the same rows, in every order of their statements."""

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

PAIRS = [
    (stage, pair)
    for stage in STAGES
    for pair in combinations_with_replacement(
        [one.name for one in ACTS.values() if stage in one.stages and (SOAK or not one.soak)], 2
    )
]


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with postgresql.own_database() as url:
        found = Theatre(url)
        yield found
        found.close()


@pytest.mark.parametrize(("stage", "pair"), PAIRS, ids=lambda a: a if isinstance(a, str) else "-".join(a))
def test_every_order(theatre: Theatre, stage: str, pair: tuple[str, str], monkeypatch) -> None:
    if stage == "unsettled":
        monkeypatch.setattr(upstream, "STRETCH", 1)
    assert Pair(theatre, stage, pair).faults(thorough=SOAK) == []
