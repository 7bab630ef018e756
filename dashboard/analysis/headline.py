"""How a project's kernels stand: the headline of the overview, one for each machine with baselines."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from ..model.overview import OverviewEntry, OverviewRow
from ..model.series import Commit, is_main
from ..model.verdict import Verdict
from ..store import Store, queries
from ..store.chunks import Floats
from ..store.queries.standings import Levels
from .kernel_curves import carry_forward, case_of, chained_mean, latency_baselines
from .thresholds import step_thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Standing of one machine's kernels at their newest commits, by the project's main implementation."""

    machine: str
    commit: Commit  # the newest
    workloads: int  # that have a baseline and count in means
    speedup: float  # over the best baseline of the same run, geometric mean
    ahead: int  # workloads faster than every baseline
    share_of_peak: float | None  # median share of the speed of light
    improved: int  # workloads by the newest commit
    regressed: int
    invalid: int  # workloads without a valid measurement at the newest commit
    trend: tuple[float, ...]  # `speedup` over commits, oldest first; the last is `speedup`


def headlines(store: Store, project: str, entries: Iterable[OverviewEntry]) -> tuple[Headline, ...]:
    """The headlines by machine, the newest data first."""
    workloads = queries.project_workloads(store, project)
    limits = step_thresholds(store, project).limits
    ours = {
        case_of(series): entry.row
        for entry in entries
        if (series := entry.row.series).metric.is_latency and is_main(series, workloads) and limits(series).in_means
    }
    baselines = {case: keys for case, keys in latency_baselines(store, project).items() if case in ours}
    keys = {ours[case].series.key for case in baselines}
    levels = queries.levels(store, project, keys.union(*baselines.values()))
    by_machine: dict[str, list[tuple[OverviewRow, Sequence[str]]]] = defaultdict(list)
    for case, others in baselines.items():
        by_machine[ours[case].series.machine].append((ours[case], others))
    found = (_headline(machine, rows, levels) for machine, rows in by_machine.items())
    known = (each for each in found if each is not None)
    return tuple(sorted(known, key=lambda each: (-each.commit.position, each.machine)))


def _headline(machine: str, rows: Sequence[tuple[OverviewRow, Sequence[str]]], levels: Levels) -> Headline | None:
    """None if no workload was measured together with a baseline. `rows`: ours with the keys of the baselines."""
    logs = _log_ratios([(row.series.key, baselines) for row, baselines in rows], levels)
    if not logs.size:
        return None
    mine = [row for (row, _), ratio in zip(rows, logs[:, -1], strict=True) if not math.isnan(ratio)]
    lights = [row.speed_of_light for row in mine if row.speed_of_light is not None]
    shares = [light.share for light in lights if light.share is not None]
    newest = max((row.commit for row in mine), key=lambda commit: commit.position)
    moved = [row.verdict for row in mine if row.change_commit is not None and row.change_commit.hash == newest.hash]
    trend = chained_mean(logs)
    return Headline(
        machine=machine,
        commit=newest,
        workloads=len(mine),
        speedup=trend[-1],
        ahead=int((logs[:, -1] > 0).sum()),
        share_of_peak=median(shares) if shares else None,
        improved=moved.count(Verdict.IMPROVED),
        regressed=moved.count(Verdict.REGRESSED),
        invalid=sum(row.verdict is Verdict.INVALID and row.commit.hash == newest.hash for row in mine),
        trend=trend,
    )


def _log_ratios(pairs: Sequence[tuple[str, Sequence[str]]], levels: Levels) -> Floats:
    """Logarithm of the best baseline over ours, by workload and commit with any; NaN before the first.

    A workload that a commit did not measure keeps its earlier ratio: its code may not have changed.
    """
    place = {commit: index for index, commit in enumerate(levels.commits)}
    logs = np.full((len(pairs), len(place)), np.nan)
    for row, (ours, baselines) in enumerate(pairs):
        others = [levels.by_key.get(key, {}) for key in baselines]
        for commit, value in levels.by_key.get(ours, {}).items():
            known = [level for other in others if (level := other.get(commit))]
            if known and value:
                logs[row, place[commit]] = math.log(min(known) / value)
    logs = logs[:, ~np.isnan(logs).all(axis=0)]
    carry_forward(logs)
    return logs
