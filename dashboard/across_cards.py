"""What changed between two commits that only different physical cards measured, beside what the cards differ by."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from warpwatch.dashboard.statistics.comparison import level
from warpwatch.dashboard.statistics.other_card import AcrossCards, across_cards
from warpwatch.dashboard.store.queries.pairs import Pair

_Place = tuple[str, str, tuple[str, str]]  # machine, environment, and the two cards


def changes_across_cards(found: Sequence[Pair]) -> Mapping[str, AcrossCards]:
    """By the key of the series: latencies of ours, where enough baselines of the same two cards tell."""
    kernels: dict[_Place, dict[str, float]] = defaultdict(dict)
    controls: dict[_Place, list[float]] = defaultdict(list)
    for pair in found:
        moved = _moved(pair)
        if moved is None or pair.other_cards is None:
            continue
        place = (pair.series.machine, pair.series.environment, pair.other_cards)
        if pair.series.is_watched:
            kernels[place][pair.series.key] = moved
        elif pair.series.is_baseline:
            controls[place].append(moved)
    told: dict[str, AcrossCards] = {}
    for place, its in kernels.items():
        told |= zip(its, across_cards(list(its.values()), controls[place]), strict=False)
    return told


def _moved(pair: Pair) -> float | None:
    if pair.series.metric.noise_family != "latency" or not pair.base.runs or not pair.head.runs:
        return None
    before, after = (level([run.value for run in side.runs]) for side in (pair.base, pair.head))
    return math.log(after / before) if before > 0 and after > 0 else None
