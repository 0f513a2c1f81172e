"""What people would call a product type of the receipts, whose own names are for tills."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from examples.giftgenius.data import LISTS

# Produce is filed under its noun: "apples gala".
_NOUNS = {
    *("apples", "cherries", "grapes", "greens", "herbs", "mushrooms", "onions", "oranges"),
    *("pears", "peppers", "plums", "potatoes", "squash", "tomatoes"),
}
_SHORT = {
    "frzn": "frozen ",
    "seafood-frz-": "frozen ",
    "seafood-fre-": "fresh ",
    "flvr[d]?\\b": "flavored",
    "misc\\b": "other",
}
# Words that say nothing at the end of a name.
_VAGUE = {
    *("added", "all", "angus", "butts", "dry", "included", "internal", "juice", "misc"),
    *("natural", "net", "novelties", "other", "pack", "red", "rw-all", "sandwich", "squeeze"),
    "weight",
}
# Where the table cuts names off, in the middle of a word.
_CUT = 30


def name_of(category: str, type_: str) -> str:
    """The name in ``lists/names.toml``, else the type's own made readable."""
    known = _names()
    return known.get(f"{category} / {type_}") or known.get(type_) or _readable(category, type_)


@cache
def _names() -> dict[str, str]:
    return tomllib.loads((LISTS / "names.toml").read_text("utf-8"))


def _readable(category: str, type_: str) -> str:
    text = re.sub(r"\(.*", "", type_).replace("-MAGAZINE", " MAGAZINES").lower()
    if len(text) == _CUT and " " in text:
        text = text.rsplit(" ", 1)[0]
    text = text.rsplit(":", 1)[-1].replace(" - ", " ").replace("&", " & ")
    for short, full in _SHORT.items():
        text = re.sub(rf"\b{short}", full, text)
    text = text.split("/", 1)[0] if text.count("/") > 1 else text.replace("/", " and ")
    words = text.split()
    if not words or (words[-1] in _VAGUE and words[0] not in _NOUNS):
        return category.lower().replace("/", " and ").replace(" - ", " ")
    if words[0] in _NOUNS:
        return " ".join([*(word for word in words[1:] if word not in _VAGUE), words[0]])
    return " ".join(words)
