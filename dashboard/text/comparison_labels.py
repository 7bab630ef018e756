"""Labels of comparisons: changes, verdicts, machine drift.

`quote` escapes foreign text, such as names and reasons, for the output format.
"""

from collections.abc import Callable, Collection, Iterable

from ..model.comparison import ComparisonRow, MachineDrift, Outcome
from ..model.quantities import change, number, quantity
from ..model.verdict import Verdict
from .labels import change_word, count, noise_by

MAX_RUNS_ADVISED = 30  # per side; beyond it the noise has to be reduced first
_VISIBLE = 0.01  # difference of two relative changes that a reader of both levels would notice
OUTCOMES = {
    Outcome.REGRESSED: "regressed",
    Outcome.FAILED: "fails at head",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.ACCEPTED: "all regressions accepted",
    Outcome.IMPROVED: "improved",
    Outcome.UNCHANGED: "no change",
}
_KNOWN_UNITS = {"seconds", "bytes", "launches", "registers", "instructions", ""}
Quote = Callable[[str], str]


def levels(row: ComparisonRow, quote: Quote = str) -> str:
    """Base and head: "70.8 µs → 73.7 µs"."""
    text = f"{quantity(row.base, row.series.unit)} → {quantity(row.head, row.series.unit)}"
    return text if row.series.unit in _KNOWN_UNITS else quote(text)


def relative_change(row: ComparisonRow) -> str:
    """The estimated change: "+4.1 %"; "–" without an estimate."""
    return change(row.estimate.change if row.estimate else None, row.base)


def interval(row: ComparisonRow) -> str:
    """The 95 % interval of the change: "+3.8 % … +4.4 %"; empty without one, or if the quantity is exact."""
    estimate = row.estimate
    if estimate is None or estimate.ci_low >= estimate.ci_high:
        return ""
    return f"{change(estimate.ci_low)} … {change(estimate.ci_high)}"


def change_with_interval(row: ComparisonRow) -> str:
    """The change with its interval: "+4.1 % (+3.8 % … +4.4 %)"."""
    ends = interval(row)
    return f"{relative_change(row)} ({ends})" if ends else relative_change(row)


def direction(row: ComparisonRow) -> str:
    """Direction of the change: "slower", "fewer"."""
    return change_word(row.estimate.change, row.series.metric_record) if row.estimate is not None else ""


def times_noise(row: ComparisonRow) -> str:
    """The change in standard deviations of one run: "29×"; "exact" without noise."""
    times = row.times_noise
    if times is None:
        return "exact" if row.estimate is not None and not row.estimate.noise else "–"
    return f"{times:.3g}×"


def remark(row: ComparisonRow, quote: Quote = str) -> str:
    """Evidence, and why the row does not decide; empty without either."""
    return "; ".join(part for part in (evidence(row, quote), why_not_deciding(row, quote)) if part)


def short_remark(row: ComparisonRow, shared: Collection[str]) -> str:
    """The remark; of a `shared` reason, which is stated elsewhere, only the part before its colon."""
    if row.reason not in shared:
        return remark(row)
    return "; ".join(part for part in ((row.reason or "").partition(":")[0], why_not_deciding(row)) if part)


def evidence(row: ComparisonRow, quote: Quote = str) -> str:
    """The reason, else the spread between GPUs, the runs of an inconclusive row, or the change of the
    workload's baselines.
    """
    spread = f"±{number(100 * row.across_gpus.spread)} %" if row.across_gpus is not None else ""
    if row.reason:
        return f"{quote(row.reason)} ({spread})" if spread else quote(row.reason)
    if spread:
        return f"across GPUs, spread {spread}" + _measured(row)
    if row.estimate is not None and row.estimate.runs_needed:
        noise = f"noise {number(100 * row.estimate.noise)} % {noise_by(row.estimate.noise_source)}"
        if row.estimate.runs_needed > MAX_RUNS_ADVISED:
            return f"too noisy to compare ({noise})"
        return f"needs {count(row.estimate.runs_needed, 'more run')} of each ({noise})"
    return f"control {change(row.control_change)}" if row.control_change is not None else ""


def _measured(row: ComparisonRow) -> str:
    """The change of the levels themselves, if it differs visibly from the estimate without the GPUs' effect."""
    if row.estimate is None or not row.base or row.head is None:
        return ""
    measured = row.head / row.base - 1
    if abs(measured - row.estimate.change) < _VISIBLE:
        return ""
    return f", measured {change(measured)} with the GPUs' effect"


def why_not_deciding(row: ComparisonRow, quote: Quote = str) -> str:
    """Acceptance of the row, or that it does not block; empty if it decides."""
    if row.accepted is not None:
        return f"accepted by {quote(row.accepted.by)} ({quote(row.accepted.source)}): {quote(row.accepted.reason)}"
    matters = row.fails or row.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
    return "does not block" if matters and not row.blocks else ""


def drift_sentence(drift: MachineDrift, quote: Quote = str) -> str:
    """The drift of a machine, and whether it is taken off."""
    canaries = ", ".join(f"{quote(canary.workload)} {change(canary.change)}" for canary in drift.canaries)
    machine = f"The machine {quote(drift.machine)}"
    if drift.change:
        controls = count(drift.controls, "control") + (f"; canaries: {canaries}" if canaries else "")
        return f"{machine} drifted by {change(drift.change)} ({controls}); this is taken off."
    return (
        f"{machine} drifted, but its controls disagree (canaries: {canaries}). Nothing is taken off: changes of that "
        "size may be the machine's."
    )


def threshold_note(threshold: float, rows: Iterable[ComparisonRow]) -> str:
    """The threshold: "threshold 2 %, unless the policy has another"."""
    own = any(row.min_relative_change != threshold for row in rows)
    return f"threshold {threshold * 100:g} %" + ", unless the policy has another" * own
