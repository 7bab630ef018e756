"""How a machine itself moved between two commits, as its controls tell: work that no commit of the project changes.

Canaries go first: fixed kernels that the suite brings along and visits several times a run. Baselines (SDPA, cuBLAS)
come with the libraries, and speak for the machine as long as no canary contradicts them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..model.series import Series
from ..statistics.comparison import Comparison, common_drift, level
from ..store.queries.comparison_pairs import Pair

_MOVED = 0.003  # p below which a canary moved: three standard errors
_ALIKE = 2.0  # largest ratio of the movements of canaries that moved alike
_ROOM = 1.5  # a change up to this many times a canary's may be the machine's


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryMove:
    """A canary that moved by more than its noise."""

    workload: str
    change: float  # relative


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A machine that moved. `change` is what its controls share and is taken off; 0.0 if each went its own way."""

    machine: str
    change: float
    controls: int
    canaries: tuple[CanaryMove, ...]

    def may_explain(self, change: float) -> bool:
        """Whether a canary that went its own way moved like this: then nobody can tell kernel and machine apart."""
        if self.change or change <= -1:
            return False
        moved = math.log1p(change)
        return any(
            moved * math.log1p(canary.change) > 0 and abs(moved) <= _ROOM * abs(math.log1p(canary.change))
            for canary in self.canaries
        )


def raw_change(pair: Pair) -> float | None:
    """Head against base, nothing taken off; None where they cannot be compared."""
    if not pair.base.runs or not pair.head.runs or pair.other_cards:
        return None
    before, after = (level([run.value for run in side.runs]) for side in (pair.base, pair.head))
    return after / before - 1 if before > 0 and after > 0 else None


def rivals_shift(found: Sequence[Pair]) -> dict[str, float]:
    """What the baselines of each machine share, be it the machine's movement or a new library's."""
    changes: dict[str, list[float]] = {}
    for pair in found:
        if pair.series.is_baseline and pair.series.metric.noise_family == "latency":
            change = raw_change(pair)
            if change is not None:
                changes.setdefault(pair.series.machine, []).append(change)
    return {machine: common_drift(told) for machine, told in changes.items()}


def machine_drifts(found: Sequence[Pair], canary_moves: Mapping[str, Comparison]) -> tuple[Drift, ...]:
    """Each machine of the pairs that moved. `canary_moves` are the canaries' comparisons by the key of their series."""
    controls = [
        (pair.series, change)
        for pair in found
        if not pair.series.is_watched
        and pair.series.metric.noise_family == "latency"
        and (change := raw_change(pair)) is not None
    ]
    drifts = []
    for machine in sorted({series.machine for series, _ in controls}):
        mine = [(series, change) for series, change in controls if series.machine == machine]
        canaries = [(series, canary_moves[series.key]) for series, _ in mine if series.key in canary_moves]
        shared = _shared([change for _, change in mine], [comparison for _, comparison in canaries])
        moved = tuple(_move(*canary) for canary in canaries if canary[1].p_value < _MOVED)
        if shared or moved:
            drifts.append(Drift(machine=machine, change=shared, controls=len(mine), canaries=moved))
    return tuple(drifts)


def _shared(changes: Sequence[float], canaries: Sequence[Comparison]) -> float:
    """The change that all controls of a machine share: 0.0 if there is none."""
    moves = [math.log1p(canary.change) for canary in canaries]
    sizes = [abs(move) for move in moves]
    if len(canaries) >= 2 and all(canary.p_value < _MOVED for canary in canaries):
        alike = len({move > 0 for move in moves}) == 1 and max(sizes) <= _ALIKE * min(sizes)
        return math.expm1(median(moves)) if alike else 0.0
    shared = common_drift(changes)
    return shared if all(canary.low <= shared <= canary.high for canary in canaries) else 0.0


def _move(series: Series, comparison: Comparison) -> CanaryMove:
    return CanaryMove(workload=series.workload or series.title, change=comparison.change)
