"""Digest of a day or a week: new, open and resolved alerts, the largest changes, and the runners."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from warpwatch.dashboard.model.alert import LIVE, Alert, AlertedSeries, HealthAlert, RegressionAlert
from warpwatch.dashboard.statistics.arrival import Arrival
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.alerts import alerts
from warpwatch.dashboard.store.outbox import undelivered

_MOST = 100_000
_WORST = 10


class Period(StrEnum):
    """The interval of digests."""

    DAILY = "daily"
    WEEKLY = "weekly"

    @property
    def length(self) -> timedelta:
        """Length of the period."""
        return timedelta(days=1 if self is Period.DAILY else 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerState:
    """The state of one machine."""

    name: str
    newest: datetime
    is_overdue: bool
    problems: tuple[str, ...]  # summaries of its health alerts


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The digest of one project."""

    project: str
    period: Period
    since: datetime
    until: datetime
    new: tuple[RegressionAlert, ...]  # opened in the period
    open: tuple[RegressionAlert, ...]  # opened before, open or acknowledged
    resolved: tuple[RegressionAlert, ...]  # in the period
    worst: tuple[tuple[RegressionAlert, AlertedSeries], ...]  # the largest changes of the new ones
    health: tuple[HealthAlert, ...]  # open or acknowledged
    resolved_health: tuple[HealthAlert, ...]  # in the period
    runners: tuple[RunnerState, ...]
    waiting: int  # undelivered messages
    given_up: int

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.new or self.open or self.resolved or self.health or self.resolved_health or self.given_up)


def digest(store: Store, project: str, period: Period, until: datetime) -> Digest:
    """The digest of the period that ends at `until`."""
    since = until - period.length
    known = alerts(store, project, limit=_MOST)
    regressions = [alert for alert in known if isinstance(alert, RegressionAlert)]
    health = [alert for alert in known if isinstance(alert, HealthAlert)]
    new = tuple(each for each in regressions if since <= each.opened < until)
    messages = undelivered(store, project)
    return Digest(
        project=project,
        period=period,
        since=since,
        until=until,
        new=new,
        open=tuple(each for each in regressions if each.opened < since and each.state in LIVE),
        resolved=tuple(each for each in regressions if _was_resolved(each, since, until)),
        worst=_worst(new),
        health=tuple(each for each in health if each.state in LIVE),
        resolved_health=tuple(each for each in health if _was_resolved(each, since, until)),
        runners=_runners(queries.arrivals(store, project), health, until),
        waiting=sum(each.given_up is None for each in messages),
        given_up=sum(each.given_up is not None for each in messages),
    )


def due(period: Period, at: datetime, hour: int, minute: int) -> datetime:
    """The end of the newest completed period: that time of day (UTC), for weeks on a Monday."""
    end = at.astimezone(UTC).replace(hour=hour, minute=minute, second=0, microsecond=0)
    if end > at:
        end -= timedelta(days=1)
    return end - timedelta(days=end.weekday()) if period is Period.WEEKLY else end


def _was_resolved(alert: Alert, since: datetime, until: datetime) -> bool:
    return alert.resolved is not None and since <= alert.resolved < until


def _worst(new: Sequence[RegressionAlert]) -> tuple[tuple[RegressionAlert, AlertedSeries], ...]:
    """The largest times of each alert, the largest first."""
    found = [(alert, min(alert.series, key=_size)) for alert in new if alert.series]
    return tuple(sorted(found, key=lambda pair: _size(pair[1]))[:_WORST])


def _size(one: AlertedSeries) -> tuple[bool, float]:
    return not one.series.metric.is_time, -abs(one.magnitude)


def _runners(arrivals: dict[str, Arrival], health: Sequence[HealthAlert], now: datetime) -> tuple[RunnerState, ...]:
    found = [
        RunnerState(
            name=name,
            newest=datetime.fromtimestamp(arrival.newest_s, UTC),
            is_overdue=arrival.is_overdue(now.timestamp()),
            problems=tuple(each.finding.summary for each in health if each.machine == name and each.resolved is None),
        )
        for name, arrival in arrivals.items()
    ]
    return tuple(sorted(found, key=lambda one: (not (one.problems or one.is_overdue), one.name)))
