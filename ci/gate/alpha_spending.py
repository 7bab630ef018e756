"""Alpha spending: the gate's interim analyses, and the family-wise error of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR

_RUNS = (2, 3, 4, 6, 8, 12, 16, 24)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """A comparison while the gate still measures."""

    runs: int  # of each commit
    family_error: float  # family-wise error of this analysis


def analysis_schedule(most_runs: int, family_error: float = FAMILY_ERROR) -> tuple[InterimAnalysis, ...]:
    """Interim analyses of a gate with at most `most_runs` runs of each commit.

    Their errors add up to `family_error` (Bonferroni; conservative, as the analyses are dependent). Each gets a share
    in proportion to its runs, between the error spending functions of Pocock and of O'Brien and Fleming (Lan and
    DeMets, Biometrika 70:659, 1983). Raises ValueError for fewer than two runs, which show no noise.
    """
    if most_runs < _RUNS[0]:
        raise ValueError(f"{most_runs} runs cannot separate a change from noise; a gate needs {_RUNS[0]} at least")
    schedule = [*(runs for runs in _RUNS if runs < most_runs), most_runs]
    return tuple(InterimAnalysis(runs=runs, family_error=family_error * runs / sum(schedule)) for runs in schedule)


def run_order(first: int, last: int) -> Sequence[bool]:
    """Whether head is measured, for runs `first` to `last` of each commit: A B B A A B B A.

    A linear drift of the machine affects both commits equally.
    """
    turns: list[bool] = []
    for number in range(first, last + 1):
        turns += [False, True] if number % 2 else [True, False]
    return turns
