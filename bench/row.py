"""One line of the bench."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line: what is measured, the bar, and how figures become the ratio that is judged.

    ``figures`` are measured in the order written, each in a process of its own, ``times`` times;
    ``judge`` gets their medians and returns (value, bar, "at least" | "at most").
    """

    name: str
    unit: str
    figures: dict[str, Callable[[Path], float]]
    judge: Callable[[dict[str, float]], list[tuple[str, float, float, str]]]
    times: int = 3
