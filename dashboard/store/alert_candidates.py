"""New regressions, and regressions of alerts, read by a scan of the alert daemon."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import Connection, select

from ..model.alert import AlertKind, AlertState, RegressionAlert
from ..model.changepoint import Regression, RegressionGroup, SeriesChange
from ..model.verdict import ChangeKind
from . import schema
from .alert_opening import AlertMembership
from .alerts import alert_records, alert_rows
from .engine import Store
from .mappers import commit_record, project_id
from .queries.regressions import regressions_in, series_changes_in
from .statements import id_in


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressionsByAlert:
    """A project's steps for the worse, by the id of their alert, and the reportable ones without an alert."""

    of_alerts: Mapping[int, tuple[Regression, ...]]
    new: tuple[RegressionGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSnapshot:
    """Alerts and regressions as one transaction sees them."""

    new: tuple[Regression, ...]  # reportable, without an alert
    held: Mapping[int, tuple[Regression, ...]]  # by the id of their alert
    alerts: tuple[RegressionAlert, ...]  # newest first; resolved ones only with a regression
    changes: Mapping[str, tuple[SeriesChange, ...]]  # of each series with an alert or a new regression


def alert_snapshot(store: Store, project: str, *, recent_days: float, most_false: float) -> AlertSnapshot:
    """New regressions (see `new_regressions_in`), and the alerts to update, from one transaction.

    In several transactions, an analysis in between would make them contradict each other.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return AlertSnapshot(new=(), held={}, alerts=(), changes={})
        regressions = regressions_by_alert_in(connection, project)
        groups = new_regressions_in(connection, owner, regressions, recent_days, most_false)
        new = tuple(one for group in groups for one in group.regressions)
        table = schema.alert
        is_current = (table.c.state != AlertState.RESOLVED.value) | id_in(
            connection, table.c.id, list(regressions.of_alerts)
        )
        is_regression = table.c.kind == AlertKind.REGRESSION.value
        rows = connection.execute(alert_rows(owner).where(is_regression, is_current)).all()
        records = alert_records(connection, project, owner, rows)
        known = tuple(alert for alert in records if isinstance(alert, RegressionAlert))
        keys = {one.series.key for alert in known for one in alert.series} | {one.series.key for one in new}
        return AlertSnapshot(
            new=new, held=regressions.of_alerts, alerts=known, changes=series_changes_in(connection, keys)
        )


def new_regressions_in(
    connection: Connection, owner: int, regressions: RegressionsByAlert, recent_days: float, most_false: float
) -> tuple[RegressionGroup, ...]:
    """Regression groups without the regressions that belong to an alert; empty groups are left out.

    Only classified steps with a q-value up to `most_false`, the accepted false discovery rate. Others are reported once
    more runs confirm them. Only commits at most `recent_days` older than the project's newest, so that the first import
    of a long history sends no alerts.
    """
    table = schema.commit
    row = connection.execute(
        select(table).where(table.c.project_id == owner).order_by(table.c.position.desc()).limit(1)
    ).first()
    if row is None:
        return ()
    since = commit_record(row).date - timedelta(days=recent_days)
    new = []
    for group in regressions.new:
        significant = tuple(
            one for one in group.regressions if one.change.q_value is not None and one.change.q_value <= most_false
        )
        if significant and group.commit.date >= since:
            new.append(replace(group, regressions=significant))
    return tuple(new)


def regressions_by_alert_in(connection: Connection, project: str) -> RegressionsByAlert:
    """Regressions by alert, with steps that are no longer significant: one more run does not resolve an alert."""
    owner = project_id(connection, project)
    membership = AlertMembership(connection, owner) if owner is not None else None
    of_alerts: dict[int, list[Regression]] = {}
    new = []
    for group in regressions_in(connection, project, (ChangeKind.STEP, ChangeKind.NOT_SIGNIFICANT)):
        without_alert = []
        for one in group.regressions:
            alert = membership.alert_of_change(one.series.key, one.change) if membership is not None else None
            if alert is not None:
                of_alerts.setdefault(alert, []).append(one)
            elif one.counts:
                without_alert.append(one)
        if without_alert:
            new.append(replace(group, regressions=tuple(without_alert)))
    return RegressionsByAlert(of_alerts={alert: tuple(each) for alert, each in of_alerts.items()}, new=tuple(new))
