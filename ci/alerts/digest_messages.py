"""Digest messages: text and HTML, put into the outbox once for each period and destination."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from jinja2 import Environment

from warpwatch.dashboard.model.alert import RegressionAlert
from warpwatch.dashboard.model.quantities import change
from warpwatch.dashboard.store.outbox import notified_destinations, queue_in_project
from warpwatch.dashboard.text.markdown import inert, without_links
from warpwatch.dashboard.web.urls import commit_address, project_in_path

from .alert_round import Round, now_ms
from .destinations import Matter, destinations
from .digest import Digest, Period, digest, due
from .message import Action, Content, Message, compose, thread_of

# A digest as text and as HTML for mail: the same words in the same order.

_MOST_ROWS = 20  # of a part


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a digest, and where it leads."""

    text: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A heading and what stands under it."""

    title: str
    rows: tuple[Row, ...]


def digest_title(told: Digest) -> str:
    """Its subject."""
    if told.is_quiet:
        return f"{told.project}, {told.period.value}: all is quiet"
    counted = f"{len(told.new)} new, {len(told.open)} still open, {len(told.resolved)} resolved"
    return f"{told.project}, {told.period.value}: {counted}, {len(told.health)} health alerts"


def digest_parts(told: Digest, dashboard_url: str | None) -> tuple[Part, ...]:
    """All that it says; parts without rows are left out."""

    def rows(alerts: Sequence[RegressionAlert]) -> tuple[Row, ...]:
        return tuple(
            Row(text=_words(each), address=_address(dashboard_url, told.project, each.commit.hash)) for each in alerts
        )

    worst = (
        Row(
            text=f"{change(one.magnitude)} {one.series.title} on {alert.machine} at {alert.commit.hash[:8]}",
            address=_address(dashboard_url, told.project, alert.commit.hash),
        )
        for alert, one in told.worst
    )
    health = (Row(text=f"{each.machine}: {each.finding.summary}, since {each.opened:%Y-%m-%d}") for each in told.health)
    resolved_health = (Row(text=f"{each.machine}: {each.finding.summary}") for each in told.resolved_health)
    parts = (
        Part(title="Worst of the new", rows=tuple(worst)),
        Part(title="New", rows=rows(told.new)),
        Part(title="Still open", rows=rows(told.open)),
        Part(title="Resolved", rows=rows(told.resolved)),
        Part(title="Health alerts", rows=tuple(health)),
        Part(title="Resolved health alerts", rows=tuple(resolved_health)),
        Part(title="Runners", rows=tuple(_runner_rows(told, dashboard_url))),
        Part(title="Messages", rows=tuple(_outbox_rows(told))),
    )
    return tuple(Part(title=part.title, rows=_shown(part.rows)) for part in parts if part.rows)


def _shown(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The first of them, and how many more there are."""
    if len(rows) <= _MOST_ROWS:
        return rows
    return (*rows[:_MOST_ROWS], Row(text=f"and {len(rows) - _MOST_ROWS} more"))


def as_text(told: Digest, parts: Sequence[Part]) -> str:
    """As Markdown."""
    lines = [f"From {told.since:%Y-%m-%d %H:%M} to {told.until:%Y-%m-%d %H:%M} UTC."]
    for part in parts:
        lines += ["", f"**{part.title}**", ""]
        lines += [f"- {inert(row.text)}" + (f" {row.address}" if row.address else "") for row in part.rows]
    return "\n".join(lines)


def as_html(told: Digest, parts: Sequence[Part]) -> str:
    """As mail programs show it: no style sheets, no pictures, nothing from elsewhere."""
    return _TEMPLATE.render(title=digest_title(told), told=told, parts=parts)


_TEMPLATES = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
_TEMPLATES.filters["without_links"] = without_links
_TEMPLATE = _TEMPLATES.from_string(
    """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{ title | without_links }}</title></head>
<body style="font-family: sans-serif; max-width: 46em">
<h1 style="font-size: 1.3em">{{ title | without_links }}</h1>
<p>From {{ told.since.strftime("%Y-%m-%d %H:%M") }} to {{ told.until.strftime("%Y-%m-%d %H:%M") }} UTC.</p>
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


def _runner_rows(told: Digest, dashboard_url: str | None) -> Iterator[Row]:
    for runner in told.runners:
        state = "; ".join(runner.problems) or ("overdue" if runner.is_overdue else "well")
        address = None
        if dashboard_url:
            place = f"{project_in_path(told.project)}/machines/{project_in_path(runner.name)}"
            address = f"{dashboard_url.rstrip('/')}/{place}"
        yield Row(text=f"{runner.name}: {state}; newest results {runner.newest:%Y-%m-%d %H:%M} UTC", address=address)


def _outbox_rows(told: Digest) -> Iterator[Row]:
    if told.waiting:
        yield Row(text=f"{told.waiting} wait for a destination that did not take them")
    if told.given_up:
        yield Row(text=f"{told.given_up} were given up; warpwatch alert --outbox lists them, --revive tries them again")


def _address(dashboard_url: str | None, project: str, commit: str) -> str | None:
    return commit_address(dashboard_url, project, commit) if dashboard_url else None


def compose_digest(told: Digest, dashboard_url: str | None) -> Message:
    """The message; of one project and period there is one thread a day."""
    parts = digest_parts(told, dashboard_url)
    thread = thread_of(told.project, "digest", told.period.value, told.until.isoformat())
    fields = {
        "period": told.period.value,
        "since": told.since.isoformat(),
        "until": told.until.isoformat(),
        "parts": [
            {"title": part.title, "rows": [{"text": row.text, "url": row.address} for row in part.rows]}
            for part in parts
        ],
    }
    content = Content(
        event="digest",
        project=told.project,
        title=digest_title(told),
        text=as_text(told, parts),
        html=as_html(told, parts),
        fields=fields,
    )
    return compose(content, thread=thread, number=1, action=Action.OPENED)


def digest_destinations(its: Round) -> tuple[str, ...]:
    """Who gets digests."""
    matter = Matter(kind="digest", machine=None, kernels=(), owners=())
    return destinations(matter, its.policy, its.places.given)


def queue_digest(its: Round, period: Period, until: datetime, to: Sequence[str]) -> Message:
    """Puts the digest of the period up to then into the outbox, for those who have not got it yet."""
    message = compose_digest(digest(its.store, its.project, period, until), its.policy.dashboard)
    queue_in_project(its.store, its.project, message.thread, 1, dict.fromkeys(to, message.as_json()), now_ms=now_ms())
    return message


def queue_digest_if_due(its: Round) -> None:
    """The newest period's, as the policy has it, unless it went out before."""
    if its.policy.digest == "none":
        return
    period, at = Period(its.policy.digest), its.policy.digest_at
    until = due(period, datetime.now(UTC), at.hour, at.minute)
    to = digest_destinations(its)
    thread = thread_of(its.project, "digest", period.value, until.isoformat())
    if set(to) - notified_destinations(its.store, [thread]).get(thread, frozenset()):
        queue_digest(its, period, until, to)
