"""The gate's loop: measure, look, and measure again what is still open."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from warpwatch.dashboard.analysis.compare_commits import Check, CheckRow, in_order
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.power import chance_to_tell, family_level

from .alpha_spending import Look, order

# Which open series further runs may still tell.

SMALLEST_CHANCE = 0.05  # of a series to be told at one of the looks ahead; with less it is given up


def hopeful(check: Check, runs: int, ahead: Sequence[Look]) -> tuple[CheckRow, ...]:
    """The inconclusive rows that may be told at one of the looks ahead, after `runs` of each commit."""
    judged = [(row.comparison, row.verdict) for row in check.rows]
    levels = [family_level(judged, look.family_error) for look in ahead]
    return tuple(
        row
        for row in check.rows
        if row.verdict is Verdict.INCONCLUSIVE
        and any(_may_be_told(row, look.runs - runs, level) for look, level in zip(ahead, levels, strict=True))
    )


def _may_be_told(row: CheckRow, more: int, level: float) -> bool:
    seen = row.comparison
    if seen is None:
        return False  # no ratio, or another card: runs are not what is missing
    if row.reason is not None:
        return True  # a canary moved, whose own noise the runs tell as well
    own = min(seen.base_runs, seen.head_runs)
    return chance_to_tell(seen, runs=own + more, threshold=row.counts_from, level=level) >= SMALLEST_CHANCE


_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED}
_CHANGED = {Verdict.REGRESSED, Verdict.IMPROVED}
SETTLES = 3  # runs of each commit: two outliers of one commit's two runs look like a change without scatter
Measure = Callable[[bool, Collection[Series] | None], None]
"""Runs head (True) or base, all that was asked for (None) or what these series need, into the store."""


class End(StrEnum):
    """Why a gate measured no further."""

    TOLD = "told"  # no series is inconclusive
    BUDGET = "budget"  # the next runs would end beyond it
    RUNS = "runs"  # all that it may take were made
    HOPELESS = "hopeless"  # no runs that it may take would tell what is open


END_REASONS = {
    End.TOLD: "all is told",
    End.BUDGET: "the budget was spent",
    End.RUNS: "it may take no more",
    End.HOPELESS: "the runs that it may take would not tell the rest",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What a gate ends in."""

    check: Check
    runs: int  # of each commit, where something stayed open to the end
    seconds: float
    end: End

    @property
    def spent(self) -> bool:
        """Whether something else than certainty ended it."""
        return self.end is not End.TOLD


def run_gate(
    looks: Iterable[Look],
    measure: Measure,
    check: Callable[[float], Check],
    *,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = lambda line: None,
) -> Gate:
    """Measures until no series is inconclusive, or none that is may be told by the runs that are left.

    No run begins that would likely end beyond the budget; the first look's runs are made whatever they take. A series
    that was told stays told, and is not measured again, nor is one that no runs would tell. A change is told from three
    runs on, unless the gate may take no more. Raises ValueError without a
    look.
    """
    began, ahead = clock(), tuple(looks)
    if not ahead:
        raise ValueError("a gate without a look")
    told: dict[str, CheckRow] = {}
    wanted: list[Series] | None = None
    runs = 0
    while True:
        look, ahead = ahead[0], ahead[1:]
        for is_head in order(runs + 1, look.runs):
            measure(is_head, wanted)
        runs = look.runs
        result = check(look.family_error)
        for row in result.rows:
            if row.verdict in (_TOLD if runs >= SETTLES or not ahead else _TOLD - _CHANGED):
                told.setdefault(row.series.key, row)
        result = replace(result, rows=in_order(told.get(row.series.key, row) for row in result.rows))
        seconds = clock() - began
        say(_progress(result, runs, seconds))
        a_run = seconds / (2 * runs)  # at most: what is still open is less than all
        within = tuple(look for look in ahead if seconds + a_run * 2 * (look.runs - runs) <= budget_s)
        may_be_told = hopeful(result, runs, within)
        unconfirmed = tuple(row for row in result.rows if row.verdict in _CHANGED and row.series.key not in told)
        if within:
            may_be_told += unconfirmed
        if not may_be_told:
            end = End.BUDGET if unconfirmed else _end(result, runs, ahead, within)
            return Gate(check=result, runs=runs, seconds=seconds, end=end)
        wanted = [row.series for row in may_be_told]


def _end(check: Check, runs: int, ahead: Sequence[Look], within: Sequence[Look]) -> End:
    """Why it ends where nothing may be told within the budget."""
    if not check.count(Verdict.INCONCLUSIVE):
        return End.TOLD
    if not ahead:
        return End.RUNS
    return End.BUDGET if len(within) < len(ahead) and hopeful(check, runs, ahead) else End.HOPELESS


def _progress(check: Check, runs: int, seconds: float) -> str:
    counts = [f"{check.count(verdict)} {verdict.value}" for verdict in Verdict if check.count(verdict)]
    return f"{runs} runs of each, {seconds:.0f} s: {', '.join(counts) or 'nothing to compare'}"
