"""`/api/projects/<project>/health-alerts`: what is wrong with the data itself, and what became of it."""

from datetime import datetime

from flask import Blueprint

from ...model.alert import AlertState
from ...model.schema import Schema
from ...store.health_alerts import HealthAlert, HealthKind, health_alerts
from ..request_context import project_or_404, store
from .alerts import AlertEventShape, AlertsQuestion, event_shape
from .operation import operation
from .responses import Listing, listing

bp = Blueprint("api_health_alerts", __name__, url_prefix="/api/projects/<project:project>")


class HealthAlertShape(Schema):
    """Data that does not come, a runner that cannot be trusted, or a kernel that gives no number."""

    id: int
    kind: HealthKind
    machine: str
    kernel: str | None
    """Null: of all."""
    says: str
    lines: list[str]
    state: AlertState
    opened: datetime
    resolved: datetime | None
    assignee: str | None
    link: str | None
    events: list[AlertEventShape]


class HealthAlertList(Listing):
    """The newest first."""

    items: list[HealthAlertShape]


@operation(bp, "/health-alerts", question=AlertsQuestion, answer=HealthAlertList, tag="Regressions")
def index(project: str, asked: AlertsQuestion) -> HealthAlertList:
    """Alerts of the data itself, newest first, and what became of them."""
    found = health_alerts(store(), project_or_404(project).name, since_ms=0)
    kept, place = listing([each for each in found if asked.state in ("", each.state)], asked)
    return HealthAlertList(items=[_schema(each) for each in kept], **place)


def _schema(alert: HealthAlert) -> HealthAlertShape:
    told = alert.finding
    return HealthAlertShape(
        id=alert.id,
        kind=told.kind,
        machine=told.machine,
        kernel=told.kernel,
        says=told.says,
        lines=[*told.lines],
        state=alert.state,
        opened=alert.opened,
        resolved=alert.resolved,
        assignee=alert.assignee,
        link=alert.link,
        events=[event_shape(event) for event in alert.events],
    )
