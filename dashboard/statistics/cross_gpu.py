"""A kernel that one physical card measured before and another one after: whether more than the card changed.

The baselines that both cards measured, which no commit of the project changes, show what another card of the model does
to a latency. A kernel that the commits left alone is taken to be one more of them: it lies among their shifts, however
these are distributed, as any of them does. So their quantiles are a predictive interval, and its rank among them is the
chance of as much (conformal prediction: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005;
for many kernels at once, by Benjamini and Hochberg: Bates, Candes, Lei, Romano and Sesia, "Testing for outliers with
conformal p-values", Annals of Statistics 51:149, 2023).
"""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from ..model.quantities import growth
from .multiplicity import LIMIT, q_values

FEWEST = 40  # baselines, of which the least and the greatest end a 95 % interval
_LEFT_OUT = 0.025  # of the interval, at each end


class AcrossCards(NamedTuple):
    """A kernel's change between two cards of one model. Relative; the interval is what of it is the kernel's, 95 %."""

    change: float
    low: float
    high: float
    cards_low: float  # what the baselines did, 95 % of them
    cards_high: float
    controls: int
    q_value: float  # among all kernels of the two cards

    @property
    def is_told(self) -> bool:
        """Whether it is more than the card, and no chance.

        The rank is by how far off the baselines' median a kernel lies, and the interval leaves out as many at each end:
        where baselines are skewed, one of the two may say more than the other.
        """
        return self.q_value <= LIMIT and not self.low <= 0 <= self.high


def across_cards(kernels: Sequence[float], controls: Sequence[float]) -> tuple[AcrossCards, ...]:
    """Of each kernel, given the logarithm of its ratio and those of the baselines; nothing with too few of these."""
    count = len(controls)
    if count < FEWEST or not kernels:
        return ()
    ordered = sorted(controls)
    place = int(_LEFT_OUT * (count + 1))  # from 1 on; of as many values 2 * place / (count + 1) lie outside
    low, middle, high = ordered[place - 1], median(ordered), ordered[count - place]
    away = np.sort(np.abs(np.array(ordered) - middle))
    farther = count - np.searchsorted(away, np.abs(np.array(kernels) - middle), "left")
    chances = ((1 + farther) / (1 + count)).tolist()
    return tuple(
        AcrossCards(
            change=growth(moved),
            low=growth(moved - high),
            high=growth(moved - low),
            cards_low=growth(low),
            cards_high=growth(high),
            controls=count,
            q_value=q,
        )
        for moved, q in zip(kernels, q_values(chances, len(kernels)), strict=True)
    )
