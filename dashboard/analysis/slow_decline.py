"""Attribution of slow declines to code, harness, software or GPU (found by statistics/slow_decline.py).

The machine's part is what its controls show between the same commits: canaries, else three baselines or more; of
GPU-adjusted series, what the adjustment took off. Of that part, what happened at the commits where the suite's sources
or a driver or library changed is the harness's or the software's, and the rest the GPU's. What remains is the code's,
if the machine code changed at all.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from ..model.changepoint import Regression, SeriesChange
from ..model.quantities import relative_change
from ..model.verdict import ChangeKind, Control, DeclineCause
from ..statistics.machine_attribution import FEWEST, Floats, control_shifts
from ..statistics.slow_decline import WINDOW, without_steps
from ..store import queries
from ..store.column_records import MachineHistory, SeriesRuns
from ..store.engine import Store, cached
from .gpu_sessions import Software, changed

_ALL = 10**9  # commits
_HARNESS = frozenset({"suite"})


def with_causes(store: Store, project: str, key: str, episodes: Sequence[SeriesChange]) -> tuple[SeriesChange, ...]:
    """The episodes of a series, a slow decline with its causes."""
    if all(each.kind is not ChangeKind.SLOW_DECLINE for each in episodes):
        return tuple(episodes)
    known = slow_declines(store, project).get(key)
    return tuple(known.change if known and each.kind is ChangeKind.SLOW_DECLINE else each for each in episodes)


@cached()
def slow_declines(store: Store, project: str) -> Mapping[str, Regression]:
    """The slow declines of our series with their causes, by the key of the series."""
    groups = queries.regressions(store, project, kind=ChangeKind.SLOW_DECLINE, limit=_ALL)
    found = [each for group in groups for each in group.regressions]
    ratios = queries.adjusting_ratios(store, project, {each.series.key for each in found}) if found else {}
    attributed: dict[str, Regression] = {}
    for machine in sorted({each.series.machine for each in found}):
        history = queries.machine_history(store, project, machine, commits=_ALL)
        software = queries.commit_software(store, project, machine)
        for each in found:
            if each.series.machine == machine:
                causes = _causes(store, each, history, software, ratios.get(each.series.key)) if history else {}
                attributed[each.series.key] = replace(each, change=replace(each.change, causes=causes))
    return attributed


def _causes(
    store: Store,
    found: Regression,
    history: MachineHistory,
    software: Software,
    ratios: Sequence[float | None] | None,
) -> Mapping[DeclineCause, float]:
    """Relative change by cause, the largest first; empty where neither controls nor references show the machine."""
    own = next((each for each in history.series if each.series.key == found.series.key), None)
    recorded = queries.own_history(store, found.series.key)
    if own is None or recorded is None:
        return {}
    levels = _levels(own)
    commits, steps = list(levels), [change.index for change in recorded.changes]
    whole, start = math.log1p(found.change.magnitude), found.change.index
    if ratios is not None and len(ratios) == len(commits):
        measured = np.log([levels[commit] for commit in commits])
        effect = -np.log([math.nan if ratio is None else ratio for ratio in ratios])
        without_gpus, plain = (
            float(_shift(_prepared(each[None], steps), start, len(commits) - WINDOW))
            for each in (measured - effect, measured)
        )
        if abs(whole - without_gpus) <= abs(whole - plain):
            return {DeclineCause.CODE: found.change.magnitude}
        controls = effect[None]
    else:
        controls = _control_levels(own, history, commits)
    if not len(controls):
        return {}
    controls = _prepared(controls, steps)
    machine = _shift(controls, start, len(commits) - WINDOW)
    parts = dict.fromkeys((DeclineCause.HARNESS, DeclineCause.SOFTWARE), 0.0)
    for first, last, names in _marks(commits, software, start, len(commits) - WINDOW):
        parts[DeclineCause.HARNESS if names <= _HARNESS else DeclineCause.SOFTWARE] += _shift(controls, first, last)
    parts[DeclineCause.GPU] = machine - sum(parts.values())
    hashes = {own.code.get(commit) for commit in commits[max(start - WINDOW, 0) :]}
    is_same_code = len(hashes) == 1 and None not in hashes
    parts[DeclineCause.UNEXPLAINED if is_same_code else DeclineCause.CODE] = whole - machine
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return {cause: relative_change(part) for cause, part in ordered if part}


def _levels(runs: SeriesRuns) -> dict[int, float]:
    """Median over the runs of each commit, by id, in order."""
    pairs = zip(runs.commit.tolist(), runs.value.tolist(), strict=True)
    return {
        commit: median(value for _, value in both) for commit, both in itertools.groupby(pairs, lambda each: each[0])
    }


def _control_levels(own: SeriesRuns, history: MachineHistory, commits: Sequence[int]) -> Floats:
    """Logarithms of the levels of the controls at the commits, a row each; NaN: none."""
    latencies = [
        each
        for each in history.series
        if each.series.environment == own.series.environment and each.series.metric.is_latency
    ]
    for control, chosen in (
        (Control.CANARIES, [each for each in latencies if each.series.is_control]),
        (Control.BASELINES, [each for each in latencies if each.series.is_baseline]),
    ):
        if len(chosen) >= FEWEST[control]:
            rows = [_levels(each) for each in chosen]
            return np.log([[row.get(commit, math.nan) for commit in commits] for row in rows])
    return np.empty((0, len(commits)))


def _prepared(rows: Floats, steps: Sequence[int]) -> Floats:
    """With the steps of the series taken off that they share, as they are of the series itself."""
    prepared = rows.copy()
    for row in prepared:
        known = np.flatnonzero(~np.isnan(row))
        row[known] = without_steps(row[known], np.searchsorted(known, steps).tolist())
    return prepared


def _shift(rows: Floats, before: int, after: int) -> float:
    """Median over the rows of the shift between the ten commits before one index and those from the other on."""
    shifts = control_shifts(rows, np.array([before]), np.array([after])).value
    return float(np.nanmedian(shifts)) if not np.isnan(shifts).all() else 0.0


def _marks(commits: Sequence[int], software: Software, start: int, end: int) -> list[tuple[int, int, frozenset[str]]]:
    """Where software changed: indices of the first and the last of changes within ten commits, and what changed."""
    found: list[tuple[int, int, frozenset[str]]] = []
    known: int | None = None
    for index, commit in enumerate(commits):
        if commit not in software:
            continue
        names = changed(software, known, commit) if known is not None else frozenset()
        known = commit
        if not names or not start <= index < end:
            continue
        if found and index - found[-1][1] < WINDOW:
            found[-1] = (found[-1][0], index, found[-1][2] | names)
        else:
            found.append((index, index, names))
    return found
