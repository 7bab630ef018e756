"""`/api/projects/<project>/commits`: commits with results; changes and values at one commit."""

from flask import Blueprint
from pydantic import Field

from ...analysis.thresholds import step_thresholds
from ...model.history import CommitPage
from ...model.schema import CommitSchema, Schema, SeriesSchema, series_schema
from ...model.series import Status
from ...store import queries
from ...store.queries.commits import commit_list
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import commit_or_404, project_or_404, store
from .operation import Listing, PageParams, QueryParams, Text, listing, operation, page_fields

bp = Blueprint("api_commits", __name__, url_prefix="/api/projects/<project:project>/commits")


class CommitList(Listing):
    """Commits, the newest first."""

    items: list[CommitSchema]


class SeriesChangeSchema(Schema):
    """A changepoint with its series."""

    series: SeriesSchema
    change: ChangeSchema


class CommitResponse(Schema):
    """One commit, its neighbours and its changepoints."""

    commit: CommitSchema
    older: str | None
    """Hash of the previous commit with results; `newer` is the next one."""
    newer: str | None
    series: int = Field(ge=0)
    """Number of series with a record at this commit."""
    changes: list[SeriesChangeSchema]
    """Judged metrics first, then regressions before improvements."""


class CommitValueSchema(Schema):
    """Value of a series at one commit, and at the newest earlier commit with a valid one."""

    series: SeriesSchema
    value: float | None
    """Median over runs, in `series.unit`."""
    status: Status
    reason: str | None
    runs: int = Field(ge=0)
    previous: float | None
    previous_commit: str | None


class ValueList(Listing):
    """Series by machine and benchmark."""

    items: list[CommitValueSchema]


class ValuesParams(PageParams):
    """Filters of series."""

    machine: Text = ""
    metric: Text = ""


@operation(bp, "", params=PageParams, response=CommitList, tag="Commits")
def index(project: str, params: PageParams) -> CommitList:
    """List commits.

    Those with results, newest first.
    """
    total, commits = commit_list(store(), project_or_404(project).name, limit=params.limit, offset=params.offset)
    return CommitList(items=[CommitSchema.of(commit) for commit in commits], **page_fields(total, params))


@operation(bp, "/<commit>", params=QueryParams, response=CommitResponse, tag="Commits")
def show(project: str, commit: str, params: QueryParams) -> CommitResponse:
    """Get a commit.

    By its hash or a prefix of it: neighbours and changepoints.
    """
    page = _page_or_404(project, commit)
    limits = step_thresholds(store(), project)
    return CommitResponse(
        commit=CommitSchema.of(page.commit),
        older=page.older.hash if page.older else None,
        newer=page.newer.hash if page.newer else None,
        series=len(page.points),
        changes=[
            SeriesChangeSchema(series=series_schema(row.series), change=change_schema(row.series, change))
            for row in page.changes
            for change in limits.mark_below_threshold(row.series, [row.change])
        ],
    )


@operation(bp, "/<commit>/values", params=ValuesParams, response=ValueList, tag="Commits")
def values(project: str, commit: str, params: ValuesParams) -> ValueList:
    """List the values of a commit.

    Everything recorded there, with each series' previous value.
    """
    points = [
        point
        for point in _page_or_404(project, commit).points
        if params.machine in ("", point.series.machine) and params.metric in ("", point.series.metric.name)
    ]
    rows, fields = listing(points, params)
    return ValueList(
        items=[
            CommitValueSchema.of(point, previous_commit=point.previous_commit.hash if point.previous_commit else None)
            for point in rows
        ],
        **fields,
    )


def _page_or_404(project: str, prefix: str) -> CommitPage:
    name = project_or_404(project).name
    page = queries.commit_page(store(), name, commit_or_404(name, prefix).hash)
    assert page is not None
    return page
