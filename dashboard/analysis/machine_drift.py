"""Drift of a machine between two commits, by its controls: work that no commit of the project changes.

Canaries come first: fixed kernels of the suite, visited several times a run. Baselines (SDPA, cuBLAS) come with
libraries and count as long as no canary contradicts them.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from ..model.comparison import CanaryChange, Estimate, MachineDrift
from ..model.series import Series
from ..statistics.comparison import common_drift, level
from ..store.queries.comparison_pairs import Pair

_MOVED = 0.003  # p below which a canary moved: three standard errors
_ALIKE = 2.0  # largest ratio of the movements of canaries that moved alike
_ROOM = 1.5  # a change up to this many times a canary's may be the machine's


def may_explain(drift: MachineDrift, change: float) -> bool:
    """Whether a single canary moved by about this relative change, so that the machine may have caused it."""
    if drift.change or change <= -1:
        return False
    moved = math.log1p(change)
    return any(
        moved * math.log1p(canary.change) > 0 and abs(moved) <= _ROOM * abs(math.log1p(canary.change))
        for canary in drift.canaries
    )


def level_ratio(pair: Pair) -> float | None:
    """Head's median over base's, whichever GPUs measured them; None unless both are positive."""
    if not pair.base.runs or not pair.head.runs:
        return None
    before, after = (level([run.value for run in side.runs]) for side in (pair.base, pair.head))
    return after / before if before > 0 and after > 0 else None


def raw_change(pair: Pair) -> float | None:
    """Relative change, drift included; None where a side has no positive value, or GPUs differ."""
    ratio = None if pair.other_gpus else level_ratio(pair)
    return None if ratio is None else ratio - 1


def rivals_shift(found: Sequence[Pair]) -> dict[str, float]:
    """Common change of each machine's baselines, caused by the machine or by a new library."""
    changes: dict[str, list[float]] = {}
    for pair in found:
        if pair.series.is_baseline and pair.series.metric.noise_family == "latency":
            change = raw_change(pair)
            if change is not None:
                changes.setdefault(pair.series.machine, []).append(change)
    return {machine: common_drift(own) for machine, own in changes.items()}


def machine_drifts(found: Sequence[Pair], canary_moves: Mapping[str, Estimate]) -> tuple[MachineDrift, ...]:
    """Drift of each machine that moved. `canary_moves`: estimates of canaries by the key of their series."""
    controls = [
        (pair.series, change)
        for pair in found
        if not pair.series.is_ours
        and pair.series.metric.noise_family == "latency"
        and (change := raw_change(pair)) is not None
    ]
    drifts = []
    for machine in sorted({series.machine for series, _ in controls}):
        own = [(series, change) for series, change in controls if series.machine == machine]
        canaries = [(series, canary_moves[series.key]) for series, _ in own if series.key in canary_moves]
        shared = _shared([change for _, change in own], [comparison for _, comparison in canaries])
        moved = tuple(_move(*canary) for canary in canaries if canary[1].p_value < _MOVED)
        if shared or moved:
            drifts.append(MachineDrift(machine=machine, change=shared, controls=len(own), canaries=moved))
    return tuple(drifts)


def _shared(changes: Sequence[float], canaries: Sequence[Estimate]) -> float:
    """The change that all controls of a machine share: 0.0 if there is none."""
    moves = [math.log1p(canary.change) for canary in canaries]
    sizes = [abs(move) for move in moves]
    if len(canaries) >= 2 and all(canary.p_value < _MOVED for canary in canaries):
        alike = len({move > 0 for move in moves}) == 1 and max(sizes) <= _ALIKE * min(sizes)
        return math.expm1(median(moves)) if alike else 0.0
    shared = common_drift(changes)
    return shared if all(canary.ci_low <= shared <= canary.ci_high for canary in canaries) else 0.0


def _move(series: Series, estimate: Estimate) -> CanaryChange:
    return CanaryChange(workload=series.workload or series.title, change=estimate.change)
