"""The stages of the gift analysis: plain functions of receipts, none of which knows of benbi.

The long one is ``count_week``. Which gifts go with which favorites shows in how often the two
lie in one basket. But big baskets hold everything, and in February roses lie beside anything.
So each week's baskets are shuffled ``SHUFFLES`` times: a basket keeps its size, a product
type its number of baskets of about that size. The count is held against what the shuffles give.
"""

from __future__ import annotations

from itertools import zip_longest

from examples.giftgenius import queries
from examples.giftgenius.data import WEEKS, gifts, rows
from examples.giftgenius.models import Counts, Favorite, History, Kind, Segment
from examples.giftgenius.names import name_of

SHUFFLES = 64
FAVORITES = 20


class HouseholdUnknown(LookupError):
    """No such household in the receipts; the message says which there are."""


class HistoryTooShort(LookupError):
    """Nothing but excluded goods on the household's receipts."""


def load_history(household_id: int) -> History:
    """The household's year: what it likes, what it pays, what it has bought already.

    Raises ``HouseholdUnknown`` and ``HistoryTooShort``.
    """
    lines, trips, spend, first, last = rows(queries.SUMMARY, [household_id])[0]
    if lines == 0:
        raise HouseholdUnknown(_who_there_is(household_id))
    favorites = _favorites(household_id)
    if not favorites:
        raise HistoryTooShort(
            f"household {household_id} has {lines} receipt lines, and all of them are goods that "
            "lists/exclusions.toml leaves out or that nearly nobody buys: nothing to go by"
        )
    level = rows(queries.PRICE_LEVEL, [household_id])[0][0]
    return History(
        household_id=household_id,
        about=_about(household_id),
        lines=lines,
        trips=trips,
        spend=round(spend, 2),
        first_day=first,
        last_day=last,
        price_level=round(0.5 if level is None else level, 3),
        favorites=favorites,
        bought_gifts=[name for (name,) in rows(queries.BOUGHT_GIFTS, [household_id])],
        excluded=dict(rows(queries.EXCLUDED, [household_id])),
    )


def find_segments(household_id: int) -> list[Segment]:
    """Where its money goes, and how that compares with everybody's; the most telling first."""
    return [
        Segment(name=name, share=round(share, 4), times_usual=round(times, 2))
        for name, share, times in rows(queries.SEGMENTS, [household_id])
    ]


def candidates(history: History, segments: list[Segment]) -> list[str]:
    """The gifts worth counting: never bought by the household, and of use to it."""
    bought = set(history.bought_gifts)
    lives = {segment.name for segment in segments if segment.times_usual >= 0.5}
    return [
        gift.name
        for gift in gifts().values()
        if gift.name not in bought and (gift.needs is None or gift.needs in lives)
    ]


def weeks() -> range:
    """The weeks to count, one step each."""
    return range(1, WEEKS + 1)


def count_week(
    week: int, favorites: list[Kind], wanted: list[str], shuffles: int = SHUFFLES
) -> Counts:
    """How often each favorite and each gift lay in one basket in this week, and by chance."""
    answer = rows(
        queries.COUNT,
        {
            "categories": [category for category, _ in favorites],
            "types": [type_ for _, type_ in favorites],
            "wanted": wanted,
            "week": week,
            "shuffles": shuffles,
        },
    )
    seen = {unit: baskets for what, unit, _, baskets, _, _ in answer if what == "unit"}
    known = [seen.get(unit, 0) for unit in range(len(favorites) + len(wanted))]
    lines, baskets = next((row[3], row[4]) for row in answer if row[0] == "week")
    return Counts(
        shuffles=shuffles,
        lines=lines,
        baskets=baskets,
        favorites=known[: len(favorites)],
        gifts=known[len(favorites) :],
        pairs=[
            (favorite, gift - len(favorites), met, chance, spread)
            for what, favorite, gift, met, chance, spread in answer
            if what == "pair"
        ],
    )


def add(one: Counts, other: Counts) -> Counts:
    """Both together; the order in which weeks are added makes no difference.

    Both must have been counted with the same number of shuffles.
    """
    met: dict[tuple[int, int], tuple[int, int, int]] = {}
    for favorite, gift, *numbers in [*one.pairs, *other.pairs]:
        a, b, c = met.get((favorite, gift), (0, 0, 0))
        met[favorite, gift] = (a + numbers[0], b + numbers[1], c + numbers[2])
    return Counts(
        shuffles=one.shuffles,
        lines=one.lines + other.lines,
        baskets=one.baskets + other.baskets,
        favorites=_sum(one.favorites, other.favorites),
        gifts=_sum(one.gifts, other.gifts),
        pairs=[(*pair, *met[pair]) for pair in sorted(met)],
    )


def _sum(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip_longest(one, other, fillvalue=0)]


def _favorites(household_id: int) -> list[Favorite]:
    found = rows(queries.FAVORITES, [household_id, FAVORITES])
    total = sum(weight for *_, weight in found)
    return [
        Favorite(
            kind=(category, type_),
            name=name_of(category, type_),
            trips=trips,
            times_usual=round(times, 2),
            weight=round(weight / total, 4),
        )
        for category, type_, trips, times, weight in found
    ]


def _about(household_id: int) -> dict[str, str]:
    known = rows(queries.ABOUT, [household_id])
    return {name: str(value) for name, value in known[0][0].items() if value} if known else {}


def _who_there_is(household_id: int) -> str:
    number, least, most, nearest = rows(queries.WHO_THERE_IS, [household_id])[0]
    return (
        f"no household {household_id} in the receipts: there are {number:,}, numbered from "
        f"{least} to {most} with gaps; the nearest is {nearest}"
    )
