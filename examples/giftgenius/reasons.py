"""Why a gift fits, in words: from the figures, or by a language model that is given them.

With ``GIFT_LLM_BASE_URL`` (and ``GIFT_LLM_API_KEY``, ``GIFT_LLM_MODEL``) the words come from
that OpenAI-compatible endpoint. Its 429, 5xx and time-outs are raised as they are: whether and
when to try again is the business of whoever runs this, not of this module.
"""

from __future__ import annotations

import os

from examples.giftgenius.data import gifts
from examples.giftgenius.models import History, Pick, Segment

TIMEOUT_SECONDS = 30.0
_TASK = (
    "You write for a shop's gift finder. From the facts, and from nothing else, write why this "
    "gift fits this household: two sentences, warm and concrete, no more than 45 words. "
    "Name at least one figure. No greeting, no headline, no quotation marks."
)


def facts(pick: Pick, history: History, segments: list[Segment]) -> list[str]:
    """What speaks for the pick, one sentence each, the strongest first.

    Neither the household's number nor who lives there is among them: they may leave the house.
    """
    return [*_together(pick), *_life(pick, segments), *_price(pick, history)]


def write_reason(pick: Pick, because: list[str]) -> str:
    """The reason as a person reads it.

    With a model configured it is the model's, and any error of the call is raised.
    """
    if os.environ.get("GIFT_LLM_BASE_URL"):
        return _asked(pick, because)
    return " ".join(because)


def _together(pick: Pick) -> list[str]:
    first, *others = pick.idea.links
    said = (
        f"{_capital(gifts()[pick.idea.gift].name)}, because {first.favorite} went home on "
        f"{first.trips} trips, and the two meet in one basket {first.times_chance:g} times as "
        f"often as by chance ({first.together} baskets of the year, chance gives "
        f"{first.expected:g})."
    )
    if not others:
        return [said]
    also = " and ".join(f"{link.favorite} ({link.times_chance:g} times)" for link in others)
    return [said, f"The same goes for {also}."]


def _life(pick: Pick, segments: list[Segment]) -> list[str]:
    life = next((one for one in segments if one.name == pick.idea.segment), None)
    if life is None:
        return []
    return [f"{life.name}: {life.times_usual:.2g} times the usual share of this household's money."]


def _price(pick: Pick, history: History) -> list[str]:
    gap = pick.price_level - history.price_level
    if gap > 0.15:
        return ["A little better than what it picks for itself."]
    if gap < -0.15:
        return ["A modest one among its kind."]
    return []


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _asked(pick: Pick, because: list[str]) -> str:
    # Comes with mcp; a worker without a model does not pay for the import.
    import httpx2

    key = os.environ.get("GIFT_LLM_API_KEY")
    told = "\n".join(f"- {fact}" for fact in because)
    reply = httpx2.post(
        os.environ["GIFT_LLM_BASE_URL"].rstrip("/") + "/chat/completions",
        headers={"authorization": f"Bearer {key}"} if key else {},
        json={
            "model": os.environ.get("GIFT_LLM_MODEL", "default"),
            "messages": [
                {"role": "system", "content": _TASK},
                {"role": "user", "content": f"Gift: {pick.title}\nFacts:\n{told}"},
            ],
        },
        timeout=TIMEOUT_SECONDS,
    )
    reply.raise_for_status()
    text = reply.json()["choices"][0]["message"]["content"]
    if not isinstance(text, str) or not text.strip():
        raise ValueError("the language model answered without a text")
    return " ".join(text.split())
