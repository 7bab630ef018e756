"""What an alert says: which commit, what got slower and by how much, and how to see it again.

The text is Markdown, in which others' words (subjects, benchmarks with their parameters, kernels, units) stand in code
spans; in the title, which knows none, what would be active is broken. The payload is as it was recorded.
"""

from collections.abc import Sequence
from typing import Any

from warpwatch.dashboard.analysis.next_measurement import gate_command, measure_again
from warpwatch.dashboard.model.alert import Alert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup
from warpwatch.dashboard.model.quantities import change, quantity
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.store.health_alerts import HealthFinding
from warpwatch.dashboard.text.change_schema import classification_json
from warpwatch.dashboard.text.labels import share_words
from warpwatch.dashboard.text.markdown import code_span, defused, inert
from warpwatch.dashboard.web.urls import commit_address, project_in_path

from .grouping import common_range
from .lifecycle import Action
from .message import Message, key_of

_ROWS_SHOWN = 10


def compose(
    group: RegressionGroup,
    *,
    thread: str,
    number: int,
    action: Action = Action.OPENED,
    news: Sequence[str] = (),
    owners: Sequence[str] = (),
    code: Sequence[str] = (),
    dashboard_url: str | None = None,
) -> Message:
    """The message about one group of regressions: series of one machine that got worse with the same commits."""
    worst = group.regressions[0]
    count = len(group.regressions)
    what = worst.series.title if count == 1 else f"{count} series, {worst.series.title} the most"
    moved = change(worst.change.magnitude, worst.change.before)
    title = f"{group.project}: {_PREFIX[action]}{moved} on {group.machine} at {group.commit.hash[:8]} ({what})"
    lines = [
        *([*map(code_span, news), ""] if news else []),
        f"First bad commit {_commit(group.commit)}; the last measured good one is {_commit(group.previous_commit)}.",
        *_range(group),
        "",
        *[f"- {_row(regression)}" for regression in group.regressions[:_ROWS_SHOWN]],
    ]
    if count > _ROWS_SHOWN:
        lines.append(f"- and {count - _ROWS_SHOWN} more")
    if code:
        lines += ["", "Compiled code:", "", *[f"- {code_span(line)}" for line in code]]
    if wanted := measure_again(worst.series, worst.change):
        lines += (
            ["", f"{inert(wanted.reason)} On {inert(wanted.machine)}:", "", code_span(wanted.command)]
            if wanted.command
            else ["", inert(wanted.reason)]
        )
    if command := _reproduce(group):
        lines += ["", f"Reproduce: {code_span(command)}"]
    if owners:
        lines += ["", f"Owners: {', '.join(owners)}"]
    if dashboard_url:
        lines += ["", commit_address(dashboard_url, group.project, group.commit.hash)]
    key = key_of(thread, number)
    payload = {
        **_head(key, thread, action, title),
        **_payload(group, dashboard_url),
        "news": [*news],
        "owners": [*owners],
        "compiled_code": [*code],
    }
    return Message(
        key=key,
        thread=thread,
        action=action.value,
        title=defused(title),
        text="\n".join(lines),
        payload=payload,
        labels=("regression",),
    )


def compose_end(alert: Alert, *, number: int, why: str, dashboard_url: str | None) -> Message:
    """The message that an alert is over by itself, and why."""
    names = ", ".join(one.series.title for one in alert.series[:3]) + (", …" if len(alert.series) > 3 else "")
    title = f"{alert.project}: resolved on {alert.machine}: {names} (since {alert.commit.hash[:8]})"
    lines = [
        f"The alert of {alert.opened:%Y-%m-%d} about {len(alert.series)} series at {_commit(alert.commit)} is over: "
        f"{inert(why)}."
    ]
    if dashboard_url:
        lines += ["", commit_address(dashboard_url, alert.project, alert.commit.hash)]
    key = key_of(alert.thread, number)
    payload = {
        **_head(key, alert.thread, Action.RESOLVED, title),
        "project": alert.project,
        "machine": alert.machine,
        "first_bad_commit": _commit_json(alert.commit),
        "last_good_commit": _commit_json(alert.previous_commit),
        "series": [one.series.key for one in alert.series],
        "why": why,
    }
    return Message(
        key=key,
        thread=alert.thread,
        action=Action.RESOLVED.value,
        title=defused(title),
        text="\n".join(lines),
        payload=payload,
        labels=("regression",),
    )


_PREFIX = {
    Action.OPENED: "",
    Action.UPDATED: "update: ",
    Action.REOPENED: "again: ",
    Action.RESOLVED: "resolved: ",
}


def _head(key: str, thread: str, action: Action, title: str) -> dict[str, Any]:
    return {"schema": 2, "event": "regression", "action": action.value, "key": key, "thread": thread, "title": title}


def _range(group: RegressionGroup) -> list[str]:
    """Where the change lies, if that is more than one commit."""
    its = common_range(group.regressions)
    if (its.start.hash, its.end.hash) == (group.previous_commit.hash, group.commit.hash):
        return []
    return [f"With 95 % it came after {inert(its.start.hash[:8])} and by {inert(its.end.hash[:8])}."]


def _reproduce(group: RegressionGroup) -> str | None:
    """The command that measures the worst series at both ends of the range again, if it is asv's."""
    return gate_command(group.regressions[0].series, group.previous_commit, group.commit)


def _row(regression: Regression) -> str:
    series, moved = regression.series, regression.change
    unit = series.metric.unit
    interval = f" ({change(moved.low)} to {change(moved.high)})" if moved.low < moved.high else ""
    return (
        f"{code_span(series.title)}: {inert(quantity(moved.before, unit))} → {inert(quantity(moved.after, unit))}, "
        f"{change(moved.magnitude, moved.before)}{interval}{_of_the_machine(regression)}"
    )


def _of_the_machine(regression: Regression) -> str:
    """What the machine's controls did meanwhile, and what remains without it."""
    moved = regression.change
    if moved.share is None:
        return ""
    rest = moved.without_machine
    without = f"; without that {change(rest.value)} ({change(rest.low)} to {change(rest.high)})" if rest else ""
    return f"; {share_words(moved.share)}{without}"


def _commit(commit: Commit) -> str:
    return inert(commit.hash[:8]) + (f" “{code_span(commit.subject)}”" if commit.subject else "")


def _commit_json(value: Commit) -> dict[str, Any]:
    return {"hash": value.hash, "date": value.date.isoformat(), "subject": value.subject, "author": value.author}


def _payload(group: RegressionGroup, dashboard_url: str | None) -> dict[str, Any]:
    its = common_range(group.regressions)
    return {
        "project": group.project,
        "machine": group.machine,
        "first_bad_commit": _commit_json(group.commit),
        "last_good_commit": _commit_json(group.previous_commit),
        "range": [its.start.hash, its.end.hash],
        "regressions": [
            {
                "series": regression.series.key,
                "benchmark": regression.series.benchmark,
                "parameters": dict(regression.series.parameters),
                "metric": regression.series.metric.name,
                "unit": regression.series.metric.unit,
                "before": regression.change.before,
                "after": regression.change.after,
                "relative_change": regression.change.magnitude,
                "interval_95": [regression.change.low, regression.change.high],
                "p_value": regression.change.p_value,
                **classification_json(regression.series, regression.change),
            }
            for regression in group.regressions
        ],
        "reproduce": _reproduce(group),
        "url": commit_address(dashboard_url, group.project, group.commit.hash) if dashboard_url else None,
    }


# What is said of the data itself: that it does not come, cannot be trusted, or that a kernel gives no number.

_HEALTH_PREFIX = {Action.OPENED: "", Action.UPDATED: "update: ", Action.RESOLVED: "resolved: "}


def compose_health(
    project: str,
    finding: HealthFinding,
    *,
    thread: str,
    number: int,
    action: Action,
    owners: Sequence[str] = (),
    dashboard_url: str | None = None,
) -> Message:
    """The message about a finding; with RESOLVED, that it is found no more."""
    title = f"{project}: {_HEALTH_PREFIX[action]}{finding.machine}: {finding.says}"
    is_over = action is Action.RESOLVED
    lines = ["This is over; it was:", ""] if is_over else []
    lines += [f"- {inert(line)}" for line in finding.lines]
    if owners:
        lines += ["", f"Owners: {', '.join(owners)}"]
    url = None
    if dashboard_url:
        place = f"{project_in_path(project)}/machines/{project_in_path(finding.machine)}"
        url = f"{dashboard_url.rstrip('/')}/{place}"
        lines += ["", url]
    key = key_of(thread, number)
    payload = {
        "schema": 2,
        "event": finding.kind.value,
        "action": action.value,
        "key": key,
        "thread": thread,
        "title": title,
        "project": project,
        "machine": finding.machine,
        "kernel": finding.kernel,
        "members": [*finding.members],
        "lines": [*finding.lines],
        "owners": [*owners],
        "url": url,
    }
    return Message(
        key=key,
        thread=thread,
        action=action.value,
        title=defused(title),
        text="\n".join(lines),
        payload=payload,
        labels=(finding.kind.value,),
    )
