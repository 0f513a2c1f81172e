"""From counts to gifts: affinities, and what fits the budget."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from examples.giftgenius import queries
from examples.giftgenius.data import gifts, rows
from examples.giftgenius.models import (
    Counts,
    Favorite,
    History,
    Link,
    Pick,
    Ranking,
    RoughIdea,
    Segment,
)

IDEAS = 8
PER_SHELF = 2
# Baskets added to both sides of a ratio, so that three lucky baskets do not make a gift.
CAUTION = 4.0


class _Pair(NamedTuple):
    """One favorite and one gift: how strongly they attract each other, and whether it is sure."""

    attraction: float
    weight: float
    sure: bool
    link: Link


def rough_ideas(
    history: History, segments: list[Segment], wanted: list[str], counts: Counts
) -> list[RoughIdea]:
    """Every gift with its affinity to the household's favorites, the best first."""
    pairs: dict[int, list[_Pair]] = {}
    for favorite, gift, met, chance, spread in counts.pairs:
        liked, baskets = history.favorites[favorite], counts.favorites[favorite]
        expected, deviation = chance / counts.shuffles, math.sqrt(spread) / counts.shuffles
        pairs.setdefault(gift, []).append(_pair(liked, baskets, met, expected, deviation))
    lives = {segment.name: segment for segment in segments}
    ideas = [_idea(wanted[gift], found, lives) for gift, found in pairs.items()]
    return sorted(ideas, key=lambda idea: (-idea.score, idea.gift))


def _pair(liked: Favorite, baskets: int, met: int, expected: float, deviation: float) -> _Pair:
    ratio = (met + CAUTION) / (expected + CAUTION)
    link = Link(
        favorite=liked.name,
        trips=liked.trips,
        times_chance=round(met / expected, 1) if expected else float(met),
        together=met,
        expected=round(expected, 1),
        confidence=round(met / max(1, baskets), 4),
    )
    # Two standard deviations of the shuffles: what is quoted to a person must hold.
    sure = met >= 5 and met - expected >= 2 * deviation
    return _Pair(math.log(ratio), liked.weight, sure, link)


def _idea(name: str, pairs: list[_Pair], lives: dict[str, Segment]) -> RoughIdea:
    suited = [lives[suit] for suit in gifts()[name].suits if suit in lives]
    life = max(suited, key=lambda segment: segment.times_usual, default=None)
    taste = min(max(life.times_usual if life else 0.5, 0.5), 4.0)
    together = sum(pair.weight * pair.attraction for pair in pairs)
    best = sorted(pairs, key=lambda pair: (-pair.attraction, pair.link.favorite))
    return RoughIdea(
        gift=name,
        affinity=round(math.exp(together), 3),
        score=round(together + 0.1 * math.log(taste), 4),
        links=[pair.link for pair in best if pair.sure][:3],
        segment=life.name if life and life.times_usual >= 1.1 else None,
    )


def rank(history: History, ideas: list[RoughIdea], budget: float) -> Ranking:
    """The ideas that fit the budget together, each with the product that suits the household.

    At most ``IDEAS`` of them and ``PER_SHELF`` of one shelf; a gift that no favorite speaks
    for is passed over.
    """
    left, shelves = budget, Counter[str]()
    passed = Counter({"bought already": len(history.bought_gifts)})
    picks: list[Pick] = []
    for idea in ideas:
        shelf = gifts()[idea.gift].shelf
        if not idea.links or idea.affinity <= 1:
            passed["not bought with the favorites"] += 1
        elif len(picks) == IDEAS:
            passed["ranked lower"] += 1
        elif shelves[shelf] == PER_SHELF:
            passed["enough from that shelf"] += 1
        elif (pick := _pick(history, idea, left)) is None:
            passed["over the budget"] += 1
        else:
            picks.append(pick)
            left = round(left - pick.price, 2)
            shelves[shelf] += 1
    return Ranking(picks=picks, passed_over={why: n for why, n in sorted(passed.items()) if n})


def _pick(history: History, idea: RoughIdea, left: float) -> Pick | None:
    found = rows(queries.PRODUCT, [idea.gift, left, history.price_level])
    if not found:
        return None
    product_id, size, brand, price, level, sold = found[0]
    gift = gifts()[idea.gift]
    return Pick(
        idea=idea,
        title=gift.title,
        shelf=gift.shelf,
        product_id=product_id,
        size=size or "",
        brand=brand or "",
        price=price,
        price_level=round(level, 3),
        sold=sold,
    )
