"""When the gate looks at its runs, and what chance of a false alarm each look may spend."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR

_RUNS = (2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """After so many runs of each commit, all series together may give a false alarm with this chance."""

    runs: int
    family_error: float


def looks(most_runs: int, family_error: float = FAMILY_ERROR) -> tuple[Look, ...]:
    """The looks of a gate that takes at most so many runs of each commit.

    Whoever looks again may be wrong again: the looks' chances add up to `family_error` (Bonferroni; they are far from
    independent, so less is spent). Few runs tell only what is huge, which needs no large share: each look gets one in
    proportion to its runs, as error spending functions between Pocock's and O'Brien and Fleming's do (Lan and DeMets,
    Biometrika 70:659, 1983). Raises ValueError for fewer than two runs: one tells nothing of the next.
    """
    if most_runs < _RUNS[0]:
        raise ValueError(f"a gate of {most_runs} runs cannot tell noise from change; it takes {_RUNS[0]} at least")
    at = [*(runs for runs in _RUNS if runs < most_runs), most_runs]
    return tuple(Look(runs=runs, family_error=family_error * runs / sum(at)) for runs in at)


def order(first: int, last: int) -> Sequence[bool]:
    """Whether it is head's turn, for runs `first` to `last` of each: A B B A A B B A.

    What the machine does meanwhile, if it goes one way, then falls on both alike.
    """
    turns: list[bool] = []
    for number in range(first, last + 1):
        turns += [False, True] if number % 2 else [True, False]
    return turns
