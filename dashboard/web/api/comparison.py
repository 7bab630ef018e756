"""`/api/projects/<project>/comparison`: two commits compared, as `warpwatch check` does it."""

from typing import Literal

from flask import Blueprint, current_app
from pydantic import Field

from ...analysis.compare_commits import check
from ...analysis.thresholds import threshold_resolver
from ...model.comparison import Comparison
from ..comparison_cache import compared_commits
from ..request_context import commit_or_404, project_or_404, store
from .operation import operation
from .query_params import CommitPrefix, Table, Text

bp = Blueprint("api_comparison", __name__, url_prefix="/api/projects/<project:project>")


class ComparisonQuestion(Table):
    """Which two commits, and what of them."""

    base: CommitPrefix
    """A hash or its beginning."""
    head: CommitPrefix
    machine: Text = ""
    metrics: Literal["judged", "all"] = "judged"
    threshold: float | None = Field(None, gt=0, lt=1, allow_inf_nan=False)
    """Smallest relative change that matters, of every series; as the project states where none is given, else the
    server's own."""


@operation(bp, "/comparison", question=ComparisonQuestion, answer=Comparison, tag="Commits")
def show(project: str, asked: ComparisonQuestion) -> Comparison:
    """Two commits compared: the verdict of every series, its change with an interval, and how the machine drifted.

    The same comparison as `warpwatch check BASE HEAD` without accepted regressions; all series are one family of tests,
    so that false alarms stay rare.
    """
    found = project_or_404(project)
    base, head = (commit_or_404(found.name, prefix) for prefix in (asked.base, asked.head))
    is_whole = asked.metrics == "all"
    if not asked.machine and asked.threshold is None:
        return compared_commits(found.name, base, head, all_metrics=is_whole).comparison
    # Not cached: any threshold may be asked for, and each would fill the cache.
    limits = threshold_resolver(
        store(), found.name, threshold=current_app.config["THRESHOLD"], threshold_of_all=asked.threshold
    )
    return check(
        store(),
        found.name,
        base,
        head,
        threshold=limits.threshold,
        limits=limits.limits,
        policy=limits.policy,
        machine=asked.machine or None,
        all_metrics=is_whole,
    )
