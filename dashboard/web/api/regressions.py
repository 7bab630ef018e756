"""`/api/projects/<project>/regressions`: what got worse."""

from datetime import UTC, datetime, time

from flask import Blueprint

from ...model.schema import CommitSchema, Schema, SeriesSchema, commit_schema, series_schema
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.policy import stated_limits
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import project_or_404, store
from .limits import LimitsSource, limits_source
from .operation import operation
from .query_params import Day, Paged, Text
from .responses import Listing, listing

bp = Blueprint("api_regressions", __name__, url_prefix="/api/projects/<project:project>")
_MOST_GROUPS = 1_000_000_000  # all of them


class RegressionsQuestion(Paged):
    """Which of them."""

    machine: Text = ""
    kind: ChangeKind = ChangeKind.STEP
    since: Day | None = None
    """Only commits of that day (UTC) and later."""


class RegressionShape(Schema):
    """A series that got worse."""

    machine: str
    commit: CommitSchema
    series: SeriesSchema
    change: ChangeSchema


class RegressionList(Listing):
    """By commit, newest first, and machine; the largest first."""

    items: list[RegressionShape]
    limits: LimitsSource | None
    """Whose limits say what counts: smaller steps are not among them. Null: the project has stated none."""


@operation(bp, "/regressions", question=RegressionsQuestion, answer=RegressionList, tag="Regressions")
def index(project: str, asked: RegressionsQuestion) -> RegressionList:
    """What got worse, newest first: steps that count, which a commit did, or another kind of change.

    Judged metrics of ours. Series that got worse at one commit on one machine stand together.
    """
    name = project_or_404(project).name
    groups = queries.regressions(store(), name, machine=asked.machine or None, limit=_MOST_GROUPS, kind=asked.kind)
    start = datetime.combine(asked.since, time.min, UTC) if asked.since else None
    found = [
        (group, each) for group in groups if start is None or group.commit.date >= start for each in group.regressions
    ]
    kept, place = listing(found, asked)
    return RegressionList(
        items=[
            RegressionShape(
                machine=group.machine,
                commit=commit_schema(group.commit),
                series=series_schema(each.series),
                change=change_schema(each.series, each.change),
            )
            for group, each in kept
        ],
        limits=limits_source(stated_limits(store(), name)),
        **place,
    )
