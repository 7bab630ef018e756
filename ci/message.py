"""What an alert says: which commit, what got slower and by how much, and how to see it again."""

from typing import Any

from warpwatch.ci.delivery import Message
from warpwatch.dashboard.formatting import share_words
from warpwatch.dashboard.measure_again import measure_again
from warpwatch.dashboard.pages.addresses import commit_address
from warpwatch.dashboard.pages.change_json import judgement_json
from warpwatch.dashboard.quantities import change, quantity
from warpwatch.dashboard.reproduce import asv_comparison
from warpwatch.dashboard.store.records import Commit, Regression, RegressionGroup

_ROWS_SHOWN = 10


def compose(group: RegressionGroup, key: str, dashboard_url: str | None) -> Message:
    """The message about one group of regressions: series of one machine that got worse at the same commit."""
    worst = group.regressions[0]
    count = len(group.regressions)
    what = worst.series.title if count == 1 else f"{count} series, {worst.series.title} the most"
    moved = change(worst.change.magnitude, worst.change.before)
    title = f"{group.project}: {moved} on {group.machine} at {group.commit.hash[:8]} ({what})"
    lines = [
        f"First bad commit {_commit(group.commit)}; the last measured good one is {_commit(group.previous_commit)}.",
        "",
        *[f"- {_row(regression)}" for regression in group.regressions[:_ROWS_SHOWN]],
    ]
    if count > _ROWS_SHOWN:
        lines.append(f"- and {count - _ROWS_SHOWN} more")
    if wanted := measure_again(worst.series, worst.change):
        lines += (
            ["", f"{wanted.reason} On {wanted.machine}:", "", f"`{wanted.command}`"]
            if wanted.command
            else ["", wanted.reason]
        )
    if command := _reproduce(group):
        lines += ["", f"Reproduce: `{command}`"]
    if dashboard_url:
        lines += ["", commit_address(dashboard_url, group.project, group.commit.hash)]
    return Message(key=key, title=title, text="\n".join(lines), payload=_payload(group, key, title, dashboard_url))


def _reproduce(group: RegressionGroup) -> str | None:
    """The command that measures the worst series at both ends of the range again, if it is asv's."""
    return asv_comparison(group.regressions[0].series, group.previous_commit, group.commit)


def _row(regression: Regression) -> str:
    series, moved = regression.series, regression.change
    unit = series.metric.unit
    interval = f" ({change(moved.low)} to {change(moved.high)})" if moved.low < moved.high else ""
    return (
        f"{series.title}: {quantity(moved.before, unit)} → {quantity(moved.after, unit)}, "
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
    return f"{commit.hash[:8]}" + (f" “{commit.subject}”" if commit.subject else "")


def _payload(group: RegressionGroup, key: str, title: str, dashboard_url: str | None) -> dict[str, Any]:
    def commit(value: Commit) -> dict[str, Any]:
        return {
            "hash": value.hash,
            "date": value.date.isoformat(),
            "subject": value.subject,
            "author": value.author,
        }

    return {
        "schema": 1,
        "event": "regression",
        "key": key,
        "title": title,
        "project": group.project,
        "machine": group.machine,
        "first_bad_commit": commit(group.commit),
        "last_good_commit": commit(group.previous_commit),
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
                **judgement_json(regression.series, regression.change),
            }
            for regression in group.regressions
        ],
        "reproduce": _reproduce(group),
        "url": commit_address(dashboard_url, group.project, group.commit.hash) if dashboard_url else None,
    }
