"""`/api/projects/<project>/release`: the release report of two commits."""

from flask import Blueprint

from ...analysis.release_report import ReleaseReport
from ..comparison_cache import cached_report
from ..request_context import commit_or_404, project_or_404
from .operation import CommitPrefix, CsvParams, operation

bp = Blueprint("api_release", __name__, url_prefix="/api/projects/<project:project>")


class ReleaseParams(CsvParams):
    """Two commits."""

    base: CommitPrefix
    """A hash or its beginning."""
    head: CommitPrefix


@operation(bp, "/release", params=ReleaseParams, response=ReleaseReport, tag="Commits")
def show(project: str, params: ReleaseParams) -> ReleaseReport:
    """Get a release report.

    Latency of every kernel, other metrics that changed, and the standing against the baselines at both commits.
    """
    name = project_or_404(project).name
    base, head = (commit_or_404(name, prefix) for prefix in (params.base, params.head))
    return cached_report(name, base, head)
