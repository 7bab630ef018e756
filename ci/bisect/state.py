"""Where a bisect stands, and what it ends in."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from warpwatch.ci.bisect.posterior import Posterior
from warpwatch.ci.bisect.runs import Run


class End(StrEnum):
    """Why a bisect ended."""

    FOUND = "found"
    RANGE = "range"  # it is one of neighbours that cannot be told apart, as all but the last cannot be measured
    BLOCKED = "blocked"  # no run that is possible tells more
    NOT_REPRODUCED = "not reproduced"  # the ends do not differ here
    UNSURE_ENDS = "unsure ends"  # too noisy to tell whether they do
    NO_END = "no end"  # an end cannot be built or measured
    SPENT = "spent"  # the budget ended it, not certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """Neighbouring places that no run can tell apart, and how likely the culprit is among them."""

    first: int
    last: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A bisect at its end. `now` is None where an end could not be measured."""

    end: End
    runs: tuple[Run, ...]  # in order of time, with the machine's way taken off
    skipped: frozenset[int]  # places that could not be built or measured
    now: Posterior | None
    suspects: Suspects | None  # the likeliest
    seconds: float


def likeliest(now: Posterior, skipped: Collection[int]) -> Suspects:
    """The likeliest commit, with its neighbours that only a run of a skipped commit could tell from it."""
    count = len(now.chance)
    chances = np.concatenate([[0.0], now.chance])
    best = Suspects(first=1, last=1, chance=-1.0)
    first = 1
    for place in range(1, count + 1):
        if place in skipped and place < count:
            continue  # whether it came with this one or the next nobody can measure
        chance = float(chances[first : place + 1].sum())
        if chance > best.chance:
            best = Suspects(first=first, last=place, chance=chance)
        first = place + 1
    return best
