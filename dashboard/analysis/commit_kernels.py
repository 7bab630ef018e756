"""What a commit did to each kernel: by the pair of commits, and by the history."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..model.changepoint import Regression
from ..model.comparison import ComparisonRow
from ..model.metric import Metric
from ..model.metric_change import ChangedSeries, MetricChanges, metric_changes
from ..model.naming import kernel_of, natural
from ..model.series import Series, Workloads, workload_of
from ..model.verdict import CHANGED, ChangeKind, Verdict
from .compare_sides import Compared

_TOO_NOISY = "too few runs for their noise"


class Agreement(StrEnum):
    """Whether the comparison with the commit before and the whole history say the same of a kernel."""

    AGREE = "agree"
    OPPOSITE = "opposite"
    ONLY_PAIR = "only pair"
    ONLY_HISTORY = "only history"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelAtCommit:
    """One kernel on one machine that changed at a commit, by the pair of commits or by its history."""

    kernel: str
    has_operator: bool
    machine: str
    pair: MetricChanges
    history: MetricChanges  # steps
    agreement: Agreement
    is_newest: bool  # no later commit has results, so that no level can have lasted
    reasons: tuple[tuple[str, int], ...]  # why the other side has no change, in series; the most frequent first


def kernels_at_commit(
    compared: Compared | None,
    rows: Sequence[ComparisonRow],
    changes: Iterable[Regression],
    workloads: Workloads,
    *,
    is_newest: bool,
) -> tuple[KernelAtCommit, ...]:
    """Kernels with a change, regressions first. `rows`: of the comparison, on the machines in question."""
    pairs: dict[tuple[str, str], list[tuple[ComparisonRow, Series]]] = {}
    for row in rows:
        series = compared.series[row.series.key] if compared is not None else None
        if series is not None and series.is_ours:
            pairs.setdefault(_key(series, workloads), []).append((row, series))
    histories: dict[tuple[str, str], list[Regression]] = {}
    for each in changes:
        if each.series.is_ours and each.series.metric.is_judged:
            histories.setdefault(_key(each.series, workloads), []).append(each)
    found = [
        line
        for key in {**pairs, **histories}
        if (line := _line(key, pairs.get(key, []), histories.get(key, []), workloads, is_newest=is_newest)) is not None
    ]
    return tuple(sorted(found, key=lambda line: (not _is_worse(line), natural(line.kernel), line.machine)))


def _key(series: Series, workloads: Workloads) -> tuple[str, str]:
    return kernel_of(series, workload_of(series, workloads)), series.machine


def _is_worse(line: KernelAtCommit) -> bool:
    return any(each.verdict is Verdict.REGRESSED for each in (*line.pair.every, *line.history.every))


def _line(
    key: tuple[str, str],
    pairs: Sequence[tuple[ComparisonRow, Series]],
    changes: Sequence[Regression],
    workloads: Workloads,
    *,
    is_newest: bool,
) -> KernelAtCommit | None:
    steps = [each for each in changes if each.change.kind is ChangeKind.STEP and each.change.below_limit is None]
    moved = [(row, series) for row, series in pairs if row.verdict in CHANGED]
    if not moved and not steps:
        return None
    every = [series for _, series in pairs] or [each.series for each in steps]
    first = _first(every, workloads)
    counts = Counter((series.metric, series.implementation) for series in every)

    def count_of(metric: Metric, implementation: str | None) -> int:
        return counts[metric, implementation]

    by_pair = metric_changes([_by_pair(row, series) for row, series in moved], first, count_of)
    by_history = metric_changes([_by_history(each) for each in steps], first, count_of)
    agreement = _agreement(by_pair, by_history)
    reasons: Counter[str] = Counter()
    if agreement is Agreement.ONLY_PAIR:
        kinds = {each.series.key: each.change.kind.value for each in changes}
        reasons.update(kinds.get(series.key, "") for _, series in moved)
    elif agreement is Agreement.ONLY_HISTORY:
        row_of = {row.series.key: row for row, _ in pairs}
        reasons.update(_why_not(row_of.get(each.series.key)) for each in steps)
    return KernelAtCommit(
        kernel=key[0],
        has_operator=workload_of(every[0], workloads) is not None,
        machine=key[1],
        pair=by_pair,
        history=by_history,
        agreement=agreement,
        is_newest=is_newest,
        reasons=tuple(reasons.most_common()),
    )


def _first(series: Sequence[Series], workloads: Workloads) -> str | None:
    """The kernel's first implementation."""
    named = [kernel for each in series if (known := workload_of(each, workloads)) for kernel in known.kernels[:1]]
    return named[0] if named else series[0].implementation


def _by_pair(row: ComparisonRow, series: Series) -> ChangedSeries:
    change = row.estimate.change if row.estimate is not None else None
    return ChangedSeries(series=series, verdict=row.verdict, change=change, is_across_gpus=row.across_gpus is not None)


def _by_history(each: Regression) -> ChangedSeries:
    change = each.change
    verdict = Verdict.REGRESSED if change.is_worse else Verdict.IMPROVED
    return ChangedSeries(
        series=each.series, verdict=verdict, change=change.magnitude, is_across_gpus=change.is_across_gpus
    )


def _agreement(pair: MetricChanges, history: MetricChanges) -> Agreement:
    if not history:
        return Agreement.ONLY_PAIR
    if not pair:
        return Agreement.ONLY_HISTORY
    directions = [{(each.metric, each.verdict) for each in side.every} for side in (pair, history)]
    return Agreement.AGREE if directions[0] & directions[1] else Agreement.OPPOSITE


def _why_not(row: ComparisonRow | None) -> str:
    if row is None:
        return Verdict.MISSING.value
    if row.verdict is Verdict.INCONCLUSIVE:
        return row.reason or _TOO_NOISY
    return row.verdict.value
