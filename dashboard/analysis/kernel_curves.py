"""Ours and the best baseline over commits, of each kernel: the small charts of the overview."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.kernel_line import KernelLine
from ..model.series import Series
from ..store import Store, queries
from ..store.chunks import Floats
from ..store.queries.standings import Levels
from .causes import SoftwareChange, software_changes

_NEWEST = 40  # commits of a chart
Case = tuple[str, str, str, str | None]  # machine, environment, suite, workload


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveMark:
    """A commit from which on driver, libraries or harness differ."""

    place: int  # of the commit in the curve
    changes: tuple[SoftwareChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCurve:
    """Latency of a kernel over its machine's newest commits, relative to the best baseline at the newest one.

    Geometric means over the workloads that have a baseline. A workload that a commit did not measure keeps its level.
    """

    ours: tuple[float | None, ...]
    baseline: tuple[float | None, ...]  # empty without baselines: then `ours` is relative to its own median
    marks: tuple[CurveMark, ...]


def kernel_curves(store: Store, project: str, lines: Iterable[KernelLine]) -> dict[str, KernelCurve]:
    """The curves by key of the line; lines without a baseline have the trend of the overview."""
    lines = tuple(lines)
    has_baselines = any(line.baseline is not None for line in lines)
    baselines = latency_baselines(store, project) if has_baselines else {}
    pairs = {
        line.key: [
            (row.series.key, baselines[case_of(row.series)]) for row in line.main if case_of(row.series) in baselines
        ]
        for line in lines
    }
    keys = {key for found in pairs.values() for ours, others in found for key in (ours, *others)}
    levels = queries.levels(store, project, keys)
    software = {line.machine: queries.commit_software(store, project, line.machine) for line in lines}
    return {line.key: _curve(line, pairs[line.key], levels, software[line.machine]) for line in lines}


def carry_forward(logs: Floats) -> None:
    """Fill NaN with the value of the column before, in place: workloads by commit, oldest first."""
    for column in range(1, logs.shape[1]):
        is_missing = np.isnan(logs[:, column])
        logs[is_missing, column] = logs[is_missing, column - 1]


def chained_mean(logs: Floats) -> tuple[float, ...]:
    """The geometric mean over commits, chained backwards from the newest: a step counts the workloads of both sides.

    `logs`: logarithms by workload and commit, NaN where unknown; the newest commit has a number.
    """
    moves = logs[:, 1:] - logs[:, :-1]
    steps = [float(np.nanmean(move)) if not np.isnan(move).all() else 0.0 for move in moves.T]
    back = np.cumsum([0.0, *reversed(steps)])
    return tuple(np.exp(np.nanmean(logs[:, -1]) - back[::-1]).tolist())


def latency_baselines(store: Store, project: str) -> dict[Case, list[str]]:
    """Keys of the latencies of baselines, by case."""
    baselines: dict[Case, list[str]] = defaultdict(list)
    for series in queries.latency_series(store, project):
        if series.is_baseline and series.metric.is_latency:
            baselines[case_of(series)].append(series.key)
    return baselines


def case_of(series: Series) -> Case:
    """Machine, environment, suite and workload: the key that a kernel and its baselines share."""
    return series.machine, series.environment, series.suite, series.workload


def _curve(
    line: KernelLine,
    pairs: Sequence[tuple[str, Sequence[str]]],
    levels: Levels,
    software: Mapping[int, Sequence[tuple[str, str]]],
) -> KernelCurve:
    measured = {commit for ours, _ in pairs for commit in levels.by_key.get(ours, ())}
    commits = [commit for commit in levels.commits if commit in measured][-_NEWEST:]
    own, best = (np.full((len(pairs), len(commits)), np.nan) for _ in range(2))
    for row, (ours, others) in enumerate(pairs):
        mine, known = levels.by_key.get(ours, {}), [levels.by_key.get(key, {}) for key in others]
        for column, commit in enumerate(commits):
            if mine.get(commit):
                own[row, column] = math.log(mine[commit])
            if found := [level for each in known if (level := each.get(commit))]:
                best[row, column] = math.log(min(found))
    for logs in (own, best):
        carry_forward(logs)
    has_both = ~np.isnan(own[:, -1:] + best[:, -1:]).ravel() if commits else np.zeros(0, dtype=bool)
    if not has_both.any():
        return KernelCurve(ours=line.trend, baseline=(), marks=())
    newest = best[has_both, -1:]
    return KernelCurve(
        ours=chained_mean(own[has_both] - newest),
        baseline=chained_mean(best[has_both] - newest),
        marks=tuple(_marks(commits, software)),
    )


def _marks(commits: Sequence[int], software: Mapping[int, Sequence[tuple[str, str]]]) -> Iterable[CurveMark]:
    known = [(place, software[commit]) for place, commit in enumerate(commits) if commit in software]
    for (_, before), (place, after) in itertools.pairwise(known):
        if changes := software_changes(before, after):
            yield CurveMark(place=place, changes=changes)
