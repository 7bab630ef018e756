"""`/api/projects/<project>/alerts`: regressions and health alerts, and what became of them."""

from datetime import datetime
from typing import Literal

from flask import Blueprint

from ...model.alert import Alert, AlertEvent, AlertKind, AlertState, EventKind, HealthAlert, RegressionAlert
from ...model.schema import CommitSchema, Schema, SeriesSchema, commit_schema, series_schema
from ...store.alerts import alerts
from ..request_context import project_or_404, store
from .operation import operation
from .query_params import Paged
from .responses import Listing, listing

bp = Blueprint("api_alerts", __name__, url_prefix="/api/projects/<project:project>")
_MOST_ALERTS = 1_000_000_000  # all of them


class AlertsQuestion(Paged):
    """Which of them."""

    kind: AlertKind | Literal[""] = ""
    state: AlertState | Literal[""] = ""


class AlertedShape(Schema):
    """A series as it was when the alert opened."""

    series: SeriesSchema
    magnitude: float | None
    low: float | None
    """Interval, 95 %."""
    high: float | None


class AlertEventShape(Schema):
    """An entry of an alert's history."""

    at: datetime
    kind: EventKind
    state: AlertState
    """After the event."""
    author: str | None
    """Null: a program."""
    note: str | None
    detail: str | None
    """The new assignee or link, or the hash of the commit that is stated as the cause."""


class StatedShape(Schema):
    """The commit that a person or a bisect states as the cause; the alert's own commits are the detector's."""

    commit: CommitSchema
    previous_commit: CommitSchema
    author: str
    at: datetime


class AlertRegressionShape(Schema):
    """Series that got worse at one commit."""

    commit: CommitSchema
    previous_commit: CommitSchema
    stated: StatedShape | None
    series: list[AlertedShape]


class AlertFindingShape(Schema):
    """Missing data, an unhealthy runner, or a kernel without a valid result."""

    kernel: str | None
    """Null: the whole machine."""
    summary: str
    lines: list[str]


class AlertShape(Schema):
    """An alert of one machine: either `regression` or `finding` is there, according to its kind."""

    id: int
    kind: AlertKind
    machine: str
    state: AlertState
    opened: datetime
    resolved: datetime | None
    assignee: str | None
    link: str | None
    regression: AlertRegressionShape | None
    finding: AlertFindingShape | None
    events: list[AlertEventShape]


class AlertList(Listing):
    """The newest first."""

    items: list[AlertShape]


@operation(bp, "/alerts", question=AlertsQuestion, answer=AlertList, tag="Regressions")
def index(project: str, asked: AlertsQuestion) -> AlertList:
    """Alerts, newest first: regressions and health alerts, and what became of them."""
    kinds = (AlertKind(asked.kind),) if asked.kind else tuple(AlertKind)
    states = (AlertState(asked.state),) if asked.state else tuple(AlertState)
    found = alerts(store(), project_or_404(project).name, kinds=kinds, states=states, limit=_MOST_ALERTS)
    kept, place = listing(found, asked)
    return AlertList(items=[_schema(each) for each in kept], **place)


def _schema(alert: Alert) -> AlertShape:
    return AlertShape(
        id=alert.id,
        kind=alert.kind,
        machine=alert.machine,
        state=alert.state,
        opened=alert.opened,
        resolved=alert.resolved,
        assignee=alert.assignee,
        link=alert.link,
        regression=_regression(alert) if isinstance(alert, RegressionAlert) else None,
        finding=_finding(alert) if isinstance(alert, HealthAlert) else None,
        events=[_event(event) for event in alert.events],
    )


def _event(event: AlertEvent) -> AlertEventShape:
    return AlertEventShape(
        at=event.at, kind=event.kind, state=event.state, author=event.author, note=event.note, detail=event.detail
    )


def _finding(alert: HealthAlert) -> AlertFindingShape:
    finding = alert.finding
    return AlertFindingShape(kernel=finding.kernel, summary=finding.summary, lines=[*finding.lines])


def _regression(alert: RegressionAlert) -> AlertRegressionShape:
    stated = alert.stated
    return AlertRegressionShape(
        commit=commit_schema(alert.commit),
        previous_commit=commit_schema(alert.previous_commit),
        stated=StatedShape(
            commit=commit_schema(stated.commit),
            previous_commit=commit_schema(stated.previous_commit),
            author=stated.author,
            at=stated.at,
        )
        if stated is not None
        else None,
        series=[
            AlertedShape(
                series=series_schema(each.series), magnitude=each.magnitude, low=each.ci_low, high=each.ci_high
            )
            for each in alert.series
        ],
    )
