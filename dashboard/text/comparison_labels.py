"""What is said of a judged row beside its numbers: why it could not be told, and what would tell it."""

from collections.abc import Collection

from ..analysis.compare_commits import CheckRow
from ..model.quantities import change
from ..model.verdict import Verdict
from ..statistics.noise import NoiseSource

MOST_RUNS_ADVISED = 30  # of each side: more is no advice, the machine or the benchmark has to become quieter first

NOISE_BY = {
    NoiseSource.RUNS: "by these runs",
    NoiseSource.RERUNS: "by re-runs",
    NoiseSource.HISTORY: "by history",
    NoiseSource.MACHINE: "by its machine",
    NoiseSource.SAMPLES: "by its samples",
    NoiseSource.ASSUMED: "assumed",
    NoiseSource.NONE: "of what is exact",
}


def remark(row: CheckRow) -> str:
    """The evidence, then why it does not decide. Empty without either."""
    return "; ".join(part for part in (evidence(row), why_not_deciding(row)) if part)


def short_remark(row: CheckRow, shared: Collection[str]) -> str:
    """The remark where the reasons `shared` by many rows are told once elsewhere: of those only what comes first."""
    if row.reason not in shared:
        return remark(row)
    return "; ".join(part for part in ((row.reason or "").partition(":")[0], why_not_deciding(row)) if part)


def evidence(row: CheckRow) -> str:
    """The reason, else what it needs to be told, else how the rivals of the same workload moved."""
    if row.reason:
        return row.reason
    if row.comparison and (needed := runs_needed(row)):
        by = NOISE_BY[row.comparison.noise_source]
        if needed > MOST_RUNS_ADVISED:
            return f"too noisy to compare (noise {by})"
        return f"{needed} more run{'s' * (needed > 1)} of each (noise {by})"
    if row.control_change is not None:
        return f"control {change(row.control_change)}"
    return ""


def why_not_deciding(row: CheckRow) -> str:
    """Who accepted it and why, or that it does not block; empty of what decides, or has nothing to decide."""
    if row.accepted is not None:
        return f"accepted by {row.accepted.by} ({row.accepted.source}): {row.accepted.reason}"
    matters = row.fails or row.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
    return "does not block" if matters and not row.limits.blocks else ""


def runs_needed(row: CheckRow) -> int:
    """More runs of each commit that an inconclusive series needs; one at least, as the family asks for more."""
    if row.verdict is not Verdict.INCONCLUSIVE or row.comparison is None:
        return 0
    return max(row.comparison.runs_needed, 1)
