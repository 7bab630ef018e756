"""Which open series further runs may still tell."""

from collections.abc import Sequence

from warpwatch.ci.gate.looks import Look
from warpwatch.dashboard.check import Check, CheckRow
from warpwatch.dashboard.statistics.prospect import chance_to_tell, family_level
from warpwatch.dashboard.verdict import Verdict

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
