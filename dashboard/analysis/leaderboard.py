"""Every kernel against the best baseline of each of its workloads."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean

from ..model.naming import kernel_name
from ..model.overview import OverviewEntry, OverviewRow
from ..model.series import is_main
from ..store import Store, queries
from .thresholds import step_thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStanding:
    """One kernel on one machine against the best baseline of each workload, by the main implementation."""

    kernel: str
    machine: str
    speedup: float  # geometric mean over the workloads
    least: float
    most: float
    ahead: int  # workloads faster than every baseline
    workloads: int
    baselines: tuple[str, ...]  # the fastest ones, the most frequent first
    in_means: bool


def leaderboard(store: Store, project: str, entries: Iterable[OverviewEntry]) -> tuple[KernelStanding, ...]:
    """The kernels with a baseline in the same run, the slowest against it first; those out of means last."""
    workloads, limits = queries.project_workloads(store, project), step_thresholds(store, project).limits
    by_kernel: dict[tuple[str, str], list[OverviewRow]] = defaultdict(list)
    for entry in entries:
        series = entry.row.series
        if entry.row.baseline is not None and series.metric.is_latency and is_main(series, workloads):
            by_kernel[kernel_name(series.benchmark, entry.row.operator), series.machine].append(entry.row)
    found = []
    for (kernel, machine), rows in by_kernel.items():
        best = [row.baseline for row in rows if row.baseline is not None]
        ratios = [each.ratio for each in best]
        found.append(
            KernelStanding(
                kernel=kernel,
                machine=machine,
                speedup=geometric_mean(ratios),
                least=min(ratios),
                most=max(ratios),
                ahead=sum(ratio > 1 for ratio in ratios),
                workloads=len(rows),
                baselines=tuple(name for name, _ in Counter(each.implementation for each in best).most_common()),
                in_means=limits(rows[0].series).in_means,
            )
        )
    return tuple(sorted(found, key=lambda each: (not each.in_means, each.speedup)))
