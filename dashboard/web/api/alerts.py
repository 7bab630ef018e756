"""`/api/projects/<project>/alerts`: which regressions were told, and what became of them."""

from datetime import datetime
from typing import Literal

from flask import Blueprint

from ...model.alert import Alert, AlertEvent, AlertState, EventKind, StatedChange
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

    state: AlertState | Literal[""] = ""


class AlertedShape(Schema):
    """A series as it was when the alert opened."""

    series: SeriesSchema
    magnitude: float | None
    low: float | None
    """Interval, 95 %."""
    high: float | None


class AlertEventShape(Schema):
    """A step in an alert's life."""

    at: datetime
    kind: EventKind
    state: AlertState
    """After it."""
    author: str | None
    """Null: a program."""
    note: str | None
    detail: str | None
    """The new assignee or link, or the hash of the commit that a person moved it to."""


class StatedShape(Schema):
    """Where a person says that it came; the alert's own commits are the detector's."""

    commit: CommitSchema
    previous_commit: CommitSchema
    author: str
    at: datetime


class AlertShape(Schema):
    """Series that got worse at one commit on one machine."""

    id: int
    machine: str
    state: AlertState
    opened: datetime
    commit: CommitSchema
    previous_commit: CommitSchema
    assignee: str | None
    link: str | None
    stated: StatedShape | None
    series: list[AlertedShape]
    events: list[AlertEventShape]


class AlertList(Listing):
    """The newest first."""

    items: list[AlertShape]


@operation(bp, "/alerts", question=AlertsQuestion, answer=AlertList, tag="Regressions")
def index(project: str, asked: AlertsQuestion) -> AlertList:
    """Alerts, newest first: which regressions were told, and what became of them."""
    states = (AlertState(asked.state),) if asked.state else tuple(AlertState)
    found = alerts(store(), project_or_404(project).name, states=states, limit=_MOST_ALERTS)
    kept, place = listing(found, asked)
    return AlertList(items=[_schema(each) for each in kept], **place)


def _schema(alert: Alert) -> AlertShape:
    return AlertShape(
        id=alert.id,
        machine=alert.machine,
        state=alert.state,
        opened=alert.opened,
        commit=commit_schema(alert.commit),
        previous_commit=commit_schema(alert.previous_commit),
        assignee=alert.assignee,
        link=alert.link,
        stated=_stated(alert.stated) if alert.stated else None,
        series=[
            AlertedShape(series=series_schema(each.series), magnitude=each.magnitude, low=each.low, high=each.high)
            for each in alert.series
        ],
        events=[event_shape(event) for event in alert.events],
    )


def event_shape(event: AlertEvent) -> AlertEventShape:
    """Of either kind of alert."""
    return AlertEventShape(
        at=event.at, kind=event.kind, state=event.state, author=event.author, note=event.note, detail=event.detail
    )


def _stated(stated: StatedChange) -> StatedShape:
    return StatedShape(
        commit=commit_schema(stated.commit),
        previous_commit=commit_schema(stated.previous_commit),
        author=stated.author,
        at=stated.at,
    )
