"""Changes as programs read them: of a series page's data, and of an alert."""

from typing import Any

from ..analysis.next_measurement import measure_again
from ..model.changepoint import SeriesChange
from ..model.series import Series


def change_json(series: Series, change: SeriesChange) -> dict[str, Any]:
    """A changepoint: where, how much, what it is, how surely, and what would settle it."""
    return {
        "commit": change.commit.hash,
        "previous_commit": change.previous_commit.hash,
        "range": [change.range_start.hash, change.range_end.hash],
        "posterior": {commit.hash: held for commit, held in change.posterior},
        "before": change.before,
        "after": change.after,
        "magnitude": change.magnitude,
        "interval": [change.low, change.high],
        "p_value": change.p_value,
        "chance": change.chance,
        "is_worse": change.is_worse,
        **judgement_json(series, change),
    }


def judgement_json(series: Series, change: SeriesChange) -> dict[str, Any]:
    """What all findings of the machine together say of a change."""
    share, rest, wanted = change.share, change.without_machine, measure_again(series, change)
    return {
        "kind": change.kind.value,
        "q_value": change.q_value,
        "control_share": share
        and {"by": share.control.value, "share": share.value, "interval": [share.low, share.high]},
        "without_machine": rest and {"magnitude": rest.value, "interval": [rest.low, rest.high]},
        "measure_again": wanted
        and {
            "reason": wanted.reason,
            "commits": [commit.hash for commit in wanted.commits],
            "machine": wanted.machine,
            "command": wanted.command,
        },
    }


def episode_json(episode: SeriesChange) -> dict[str, Any]:
    """What no commit is accused of."""
    return {
        "kind": episode.kind.value,
        "first_commit": episode.commit.hash,
        "last_commit": episode.range_end.hash,
        "before": episode.before,
        "after": episode.after,
        "magnitude": episode.magnitude,
        "interval": [episode.low, episode.high],
        "p_value": episode.p_value,
    }
