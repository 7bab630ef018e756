"""`/api/projects/<project>/regressions` and `/alerts`: series that regressed or improved, and alerts of every kind."""

from datetime import UTC, datetime, time
from typing import Literal

from flask import Blueprint

from ...model.alert import Alert, AlertKind, AlertState, EventKind, HealthAlert, RegressionAlert
from ...model.schema import CommitSchema, Schema, SeriesSchema
from ...model.verdict import ChangeKind
from ...store import queries
from ...store.policy import stated_limits
from ...store.queries.alerts import alerts
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
    groups = queries.regressions(
        store(),
        name,
        machine=params.machine or None,
        limit=_MOST_GROUPS,
        kind=params.kind,
        is_worse=params.direction == "worse",
    )
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
            RegressionSchema.of(
                group, series=regression.series, change=change_schema(regression.series, regression.change)
            )
            for group, regression in page
        ],
        limits=limits_source(stated_limits(store(), name)),
        **page_fields,
    )


_MOST_ALERTS = 1_000_000_000  # all of them


class AlertsParams(PageParams):
    """Filters of alerts."""

    kind: AlertKind | Literal[""] = ""
    state: AlertState | Literal[""] = ""


class AlertSeriesSchema(Schema):
    """A series as it was when the alert opened."""

    series: SeriesSchema
    magnitude: float | None
    low: float | None
    """Interval, 95 %."""
    high: float | None


class AlertEventSchema(Schema):
    """An event of an alert."""

    at: datetime
    kind: EventKind
    state: AlertState
    """After this event."""
    author: str | None
    """Null for a program."""
    note: str | None
    detail: str | None
    """The new assignee or link, or the hash of the commit stated as the cause."""


class StatedCauseSchema(Schema):
    """The cause according to a person or a bisect; the commits of the alert are from the detector."""

    commit: CommitSchema
    previous_commit: CommitSchema
    author: str
    at: datetime


class AlertRegressionSchema(Schema):
    """Series that regressed at one commit."""

    commit: CommitSchema
    previous_commit: CommitSchema
    stated: StatedCauseSchema | None
    series: list[AlertSeriesSchema]


class AlertFindingSchema(Schema):
    """Missing data, an unhealthy runner, or a kernel without a valid result."""

    kernel: str | None
    """Null for the whole machine."""
    summary: str
    lines: list[str]


class AlertSchema(Schema):
    """An alert of one machine: `regression` or `finding` is set, according to `kind`."""

    id: int
    kind: AlertKind
    machine: str
    state: AlertState
    opened: datetime
    resolved: datetime | None
    assignee: str | None
    link: str | None
    regression: AlertRegressionSchema | None
    finding: AlertFindingSchema | None
    events: list[AlertEventSchema]


class AlertList(Listing):
    """Alerts, newest first."""

    items: list[AlertSchema]


@operation(bp, "/alerts", params=AlertsParams, response=AlertList, tag="Regressions")
def list_alerts(project: str, params: AlertsParams) -> AlertList:
    """List alerts.

    Newest first: regressions and health alerts, with their events.
    """
    kinds = (AlertKind(params.kind),) if params.kind else tuple(AlertKind)
    states = (AlertState(params.state),) if params.state else tuple(AlertState)
    rows = alerts(store(), project_or_404(project).name, kinds=kinds, states=states, limit=_MOST_ALERTS)
    page, page_fields = listing(rows, params)
    return AlertList(items=[_alert_schema(alert) for alert in page], **page_fields)


def _alert_schema(alert: Alert) -> AlertSchema:
    return AlertSchema.of(
        alert,
        regression=_regression(alert) if isinstance(alert, RegressionAlert) else None,
        finding=alert.finding if isinstance(alert, HealthAlert) else None,
    )


def _regression(alert: RegressionAlert) -> AlertRegressionSchema:
    series = [AlertSeriesSchema.of(entry, low=entry.ci_low, high=entry.ci_high) for entry in alert.series]
    return AlertRegressionSchema.of(alert, series=series)
