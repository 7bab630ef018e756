"""Content of alert messages: the commit, what got slower and by how much, and how to reproduce it; or the finding.

The text is Markdown, in which untrusted words (subjects, benchmarks with their parameters, kernels, units) stand in
code spans; the title, which has none, is defused by `compose`. The payload is as it was recorded.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit

from warpwatch.dashboard.analysis.next_measurement import gate_command, measure_again
from warpwatch.dashboard.model.alert import AlertKind, HealthFinding, RegressionAlert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup
from warpwatch.dashboard.model.quantities import change, quantity
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.text.change_schema import classification_json
from warpwatch.dashboard.text.labels import across_words, share_words
from warpwatch.dashboard.text.markdown import code_span, defused, inert
from warpwatch.dashboard.web.urls import commit_address, machine_address

from ..retries import UnavailableError
from .grouping import common_range


class Action(StrEnum):
    """What a message reports of its alert."""

    OPENED = "opened"
    UPDATED = "updated"
    RESOLVED = "resolved"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`key` is the same at every attempt and for no other message, so that a receiver can drop a repetition."""

    key: str
    title: str
    text: str  # Markdown
    payload: Mapping[str, Any]  # for programs: the webhook's body
    thread: str = ""  # what all messages of an alert have in common
    action: str = "opened"
    html: str | None = None
    labels: tuple[str, ...] = field(default=())  # of an issue, in addition to the destination's

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, kept: str) -> Self:
        return cls(**json.loads(kept))


def thread_of(*facts: object) -> str:
    """A thread's name: 32 hexadecimal digits of a hash of its identity."""
    return hashlib.sha256("\n".join(map(str, facts)).encode()).hexdigest()[:32]


def key_of(thread: str, number: int) -> str:
    return thread if number == 1 else f"{thread}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a message reports, independent of its place in a thread."""

    event: str  # an alert's kind, or "digest"
    project: str
    title: str
    text: str  # Markdown
    fields: Mapping[str, Any]  # of the payload, in addition to those of every message
    html: str | None = None


def compose(content: Content, *, thread: str, number: int, action: Action) -> Message:
    key = key_of(thread, number)
    head = {"schema": 2, "event": content.event, "action": action.value, "key": key, "thread": thread}
    return Message(
        key=key,
        thread=thread,
        action=action.value,
        title=defused(content.title),
        text=content.text,
        html=content.html,
        payload={**head, "title": content.title, "project": content.project, **content.fields},
        labels=(content.event,),
    )


class DeliveryError(UnavailableError):
    """A destination did not accept the message. The text has its name and the reason, and no secrets of the address."""


def host_of(url: str) -> str:
    """The address without path and query, which often hold the secret of a webhook."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


_ROWS_SHOWN = 10
_PREFIX = {
    Action.OPENED: "",
    Action.UPDATED: "update: ",
    Action.REOPENED: "again: ",
    Action.RESOLVED: "resolved: ",
}


def _content(
    kind: AlertKind,
    project: str,
    machine: str,
    action: Action,
    headline: str,
    lines: Sequence[str],
    fields: Mapping[str, Any],
    owners: Sequence[str],
    url: str | None,
) -> Content:
    """The parts that alerts of every kind have, around those of one kind."""
    text = [*lines, *(["", f"Owners: {', '.join(owners)}"] if owners else []), *(["", url] if url else [])]
    return Content(
        event=kind.value,
        project=project,
        title=f"{project}: {_PREFIX[action]}{headline}",
        text="\n".join(text),
        fields={"machine": machine, **fields, "owners": [*owners], "url": url},
    )


def regression_content(
    group: RegressionGroup,
    *,
    action: Action = Action.OPENED,
    news: Sequence[str] = (),
    owners: Sequence[str] = (),
    code: Sequence[str] = (),
    dashboard_url: str | None = None,
) -> Content:
    """A group of regressions: series of one machine that got worse at the same commits. `code` are lines."""
    worst = group.regressions[0]
    count = len(group.regressions)
    what = worst.series.title if count == 1 else f"{count} series, {worst.series.title} the most"
    moved = change(worst.change.magnitude, worst.change.before)
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
    return _content(
        AlertKind.REGRESSION,
        group.project,
        group.machine,
        action,
        f"{moved} on {group.machine} at {group.commit.hash[:8]} ({what})",
        lines,
        {**_payload(group), "news": [*news], "compiled_code": [*code]},
        owners,
        commit_address(dashboard_url, group.project, group.commit.hash) if dashboard_url else None,
    )


def resolved_content(alert: RegressionAlert, *, why: str, owners: Sequence[str], dashboard_url: str | None) -> Content:
    """The end of a regression alert that resolved by itself, and why."""
    names = ", ".join(one.series.title for one in alert.series[:3]) + (", …" if len(alert.series) > 3 else "")
    line = (
        f"The alert of {alert.opened:%Y-%m-%d} about {len(alert.series)} series at {_commit(alert.commit)} is over: "
        f"{inert(why)}."
    )
    fields = {
        "first_bad_commit": _commit_json(alert.commit),
        "last_good_commit": _commit_json(alert.previous_commit),
        "series": [one.series.key for one in alert.series],
        "why": why,
    }
    return _content(
        AlertKind.REGRESSION,
        alert.project,
        alert.machine,
        Action.RESOLVED,
        f"{names} on {alert.machine} at {alert.commit.hash[:8]}",
        [line],
        fields,
        owners,
        commit_address(dashboard_url, alert.project, alert.commit.hash) if dashboard_url else None,
    )


def health_content(
    project: str,
    finding: HealthFinding,
    *,
    action: Action,
    owners: Sequence[str] = (),
    dashboard_url: str | None = None,
) -> Content:
    """A health finding; with RESOLVED, that it is gone."""
    lines = ["This is over; it was:", ""] if action is Action.RESOLVED else []
    lines += [f"- {inert(line)}" for line in finding.lines]
    fields = {"kernel": finding.kernel, "members": [*finding.members], "lines": [*finding.lines]}
    url = machine_address(dashboard_url, project, finding.machine) if dashboard_url else None
    headline = f"{finding.machine}: {finding.summary}"
    return _content(finding.kind, project, finding.machine, action, headline, lines, fields, owners, url)


def _range(group: RegressionGroup) -> list[str]:
    """Where the change lies, if that is more than one commit."""
    common = common_range(group.regressions)
    if (common.start.hash, common.end.hash) == (group.previous_commit.hash, group.commit.hash):
        return []
    return [f"With 95 % it came after {inert(common.start.hash[:8])} and by {inert(common.end.hash[:8])}."]


def _reproduce(group: RegressionGroup) -> str | None:
    """The command that measures the worst series at both ends of the range again, if it is asv's."""
    return gate_command(group.regressions[0].series, group.previous_commit, group.commit)


def _row(regression: Regression) -> str:
    series, moved = regression.series, regression.change
    unit = series.metric.unit
    interval = f" ({change(moved.ci_low)} to {change(moved.ci_high)})" if moved.ci_low < moved.ci_high else ""
    across = f", {across_words(moved)}" if moved.is_across_gpus else ""
    confirmed = "; confirmed by further runs of both commits in turns" if moved.is_confirmed else ""
    return (
        f"{code_span(series.title)}: {inert(quantity(moved.before, unit))} → {inert(quantity(moved.after, unit))}, "
        f"{change(moved.magnitude, moved.before)}{interval}{across}{_of_the_machine(regression)}{confirmed}"
    )


def _of_the_machine(regression: Regression) -> str:
    """What the machine's controls did meanwhile, and what remains without it."""
    moved = regression.change
    if moved.share is None:
        return ""
    rest = moved.without_machine
    without = f"; without that {change(rest.value)} ({change(rest.ci_low)} to {change(rest.ci_high)})" if rest else ""
    return f"; {share_words(moved.share)}{without}"


def _commit(commit: Commit) -> str:
    return inert(commit.hash[:8]) + (f" “{code_span(commit.subject)}”" if commit.subject else "")


def _commit_json(value: Commit) -> dict[str, Any]:
    return {"hash": value.hash, "date": value.date.isoformat(), "subject": value.subject, "author": value.author}


def _payload(group: RegressionGroup) -> dict[str, Any]:
    common = common_range(group.regressions)
    return {
        "first_bad_commit": _commit_json(group.commit),
        "last_good_commit": _commit_json(group.previous_commit),
        "range": [common.start.hash, common.end.hash],
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
                "interval_95": [regression.change.ci_low, regression.change.ci_high],
                "p_value": regression.change.p_value,
                "is_confirmed": regression.change.is_confirmed,
                **classification_json(regression.series, regression.change),
            }
            for regression in group.regressions
        ],
        "reproduce": _reproduce(group),
    }
