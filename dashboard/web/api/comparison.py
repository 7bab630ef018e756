"""`/api/projects/<project>/comparison` and `/release`: two commits compared, and their release report."""

from typing import Literal

from flask import Blueprint
from pydantic import Field

from ...analysis.compare_commits import check
from ...analysis.compare_sides import compare_commits
from ...analysis.release_report import ReleaseReport, release_report
from ...analysis.thresholds import threshold_resolver
from ...model.comparison import Comparison
from ..request_context import commit_or_404, default_threshold, project_or_404, store
from .operation import CommitPrefix, CsvParams, Text, operation

bp = Blueprint("api_comparison", __name__, url_prefix="/api/projects/<project:project>")


class ComparisonParams(CsvParams):
    """Two commits and filters."""

    base: CommitPrefix
    """A hash or its beginning."""
    head: CommitPrefix
    machine: Text = ""
    metrics: Literal["judged", "all"] = "judged"
    threshold: float | None = Field(None, gt=0, lt=1, allow_inf_nan=False)
    """Smallest relative change that matters, for every series. Default: the project's thresholds, else the server's."""


@operation(bp, "/comparison", params=ComparisonParams, response=Comparison, tag="Commits")
def show(project: str, params: ComparisonParams) -> Comparison:
    """Compare two commits.

    The verdict of every series, its change with an interval, and the drift of the machine: the same comparison as
    `warpwatch check BASE HEAD` without accepted regressions. All series are one family of tests.
    """
    name = project_or_404(project).name
    base, head = (commit_or_404(name, prefix) for prefix in (params.base, params.head))
    is_whole = params.metrics == "all"
    if not params.machine and params.threshold is None:
        return compare_commits(
            store(), name, base, head, threshold=default_threshold(), all_metrics=is_whole
        ).comparison
    # Not cached: clients may use any number of thresholds.
    limits = threshold_resolver(store(), name, threshold=default_threshold(), threshold_of_all=params.threshold)
    return check(
        store(),
        name,
        base,
        head,
        threshold=limits.threshold,
        limits=limits.limits,
        policy=limits.policy,
        machine=params.machine or None,
        all_metrics=is_whole,
    )


class ReleaseParams(CsvParams):
    """Two commits."""

    base: CommitPrefix
    """A hash or its beginning."""
    head: CommitPrefix


@operation(bp, "/release", params=ReleaseParams, response=ReleaseReport, tag="Commits")
def release(project: str, params: ReleaseParams) -> ReleaseReport:
    """Get a release report.

    Latency of every kernel, other metrics that changed, and the standing against the baselines at both commits.
    """
    name = project_or_404(project).name
    base, head = (commit_or_404(name, prefix) for prefix in (params.base, params.head))
    return release_report(store(), name, base, head, threshold=default_threshold())
