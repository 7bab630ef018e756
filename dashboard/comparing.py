"""Two sides compared as the compare page, its links and programs want them: commits, machines or implementations.

The judgement is that of check.py and check_sides.py; here each row learns what readers narrow it by.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from warpwatch.dashboard.check import CheckRow, check, place_of
from warpwatch.dashboard.check_sides import Couple, check_implementations, check_machines
from warpwatch.dashboard.drift import Drift
from warpwatch.dashboard.judged_by import JudgedBy, judged_by
from warpwatch.dashboard.limit_rules.stated import StatedLimits
from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.naming import kernel_of
from warpwatch.dashboard.statistics.noise import times_noise
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.records import Commit, Series, Workload
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.verdict import Verdict

_SAID_ONCE = 3  # rows of one reason


class By(StrEnum):
    """What the two sides are."""

    COMMIT = "commit"
    MACHINE = "machine"
    IMPLEMENTATION = "implementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One judged row. Between two commits the two series are the same."""

    against: Series  # base's
    judged: CheckRow  # of head's series
    kernel: str  # the operator, or the benchmark's module where none is known
    dtype: str | None

    @property
    def series(self) -> Series:
        """Head's."""
        return self.judged.series

    @property
    def change(self) -> float | None:
        """Relative, head against base."""
        return self.judged.comparison.change if self.judged.comparison else None

    @property
    def times_noise(self) -> float | None:
        """How many times the noise of one run the change is; None where there is no noise or no change to tell."""
        told = self.judged.comparison
        return times_noise(told.change, told.noise) if told is not None else None

    def own_limit(self, general: float) -> float | None:
        """The smallest change that counts, where it is not what holds in general, and one of both would tell this one;
        else None."""
        least = self.judged.counts_from
        is_near = self.change is not None and abs(self.change) >= min(least, general)
        return least if is_near and least != general and math.isfinite(least) else None

    @property
    def speed(self) -> float | None:
        """Head's speed as a multiple of base's; None for what is no time."""
        base, head = self.judged.base, self.judged.head
        return base / head if base and head and self.series.metric.is_time else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReason:
    """Why several rows of a comparison could not be judged."""

    reason: str
    rows: int
    cards: tuple[float, float, int] | None  # how far these GPUs differ, 95 %, by so many baselines; None: not one range


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison: regressions first, then what could not be told, the largest first.

    Of machines and implementations latency comes before all else: memory may differ by five digits, and is not
    what is asked first. What its rows can be narrowed by is told once, as there may be thousands.
    """

    project: str
    by: By
    base: Commit  # both the same commit unless commits are compared
    head: Commit
    threshold: float  # where a row's own limits do not say otherwise
    stated: StatedLimits | None  # whose rules it was judged by; None: the dashboard's threshold alone
    rows: tuple[ComparedRow, ...]
    drifts: tuple[Drift, ...]  # machines that moved between two commits; taken off
    kernels: tuple[str, ...]
    machines: tuple[str, ...]
    dtypes: tuple[str, ...]
    metrics: tuple[Metric, ...]
    are_models: bool = False  # two machines with other GPUs (or CPUs): judged by their levels alone

    @property
    def shared_reasons(self) -> tuple[SharedReason, ...]:
        """Why several rows could not be judged, to be said once for all of them; the commonest first."""
        together: dict[str, list[CheckRow]] = {}
        for row in self.rows:
            if row.judged.verdict is Verdict.INCONCLUSIVE and row.judged.reason:
                together.setdefault(row.judged.reason, []).append(row.judged)
        found = [_shared(reason, rows) for reason, rows in together.items() if len(rows) >= _SAID_ONCE]
        return tuple(sorted(found, key=lambda each: -each.rows))


def _shared(reason: str, rows: Iterable[CheckRow]) -> SharedReason:
    rows = tuple(rows)
    across = {(each.cards_low, each.cards_high, each.controls) for row in rows if (each := row.across) is not None}
    return SharedReason(reason=reason, rows=len(rows), cards=across.pop() if len(across) == 1 else None)


def compare_commits(
    store: Store, project: str, base: Commit, head: Commit, *, threshold: float, all_metrics: bool = False
) -> Compared:  # fmt: skip
    """What `warpwatch check` says of them, by the limits that the project states; `threshold` is for what it leaves
    open."""
    limits = judged_by(store, project, threshold=threshold)
    found = check(store, project, base, head, threshold=limits.threshold, limits=limits.limits, all_metrics=all_metrics)
    rows = [(row.series, row) for row in found.rows]
    return _compared(store, project, By.COMMIT, (base, head), rows, limits, found.drifts)


def compare_machines(
    store: Store, project: str, commit: Commit, base: str, head: str, *, threshold: float
) -> Compared:  # fmt: skip
    """One machine against another at a commit that both measured."""
    limits = judged_by(store, project, threshold=threshold)
    models = {each.name: each.gpu or each.cpu for each in queries.machines(store, project)}
    are_models = None not in (known := (models.get(base), models.get(head))) and known[0] != known[1]
    couples = check_machines(store, project, commit, base, head, limits=limits.limits, are_models=are_models)
    compared = _compared(store, project, By.MACHINE, (commit, commit), _in_order(couples), limits)
    return replace(compared, are_models=are_models)


def compare_implementations(
    store: Store, project: str, commit: Commit, base: str, head: str, *, threshold: float
) -> Compared:  # fmt: skip
    """One implementation against another in the same runs; empty names mean every baseline, and every one of ours."""
    limits = judged_by(store, project, threshold=threshold)
    couples = check_implementations(store, project, commit, base, head, limits=limits.limits)
    return _compared(store, project, By.IMPLEMENTATION, (commit, commit), _in_order(couples), limits)


def _in_order(couples: Iterable[Couple]) -> list[tuple[Series, CheckRow]]:
    """Base's series and the row of each: latency first, then as a check tells them."""
    ordered = sorted(couples, key=lambda couple: (not couple.row.series.metric.is_latency, *place_of(couple.row)))
    return [(couple.against, couple.row) for couple in ordered]


def _compared(
    store: Store, project: str, by: By, ends: tuple[Commit, Commit], judged: Iterable[tuple[Series, CheckRow]],
    limits: JudgedBy, drifts: tuple[Drift, ...] = (),
) -> Compared:  # fmt: skip
    rows = _rows(judged, queries.project_workloads(store, project))
    return Compared(
        project=project,
        by=by,
        base=ends[0],
        head=ends[1],
        threshold=limits.threshold,
        stated=limits.stated,
        rows=rows,
        drifts=drifts,
        kernels=tuple(sorted({row.kernel for row in rows})),
        machines=tuple(sorted({row.series.machine for row in rows})),
        dtypes=tuple(sorted({row.dtype for row in rows if row.dtype})),
        metrics=tuple(sorted({row.series.metric for row in rows}, key=lambda metric: (metric.label, metric.unit))),
    )


def _rows(
    judged: Iterable[tuple[Series, CheckRow]], known: Mapping[tuple[str, str], Workload]
) -> tuple[ComparedRow, ...]:  # fmt: skip
    rows = []
    for against, row in judged:
        workload = known.get((row.series.suite, row.series.workload or "")) if row.series.workload else None
        rows.append(
            ComparedRow(
                against=against,
                judged=row,
                kernel=kernel_of(row.series, workload),
                dtype=workload.dtype if workload else None,
            )
        )
    return tuple(rows)
