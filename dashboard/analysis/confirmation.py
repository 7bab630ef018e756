"""Comparison of two commits by their further runs alone, measured in turns because a first run raised a suspicion."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ..model.comparison import Comparison, ComparisonRow
from ..model.series import Commit
from ..model.thresholds import LimitsOf
from ..model.verdict import CHANGED, NoiseSource
from ..statistics.comparison import FAMILY_ERROR
from ..statistics.detection import SMALLEST_CHANGE, ConfirmedStep, holm_p_values
from ..store import queries
from ..store.analysis import StaleProject
from ..store.engine import Store
from ..store.queries.run_facts import remeasured_pairs
from ..store.queries.series_list import series_index
from .compare_commits import commit_comparison, compare_pairs

CONFIRMING_RUNS = 3  # of each commit: two equal outliers in two runs look like a change without noise


def compare_further_runs(
    store: Store,
    project: str,
    base: Commit,
    head: Commit,
    *,
    machine: str,
    threshold: float,
    limits: LimitsOf | None = None,
    family_error: float = FAMILY_ERROR,
) -> Comparison:
    """Compare every series that one session measured again at both commits; they are one family of tests.

    The first run of each commit is left out, as it selected the series: the larger of two noisy values is mostly too
    large, and a test of both would repeat that. Exact quantities need no further run and have no row.
    """
    found = [
        pair
        for pair in queries.pairs(store, project, base.hash, head.hash, machine=machine, further_runs=True)
        if pair.same_session
    ]
    rows, drifts = compare_pairs(
        found,
        threshold=threshold,
        limits=limits,
        family_error=family_error,
        workloads=queries.project_workloads(store, project),
    )
    return commit_comparison(project, base, head, rows, drifts, threshold=threshold)


def has_confirming_runs(row: ComparisonRow) -> bool:
    """Whether the row's verdict rests on enough runs of each commit to be final."""
    return row.estimate is not None and min(row.estimate.base_runs, row.estimate.head_runs) >= CONFIRMING_RUNS


def confirmed_steps(store: Store, project: StaleProject) -> Mapping[int, Sequence[ConfirmedStep]]:
    """Steps that further runs confirm, by series id, on the machines with series to analyse."""
    steps: dict[int, list[ConfirmedStep]] = defaultdict(list)
    pairs = remeasured_pairs(store, project.id, runs=1 + CONFIRMING_RUNS)
    ids = {entry.series.key: number for number, entry in series_index(store, project.name).items()} if pairs else {}
    for pair in pairs:
        base, head = (queries.find_commit(store, project.name, name) for name in (pair.base, pair.head))
        if base is None or head is None:
            continue
        comparison = compare_further_runs(
            store, project.name, base, head, machine=pair.machine, threshold=SMALLEST_CHANGE
        )
        for row, p_adjusted in _changed(comparison):
            if row.estimate is None or row.base is None or row.head is None:
                continue
            steps[ids[row.series.key]].append(
                ConfirmedStep(
                    base=pair.base_id,
                    head=pair.head_id,
                    before=row.base,
                    after=row.head,
                    estimate=row.estimate,
                    p_adjusted=p_adjusted,
                )
            )
    return steps


def _changed(comparison: Comparison) -> list[tuple[ComparisonRow, float]]:
    """Changed rows with enough runs, and their p-values adjusted for all rows."""
    tested = [row for row in comparison.rows if row.estimate and row.estimate.noise_source is not NoiseSource.NONE]
    adjusted = holm_p_values([row.estimate.p_value for row in tested if row.estimate])
    return [
        (row, p) for row, p in zip(tested, adjusted, strict=True) if row.verdict in CHANGED and has_confirming_runs(row)
    ]
