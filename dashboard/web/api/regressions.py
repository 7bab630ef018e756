"""`/api/projects/<project>/regressions`: series that regressed or improved."""

from datetime import UTC, datetime, time
from typing import Literal

from flask import Blueprint

from ...model.schema import CommitSchema, Schema, SeriesSchema, commit_schema, series_schema
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.policy import stated_limits
from ...text.change_schema import ChangeSchema, change_schema
from ..request_context import project_or_404, store
from .limits import LimitsSource, limits_source
from .operation import Day, Listing, PageParams, Text, listing, operation

bp = Blueprint("api_regressions", __name__, url_prefix="/api/projects/<project:project>")
_MOST_GROUPS = 1_000_000_000  # all of them


class RegressionsParams(PageParams):
    """Filters of regressions."""

    machine: Text = ""
    kind: ChangeKind = ChangeKind.STEP
    direction: Literal["worse", "better"] = "worse"
    """Regressions, or improvements."""
    since: Day | None = None
    """Only commits of that day (UTC) and later."""


class RegressionSchema(Schema):
    """A series that regressed or improved."""

    machine: str
    commit: CommitSchema
    series: SeriesSchema
    change: ChangeSchema


class RegressionList(Listing):
    """Regressions by commit, newest first, and machine; the largest first."""

    items: list[RegressionSchema]
    limits: LimitsSource | None
    """Source of the thresholds; smaller steps are left out. Null if the project has none."""


@operation(bp, "/regressions", params=RegressionsParams, response=RegressionList, tag="Regressions")
def index(project: str, params: RegressionsParams) -> RegressionList:
    """List regressions or improvements.

    Steps of judged metrics that a commit caused, or changes of another kind; newest first, grouped by commit and
    machine.
    """
    name = project_or_404(project).name
    machine = params.machine or None
    if params.direction == "worse":
        groups = queries.regressions(store(), name, machine=machine, limit=_MOST_GROUPS, kind=params.kind)
    else:
        groups = queries.unattributed_changes(
            store(), name, params.kind, machine=machine, is_worse=False, limit=_MOST_GROUPS
        ).groups
    start = datetime.combine(params.since, time.min, UTC) if params.since else None
    rows = [
        (group, regression)
        for group in groups
        if start is None or group.commit.date >= start
        for regression in group.regressions
    ]
    page, page_fields = listing(rows, params)
    return RegressionList(
        items=[
            RegressionSchema(
                machine=group.machine,
                commit=commit_schema(group.commit),
                series=series_schema(regression.series),
                change=change_schema(regression.series, regression.change),
            )
            for group, regression in page
        ],
        limits=limits_source(stated_limits(store(), name)),
        **page_fields,
    )
