"""The gate's loop: measure both commits, compare them, and measure again what is inconclusive."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.analysis.compare_commits import in_order
from warpwatch.dashboard.analysis.confirmation import CONFIRMING_RUNS
from warpwatch.dashboard.model.comparison import Comparison, ComparisonRow
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.verdict import CHANGED, Verdict
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR
from warpwatch.dashboard.statistics.power import conditional_power, family_level
from warpwatch.dashboard.text.labels import count

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


SMALLEST_POWER = 0.05  # conditional power at the remaining analyses; below it a series is futile
_DECIDED = {*CHANGED, Verdict.UNCHANGED}
Measure = Callable[[bool, Collection[SeriesSchema] | None], None]
"""Measures head (True) or base, all series (None) or these, into the store."""


class StopReason(StrEnum):
    """Why a gate stopped measuring."""

    DECIDED = "decided"  # no series is inconclusive
    BUDGET = "budget"  # the next runs would end beyond the time budget
    RUNS = "runs"  # the limit of runs was reached
    FUTILITY = "futility"  # more runs would not decide the inconclusive series


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    comparison: Comparison
    runs: int  # of each commit, at most
    seconds: float
    stopped: StopReason

    @property
    def cost(self) -> str:
        """Runs, time and the reason to stop, in a sentence."""
        open_series = self.comparison.count(Verdict.INCONCLUSIVE)
        return cost_sentence(self.runs, self.seconds / 60, self.stopped, open_series)


def cost_sentence(runs: int, minutes: float, stopped: StopReason, open_series: int) -> str:
    """Runs, time and the reason to stop of a gate with `open_series` inconclusive series."""
    reasons = {
        StopReason.DECIDED: "every series is decided",
        StopReason.BUDGET: f"the time budget was spent with {open_series} series open",
        StopReason.RUNS: f"the limit of runs (--runs) was reached with {open_series} series open",
        StopReason.FUTILITY: f"more runs would not decide {open_series} series, which stay open",
    }
    return f"Up to {count(runs, 'run')} of each commit in {minutes:.1f} min; {reasons[stopped]}."


def run_gate(
    schedule: Iterable[InterimAnalysis],
    measure: Measure,
    check: Callable[[float], Comparison],
    *,
    budget_s: float,
    series: Sequence[SeriesSchema] | None = None,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda line: None,
) -> Gate:
    """Measure until no series is inconclusive, or the remaining runs would decide none of the inconclusive ones.

    `check` compares all series with the given family-wise error; the first runs measure `series`, or all. No run
    starts that would likely end after the budget, except those before the first analysis. Decided series keep their
    row; they and futile series are not measured again. A change needs CONFIRMING_RUNS, unless the schedule has fewer.
    Raises ValueError for an empty schedule.
    """
    started, remaining = clock(), tuple(schedule)
    if not remaining:
        raise ValueError("a gate needs at least one interim analysis")
    decided: dict[str, ComparisonRow] = {}
    measured = series
    runs = 0
    while True:
        analysis, remaining = remaining[0], remaining[1:]
        for is_head in run_order(runs + 1, analysis.runs):
            measure(is_head, measured)
        runs = analysis.runs
        comparison = check(analysis.family_error)
        final = _DECIDED if runs >= CONFIRMING_RUNS or not remaining else _DECIDED - {*CHANGED}
        for row in comparison.rows:
            if row.verdict in final:
                decided.setdefault(row.series.key, row)
        rows = in_order(decided.get(row.series.key, row) for row in comparison.rows)
        comparison = comparison.model_copy(update={"rows": rows})
        seconds = clock() - started
        say(_progress(comparison, runs, seconds))
        run_s = seconds / (2 * runs)  # an upper bound: later runs measure fewer series
        affordable = tuple(later for later in remaining if seconds + run_s * 2 * (later.runs - runs) <= budget_s)
        unconfirmed = tuple(row for row in rows if row.verdict in CHANGED and row.series.key not in decided)
        open_rows = _decidable(comparison, runs, affordable) + (unconfirmed if affordable else ())
        if not open_rows:
            stopped = StopReason.BUDGET if unconfirmed else _stop_reason(comparison, runs, remaining, affordable)
            return Gate(comparison=comparison, runs=runs, seconds=seconds, stopped=stopped)
        measured = [row.series for row in open_rows]


def _decidable(comparison: Comparison, runs: int, remaining: Sequence[InterimAnalysis]) -> tuple[ComparisonRow, ...]:
    """Inconclusive rows that a remaining analysis may decide, after `runs` of each commit."""
    estimates = [(row.estimate, row.verdict) for row in comparison.rows]
    levels = [family_level(estimates, analysis.family_error) for analysis in remaining]
    return tuple(
        row
        for row in comparison.rows
        if row.verdict is Verdict.INCONCLUSIVE
        and any(_has_power(row, a.runs - runs, level) for a, level in zip(remaining, levels, strict=True))
    )


def _has_power(row: ComparisonRow, more: int, level: float) -> bool:
    """Whether `more` runs of each commit have enough conditional power."""
    estimate = row.estimate
    if estimate is None:
        return False  # no ratio, or another GPU: more runs do not help
    if row.reason is not None:
        return True  # a canary changed, perhaps by noise, which more runs reduce
    runs = min(estimate.base_runs, estimate.head_runs) + more
    threshold = math.inf if row.min_relative_change is None else row.min_relative_change
    return conditional_power(estimate, runs=runs, threshold=threshold, level=level) >= SMALLEST_POWER


def _stop_reason(
    comparison: Comparison,
    runs: int,
    remaining: Sequence[InterimAnalysis],
    affordable: Sequence[InterimAnalysis],
) -> StopReason:
    """The reason to stop if no affordable analysis may decide a row."""
    if not comparison.count(Verdict.INCONCLUSIVE):
        return StopReason.DECIDED
    if not remaining:
        return StopReason.RUNS
    is_unaffordable = len(affordable) < len(remaining) and _decidable(comparison, runs, remaining)
    return StopReason.BUDGET if is_unaffordable else StopReason.FUTILITY


def _progress(comparison: Comparison, runs: int, seconds: float) -> str:
    counts = [f"{number} {verdict.value}" for verdict, number in comparison.counts.items() if number]
    return f"{runs} runs of each, {seconds:.0f} s: {', '.join(counts) or 'nothing to compare'}"
