"""Digest of a day or a week: new, open and resolved alerts, the largest changes, and the runners.

Its messages, text and HTML, are put into the outbox once for each period and destination.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from jinja2 import Environment

from warpwatch.dashboard.model.alert import LIVE, Alert, AlertedSeries, HealthAlert, RegressionAlert
from warpwatch.dashboard.model.quantities import change
from warpwatch.dashboard.statistics.arrival import Arrival
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.outbox import notified_destinations, queue_in_project, undelivered
from warpwatch.dashboard.store.queries.alerts import alerts
from warpwatch.dashboard.text.markdown import inert, without_links
from warpwatch.dashboard.web.urls import commit_address, machine_address

from .alert_content import Action, Content, Message, compose, thread_of
from .alert_round import Round, now_ms
from .outbox_sender import RoutingFacts, destinations

_MOST = 100_000
_WORST = 10


class Period(StrEnum):
    """The interval of digests."""

    DAILY = "daily"
    WEEKLY = "weekly"

    @property
    def length(self) -> timedelta:
        return timedelta(days=1 if self is Period.DAILY else 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerState:
    name: str
    newest: datetime
    is_overdue: bool
    problems: tuple[str, ...]  # summaries of its health alerts


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
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


_MOST_ROWS = 20  # of a section


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a digest with its link."""

    text: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestPart:
    title: str
    rows: tuple[Row, ...]


def digest_title(summary: Digest) -> str:
    """The subject line."""
    if summary.is_quiet:
        return f"{summary.project}, {summary.period.value}: all is quiet"
    counted = f"{len(summary.new)} new, {len(summary.open)} still open, {len(summary.resolved)} resolved"
    return f"{summary.project}, {summary.period.value}: {counted}, {len(summary.health)} health alerts"


def digest_parts(summary: Digest, dashboard_url: str | None) -> tuple[DigestPart, ...]:
    """The sections that have rows."""

    def rows(alerts: Sequence[RegressionAlert]) -> tuple[Row, ...]:
        return tuple(
            Row(text=_words(each), address=_address(dashboard_url, summary.project, each.commit.hash))
            for each in alerts
        )

    worst = (
        Row(
            text=f"{change(one.magnitude)} {one.series.title} on {alert.machine} at {alert.commit.hash[:8]}",
            address=_address(dashboard_url, summary.project, alert.commit.hash),
        )
        for alert, one in summary.worst
    )
    health = (
        Row(text=f"{each.machine}: {each.finding.summary}, since {each.opened:%Y-%m-%d}") for each in summary.health
    )
    resolved_health = (Row(text=f"{each.machine}: {each.finding.summary}") for each in summary.resolved_health)
    parts = (
        DigestPart(title="Worst of the new", rows=tuple(worst)),
        DigestPart(title="New", rows=rows(summary.new)),
        DigestPart(title="Still open", rows=rows(summary.open)),
        DigestPart(title="Resolved", rows=rows(summary.resolved)),
        DigestPart(title="Health alerts", rows=tuple(health)),
        DigestPart(title="Resolved health alerts", rows=tuple(resolved_health)),
        DigestPart(title="Runners", rows=tuple(_runner_rows(summary, dashboard_url))),
        DigestPart(title="Messages", rows=tuple(_outbox_rows(summary))),
    )
    return tuple(DigestPart(title=part.title, rows=_shown(part.rows)) for part in parts if part.rows)


def _shown(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The first rows and the number of the others."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return (*rows[:_MOST_ROWS], Row(text=f"and {len(rows) - _MOST_ROWS} more"))


def as_text(summary: Digest, parts: Sequence[DigestPart]) -> str:
    lines = [f"From {summary.since:%Y-%m-%d %H:%M} to {summary.until:%Y-%m-%d %H:%M} UTC."]
    for part in parts:
        lines += ["", f"**{part.title}**", ""]
        lines += [f"- {inert(row.text)}" + (f" {row.address}" if row.address else "") for row in part.rows]
    return "\n".join(lines)


def as_html(summary: Digest, parts: Sequence[DigestPart]) -> str:
    """HTML for mail programs, without style sheets, pictures and remote content."""
    return _TEMPLATE.render(title=digest_title(summary), summary=summary, parts=parts)


_TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
_TEMPLATES.filters["without_links"] = without_links
_TEMPLATE = _TEMPLATES.from_string(
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title | without_links }}</title></head>
<body style="font-family: sans-serif; max-width: 46em">
<h1 style="font-size: 1.3em">{{ title | without_links }}</h1>
<p>From {{ summary.since.strftime("%Y-%m-%d %H:%M") }} to {{ summary.until.strftime("%Y-%m-%d %H:%M") }} UTC.</p>
{% for part in parts %}
<h2 style="font-size: 1.1em">{{ part.title }}</h2>
<ul>
{% for row in part.rows %}
{% set text = row.text | without_links %}
<li>{% if row.address %}<a href="{{ row.address }}">{{ text }}</a>{% else %}{{ text }}{% endif %}</li>
{% endfor %}
</ul>
{% endfor %}
</body></html>
"""
)


def _words(alert: RegressionAlert) -> str:
    largest = max(alert.series, key=lambda one: abs(one.magnitude), default=None)
    moved = f"{change(largest.magnitude)} {largest.series.title}" if largest else "no series left"
    more = f" and {len(alert.series) - 1} more" if len(alert.series) > 1 else ""
    subject = f" “{alert.commit.subject}”" if alert.commit.subject else ""
    whose = f", {alert.assignee}" if alert.assignee else ""
    return (
        f"{moved}{more} on {alert.machine} at {alert.commit.hash[:8]}{subject} "
        f"({alert.state.value} since {alert.opened:%Y-%m-%d}{whose})"
    )


def _runner_rows(summary: Digest, dashboard_url: str | None) -> Iterator[Row]:
    for runner in summary.runners:
        state = "; ".join(runner.problems) or ("overdue" if runner.is_overdue else "well")
        address = machine_address(dashboard_url, summary.project, runner.name) if dashboard_url else None
        yield Row(text=f"{runner.name}: {state}; newest results {runner.newest:%Y-%m-%d %H:%M} UTC", address=address)


def _outbox_rows(summary: Digest) -> Iterator[Row]:
    if summary.waiting:
        yield Row(text=f"{summary.waiting} wait for a destination that did not accept them")
    if summary.given_up:
        yield Row(text=f"{summary.given_up} were abandoned; warpwatch alert --outbox lists them, --revive retries them")


def _address(dashboard_url: str | None, project: str, commit: str) -> str | None:
    return commit_address(dashboard_url, project, commit) if dashboard_url else None


def compose_digest(summary: Digest, dashboard_url: str | None) -> Message:
    """The message; each project and period has its own thread."""
    parts = digest_parts(summary, dashboard_url)
    thread = thread_of(summary.project, "digest", summary.period.value, summary.until.isoformat())
    fields = {
        "period": summary.period.value,
        "since": summary.since.isoformat(),
        "until": summary.until.isoformat(),
        "parts": [
            {"title": part.title, "rows": [{"text": row.text, "url": row.address} for row in part.rows]}
            for part in parts
        ],
    }
    content = Content(
        event="digest",
        project=summary.project,
        title=digest_title(summary),
        text=as_text(summary, parts),
        html=as_html(summary, parts),
        fields=fields,
    )
    return compose(content, thread=thread, number=1, action=Action.OPENED)


def digest_recipients(alert_round: Round) -> tuple[str, ...]:
    """Names of the destinations of digests."""
    matter = RoutingFacts(kind="digest", machine=None, kernels=(), owners=())
    return destinations(matter, alert_round.policy, alert_round.places.given)


def queue_digest(alert_round: Round, period: Period, until: datetime, to: Sequence[str]) -> Message:
    """Queues the digest of the period that ends at `until`, for destinations that did not get it."""
    message = compose_digest(
        digest(alert_round.store, alert_round.project, period, until), alert_round.policy.dashboard
    )
    queue_in_project(
        alert_round.store, alert_round.project, message.thread, 1, dict.fromkeys(to, message.as_json()), now_ms=now_ms()
    )
    return message


def queue_digest_if_due(alert_round: Round) -> None:
    """Queues the digest of the newest period of the policy, unless it was sent."""
    if alert_round.policy.digest == "none":
        return
    period, at = Period(alert_round.policy.digest), alert_round.policy.digest_at
    until = due(period, datetime.now(UTC), at.hour, at.minute)
    to = digest_recipients(alert_round)
    thread = thread_of(alert_round.project, "digest", period.value, until.isoformat())
    if set(to) - notified_destinations(alert_round.store, [thread]).get(thread, frozenset()):
        queue_digest(alert_round, period, until, to)
