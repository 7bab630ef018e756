"""The gate's loop: measure both commits, compare them, and measure again what is inconclusive."""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.analysis.compare_commits import in_order
from warpwatch.dashboard.model.comparison import Comparison, ComparisonRow
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.power import conditional_power, family_level
from warpwatch.dashboard.text.labels import count

from .alpha_spending import Look, order

SMALLEST_POWER = 0.05  # conditional power at the looks ahead, below which a series is given up
CONFIRMING_RUNS = 3  # of each commit: two outliers of one commit's two runs look like a change without scatter
_DECIDED = {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED}
_CHANGED = {Verdict.REGRESSED, Verdict.IMPROVED}
Measure = Callable[[bool, Collection[SeriesSchema] | None], None]
"""Runs head (True) or base, everything (None) or what these series need, into the store."""


class StopReason(StrEnum):
    """Why a gate stopped measuring."""

    DECIDED = "decided"  # no series is inconclusive
    BUDGET = "budget"  # the next runs would end beyond the time budget
    RUNS = "runs"  # the most runs that it may take were made
    FUTILITY = "futility"  # no runs that it may take would decide the inconclusive series


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The result of a gate."""

    comparison: Comparison
    runs: int  # of each commit, of the series measured most
    seconds: float
    stopped: StopReason

    @property
    def cost(self) -> str:
        """What it took, and why it stopped: one sentence."""
        open_series = self.comparison.count(Verdict.INCONCLUSIVE)
        return cost_sentence(self.runs, self.seconds / 60, self.stopped, open_series)


def cost_sentence(runs: int, minutes: float, stopped: StopReason, open_series: int) -> str:
    """What a gate took and why it stopped, with so many series inconclusive."""
    reasons = {
        StopReason.DECIDED: "every series is decided",
        StopReason.BUDGET: f"the time budget was spent with {open_series} series open",
        StopReason.RUNS: f"the limit of runs (--runs) was reached with {open_series} series open",
        StopReason.FUTILITY: f"more runs would not decide {open_series} series, which stay open",
    }
    return f"Up to {count(runs, 'run')} of each commit in {minutes:.1f} min; {reasons[stopped]}."


def run_gate(
    looks: Iterable[Look],
    measure: Measure,
    check: Callable[[float], Comparison],
    *,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda line: None,
) -> Gate:
    """Measure until no series is inconclusive, or the remaining runs would decide none of the inconclusive ones.

    `check` compares all series with the given family-wise error. No run begins that would likely end beyond the budget;
    the first look's runs are made whatever they take. A decided series keeps its row and is not measured again, nor is
    one that no runs would decide. A change needs CONFIRMING_RUNS, unless the gate may take no more. Raises ValueError
    without a look.
    """
    began, ahead = clock(), tuple(looks)
    if not ahead:
        raise ValueError("a gate needs at least one look")
    decided: dict[str, ComparisonRow] = {}
    measured: list[SeriesSchema] | None = None
    runs = 0
    while True:
        look, ahead = ahead[0], ahead[1:]
        for is_head in order(runs + 1, look.runs):
            measure(is_head, measured)
        runs = look.runs
        found = check(look.family_error)
        deciding = _DECIDED if runs >= CONFIRMING_RUNS or not ahead else _DECIDED - _CHANGED
        for row in found.rows:
            if row.verdict in deciding:
                decided.setdefault(row.series.key, row)
        rows = in_order(decided.get(row.series.key, row) for row in found.rows)
        found = found.model_copy(update={"rows": rows})
        seconds = clock() - began
        say(_progress(found, runs, seconds))
        run_s = seconds / (2 * runs)  # an upper bound: later runs measure fewer series
        affordable = tuple(look for look in ahead if seconds + run_s * 2 * (look.runs - runs) <= budget_s)
        unconfirmed = tuple(row for row in rows if row.verdict in _CHANGED and row.series.key not in decided)
        open_rows = _decidable(found, runs, affordable) + (unconfirmed if affordable else ())
        if not open_rows:
            stopped = StopReason.BUDGET if unconfirmed else _stop_reason(found, runs, ahead, affordable)
            return Gate(comparison=found, runs=runs, seconds=seconds, stopped=stopped)
        measured = [row.series for row in open_rows]


def _decidable(comparison: Comparison, runs: int, ahead: Sequence[Look]) -> tuple[ComparisonRow, ...]:
    """The inconclusive rows that a look ahead may decide, after `runs` of each commit."""
    judged = [(row.estimate, row.verdict) for row in comparison.rows]
    levels = [family_level(judged, look.family_error) for look in ahead]
    return tuple(
        row
        for row in comparison.rows
        if row.verdict is Verdict.INCONCLUSIVE
        and any(_has_power(row, look.runs - runs, level) for look, level in zip(ahead, levels, strict=True))
    )


def _has_power(row: ComparisonRow, more: int, level: float) -> bool:
    """Whether so many more runs have enough conditional power."""
    estimate = row.estimate
    if estimate is None:
        return False  # no ratio, or another GPU: runs do not help
    if row.reason is not None:
        return True  # a canary moved, whose own noise shows in the runs too
    runs = min(estimate.base_runs, estimate.head_runs) + more
    threshold = math.inf if row.min_relative_change is None else row.min_relative_change
    return conditional_power(estimate, runs=runs, threshold=threshold, level=level) >= SMALLEST_POWER


def _stop_reason(comparison: Comparison, runs: int, ahead: Sequence[Look], affordable: Sequence[Look]) -> StopReason:
    """Why it stops where no affordable look may decide anything."""
    if not comparison.count(Verdict.INCONCLUSIVE):
        return StopReason.DECIDED
    if not ahead:
        return StopReason.RUNS
    is_unaffordable = len(affordable) < len(ahead) and _decidable(comparison, runs, ahead)
    return StopReason.BUDGET if is_unaffordable else StopReason.FUTILITY


def _progress(comparison: Comparison, runs: int, seconds: float) -> str:
    counts = [f"{number} {verdict.value}" for verdict, number in comparison.counts.items() if number]
    return f"{runs} runs of each, {seconds:.0f} s: {', '.join(counts) or 'nothing to compare'}"
