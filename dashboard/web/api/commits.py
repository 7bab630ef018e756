"""`/api/projects/<project>/commits`: the commits that have results, and what one of them did."""

from flask import Blueprint
from pydantic import Field

from ...analysis.thresholds import step_thresholds
from ...model.history import CommitPage
from ...model.schema import CommitSchema, Schema, SeriesSchema, commit_schema, series_schema
from ...model.series import Status
from ...store import queries
from ...store.queries.commits import commit_list
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import commit_or_404, project_or_404, store
from .operation import operation
from .query_params import Paged, Question, Text
from .responses import Listing, listing, place

bp = Blueprint("api_commits", __name__, url_prefix="/api/projects/<project:project>/commits")


class CommitList(Listing):
    """Commits, the newest first."""

    items: list[CommitSchema]


class ChangeOfSeries(Schema):
    """A changepoint with its series."""

    series: SeriesSchema
    change: ChangeSchema


class CommitAnswer(Schema):
    """One commit between its neighbours, and the changes that it began."""

    commit: CommitSchema
    older: str | None
    """The neighbours' hashes in the project's order of commits that have results."""
    newer: str | None
    series: int = Field(ge=0)
    """How many have a record here."""
    changes: list[ChangeOfSeries]
    """What is judged first, then worse before better."""


class ValueAtCommit(Schema):
    """A series at one commit, beside the newest earlier one with a number."""

    series: SeriesSchema
    value: float | None
    """In `series.unit`: the median over runs."""
    status: Status
    reason: str | None
    runs: int = Field(ge=0)
    previous: float | None
    previous_commit: str | None


class ValueList(Listing):
    """Series by machine and benchmark."""

    items: list[ValueAtCommit]


class ValuesQuestion(Paged):
    """Which of the series."""

    machine: Text = ""
    metric: Text = ""


@operation(bp, "", question=Paged, answer=CommitList, tag="Commits")
def index(project: str, asked: Paged) -> CommitList:
    """The commits that have results, newest first."""
    total, found = commit_list(store(), project_or_404(project).name, limit=asked.limit, offset=asked.offset)
    return CommitList(items=[commit_schema(each) for each in found], **place(total, asked))


@operation(bp, "/<commit>", question=Question, answer=CommitAnswer, tag="Commits")
def show(project: str, commit: str, asked: Question) -> CommitAnswer:
    """One commit, by its hash or the beginning of it: neighbours, and every change of level that it began."""
    page = _page_or_404(project, commit)
    limits = step_thresholds(store(), project)
    return CommitAnswer(
        commit=commit_schema(page.commit),
        older=page.older.hash if page.older else None,
        newer=page.newer.hash if page.newer else None,
        series=len(page.points),
        changes=[
            ChangeOfSeries(series=series_schema(each.series), change=change_schema(each.series, change))
            for each in page.changes
            for change in limits.mark_below_threshold(each.series, [each.change])
        ],
    )


@operation(bp, "/<commit>/values", question=ValuesQuestion, answer=ValueList, tag="Commits")
def values(project: str, commit: str, asked: ValuesQuestion) -> ValueList:
    """Everything recorded at one commit, each series beside its value before."""
    found = [
        point
        for point in _page_or_404(project, commit).points
        if asked.machine in ("", point.series.machine) and asked.metric in ("", point.series.metric.name)
    ]
    kept, part = listing(found, asked)
    return ValueList(
        items=[
            ValueAtCommit(
                series=series_schema(point.series),
                value=point.value,
                status=point.status,
                reason=point.reason,
                runs=point.runs,
                previous=point.previous,
                previous_commit=point.previous_commit.hash if point.previous_commit else None,
            )
            for point in kept
        ],
        **part,
    )


def _page_or_404(project: str, prefix: str) -> CommitPage:
    found = project_or_404(project)
    page = queries.commit_page(store(), found.name, commit_or_404(found.name, prefix).hash)
    assert page is not None
    return page
