"""What each stage of the analysis hands to the next, and the report at the end."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import BaseModel, Field

Kind = tuple[str, str]  # category and type, as the product table names them


class Favorite(BaseModel):
    """A product type that the household buys more often than others do."""

    kind: Kind
    name: str
    trips: int
    times_usual: Annotated[float, Field(description="its rate over the rate of all households")]
    weight: Annotated[float, Field(description="share in the household's taste; they sum to 1")]


class History(BaseModel):
    """A year of one household's receipts, normalized."""

    household_id: int
    about: dict[str, str]
    lines: int
    trips: int
    spend: Annotated[float, Field(description="dollars, without what is excluded")]
    first_day: date
    last_day: date
    price_level: Annotated[float, Field(description="0 cheapest … 1 dearest within a type")]
    favorites: list[Favorite]
    bought_gifts: list[str]
    excluded: Annotated[dict[str, int], Field(description="receipt lines left out, by group")]


class Segment(BaseModel):
    """A part of the household's life, by its share of the money."""

    name: str
    share: float
    times_usual: float


class Counts(BaseModel):
    """How often favorites and gifts met in a basket. Two of these add up to a third.

    ``pairs`` holds (favorite, gift, met, by chance, spread), by position in the two lists that
    were asked for: ``by chance`` is how often they met in all shuffles together, ``spread`` the
    variance of that, times the square of the number of shuffles. Whole numbers, so that
    the sum is the same in any order.
    """

    shuffles: int
    lines: int = 0
    baskets: int = 0
    favorites: list[int] = []
    gifts: list[int] = []
    pairs: list[tuple[int, int, int, int, int]] = []


class Link(BaseModel):
    """One favorite that a gift goes with."""

    favorite: str
    trips: int
    times_chance: float
    together: Annotated[int, Field(description="baskets that held both")]
    expected: Annotated[float, Field(description="baskets that chance alone would give")]
    confidence: Annotated[float, Field(description="share of the favorite's baskets with both")]


class RoughIdea(BaseModel):
    """A gift with its affinity, before a product and a price are chosen."""

    gift: str
    affinity: Annotated[
        float, Field(description="how many times as often as by chance, over all favorites")
    ]
    score: float
    links: list[Link]
    segment: str | None


class Pick(BaseModel):
    """A rough idea with the product chosen for it."""

    idea: RoughIdea
    title: str
    shelf: str
    product_id: int
    size: str
    brand: str
    price: float
    price_level: float
    sold: Annotated[int, Field(description="baskets of the year that held this product")]


class Ranking(BaseModel):
    """The picks, the best first, and what fell out on the way."""

    picks: list[Pick]
    passed_over: dict[str, int]


class Idea(BaseModel):
    """A gift idea: what to buy, what it costs, and why it fits."""

    product: str
    product_id: int
    category: str
    price: Annotated[float, Field(description="dollars, undiscounted, for one")]
    affinity: Annotated[
        float, Field(description="how many times as often as by chance, over all favorites")
    ]
    goes_with: list[Link]
    reason: str


class Household(BaseModel):
    """The household in a few figures."""

    household_id: int
    about: dict[str, str]
    trips: int
    spend: float
    since: date
    until: date
    favorites: list[str]


class Report(BaseModel):
    """What the tool answers."""

    household: Household
    segments: list[Segment]
    ideas: list[Idea]
    total: Annotated[float, Field(description="dollars for all ideas together")]
    budget: float
    note: str
    excluded: Annotated[dict[str, int], Field(description="receipt lines left out, by group")]
    passed_over: Annotated[dict[str, int], Field(description="gifts not suggested, by reason")]
    lines_read: int
    baskets_read: int
