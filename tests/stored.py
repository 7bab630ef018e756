"""What tests read of a store beyond the queries of pages, commands and alerts."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from warpwatch.dashboard.model.alert import AlertKind, AlertState, RegressionAlert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.history import History, OtherHistory
from warpwatch.dashboard.model.series import workload_of
from warpwatch.dashboard.model.verdict import ChangeKind
from warpwatch.dashboard.statistics.distributions import SIGNIFICANT_Q
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.finding_records import changes_of, episodes_of
from warpwatch.dashboard.store.mappers import project_id, series_record, series_row, workloads
from warpwatch.dashboard.store.queries.alerts import (
    RegressionsByAlert,
    alerts,
    new_regressions_in,
    regressions_by_alert_in,
)
from warpwatch.dashboard.store.queries.series import canaries_of, others_of, profile_of
from warpwatch.dashboard.store.queries.series_lines import points_of


def copy_database(source: str | Path, copy: Path) -> str:
    """Copies an SQLite database with what is only in its write-ahead log yet; returns the copy's URL."""
    path = str(source).removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as original, closing(sqlite3.connect(copy)) as other:
        original.backup(other)
    return f"sqlite:///{copy}"


def stored_history(store: Store, key: str) -> History | None:
    """A series with its workload's other implementations, its machine's canaries, and a profile."""
    with store.read() as connection:
        row = series_row(connection, key)
        if row is None:
            return None
        known = workloads(connection, row.project_id)
        own = series_record(row, known)
        others = others_of(connection, row, known)
        canaries = canaries_of(connection, row, own, known)
        points = points_of(
            store, connection, row.project_name, [row.id, *(number for number, _ in (*others, *canaries))]
        )
        return History(
            series=own,
            points=points.get(row.id, ()),
            changes=changes_of(connection, [row.id]).get(row.id, ()),
            workload=workload_of(own, known),
            others=tuple(OtherHistory(series=other, points=points.get(number, ())) for number, other in others),
            canaries=tuple(
                OtherHistory(series=other, points=points[number]) for number, other in canaries if number in points
            ),
            profile=profile_of(connection, row, own),
            episodes=episodes_of(connection, [row.id]).get(row.id, ()),
        )


def worse_steps(store: Store, project: str) -> tuple[Regression, ...]:
    """Steps for the worse of every metric, judged or not, of listed series that are no baselines and no canaries."""
    return tuple(
        Regression(series=series, change=change)
        for series in queries.find_series(store, project).series
        if series.is_ours
        for change in _changes(store, series.key)
        if change.kind is ChangeKind.STEP and change.is_worse
    )


def _changes(store: Store, key: str) -> tuple[SeriesChange, ...]:
    found = queries.own_history(store, key)
    return found.changes if found is not None else ()


def new_regressions(
    store: Store, project: str, *, recent_days: float = 30, max_false_discovery_rate: float = SIGNIFICANT_Q
) -> tuple[RegressionGroup, ...]:
    """Groups of regressions without an alert."""
    with store.read() as connection:
        owner = project_id(connection, project)
        if owner is None:
            return ()
        known = regressions_by_alert_in(connection, project)
        return new_regressions_in(connection, owner, known, recent_days, max_false_discovery_rate)


def regressions_by_alert(store: Store, project: str) -> RegressionsByAlert:
    """Regressions by alert, with steps that are no longer significant."""
    with store.read() as connection:
        return regressions_by_alert_in(connection, project)


def regression_alerts(
    store: Store, project: str, *, states: Sequence[AlertState] = tuple(AlertState), limit: int = 200
) -> tuple[RegressionAlert, ...]:
    """The project's regression alerts in any of the states, newest first."""
    found = alerts(store, project, kinds=[AlertKind.REGRESSION], states=states, limit=limit)
    return tuple(alert for alert in found if isinstance(alert, RegressionAlert))
