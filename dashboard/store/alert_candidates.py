"""Which regressions are new, and which belong to alerts: what one scan of the alert daemon reads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from sqlalchemy import Connection, select

from ..model.alert import AlertKind, AlertState, RegressionAlert
from ..model.changepoint import Regression, RegressionGroup, SeriesChange
from ..model.verdict import ChangeKind
from ..statistics.multiplicity import SIGNIFICANT_Q
from . import schema
from .alert_membership import AlertMembership
from .alerts import alert_records, alert_rows
from .engine import Store
from .mappers import commit_record, project_id
from .queries.regressions import regressions_in, series_changes_in
from .statements import is_among


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRegressions:
    """A project's steps for the worse: those of an alert, by its id, and the reportable ones without an alert."""

    held: Mapping[int, tuple[Regression, ...]]
    fresh: tuple[RegressionGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsNow:
    """What a scan reads, in one transaction."""

    new: tuple[Regression, ...]  # reportable ones without an alert
    held: Mapping[int, tuple[Regression, ...]]  # by the id of their alert
    alerts: tuple[RegressionAlert, ...]  # newest first; a resolved one only if it holds a regression
    changes: Mapping[str, tuple[SeriesChange, ...]]  # all of each series that has an alert or a new regression


def alerts_now(store: Store, project: str, *, recent_days: float, most_false: float) -> AlertsNow:
    """New regressions, as `new_regressions` has them, and the alerts that may be updated, read in one transaction.

    Read in several, an analysis or another process in between would make one contradict the other.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return AlertsNow(new=(), held={}, alerts=(), changes={})
        regressions = _held_regressions(connection, project)
        groups = _new_regressions(connection, owner, regressions, recent_days, most_false)
        new = tuple(one for group in groups for one in group.regressions)
        table = schema.alert
        is_current = (table.c.state != AlertState.RESOLVED.value) | is_among(
            connection, table.c.id, list(regressions.held)
        )
        is_regression = table.c.kind == AlertKind.REGRESSION.value
        rows = connection.execute(alert_rows(owner).where(is_regression, is_current)).all()
        records = alert_records(connection, project, owner, rows)
        known = tuple(alert for alert in records if isinstance(alert, RegressionAlert))
        keys = {one.series.key for alert in known for one in alert.series} | {one.series.key for one in new}
        return AlertsNow(new=new, held=regressions.held, alerts=known, changes=series_changes_in(connection, keys))


def new_regressions(
    store: Store, project: str, *, recent_days: float = 30, most_false: float = SIGNIFICANT_Q
) -> tuple[RegressionGroup, ...]:
    """Regression groups without the regressions that belong to an alert; empty groups are left out.

    Only classified steps with a q-value up to `most_false`, the accepted false discovery rate. Others are reported once
    more runs confirm them. Only commits at most `recent_days` older than the project's newest: a first import of years
    of history is no news.
    """
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        return _new_regressions(connection, owner, _held_regressions(connection, project), recent_days, most_false)


def _new_regressions(
    connection: Connection, owner: int, regressions: HeldRegressions, recent_days: float, most_false: float
) -> tuple[RegressionGroup, ...]:
    table = schema.commit
    row = connection.execute(
        select(table).where(table.c.project_id == owner).order_by(table.c.position.desc()).limit(1)
    ).first()
    if row is None:
        return ()
    since = commit_record(row).date - timedelta(days=recent_days)
    found = []
    for group in regressions.fresh:
        significant = tuple(
            one for one in group.regressions if one.change.q_value is not None and one.change.q_value <= most_false
        )
        if significant and group.commit.date >= since:
            found.append(replace(group, regressions=significant))
    return tuple(found)


def held_regressions(store: Store, project: str) -> HeldRegressions:
    """Which regression belongs to which alert.

    Steps that are no longer significant are included: an alert goes on where one more run doubts its change.
    """
    with store.read() as connection:
        return _held_regressions(connection, project)


def _held_regressions(connection: Connection, project: str) -> HeldRegressions:
    owner = project_id(connection, project)
    membership = AlertMembership(connection, owner) if owner is not None else None
    held: dict[int, list[Regression]] = {}
    fresh = []
    for group in regressions_in(connection, project, (ChangeKind.STEP, ChangeKind.MAY_BE_CHANCE)):
        left = []
        for one in group.regressions:
            alert = membership.alert_of_change(one.series.key, one.change) if membership is not None else None
            if alert is not None:
                held.setdefault(alert, []).append(one)
            elif one.counts:
                left.append(one)
        if left:
            fresh.append(replace(group, regressions=tuple(left)))
    return HeldRegressions(held={number: tuple(some) for number, some in held.items()}, fresh=tuple(fresh))
