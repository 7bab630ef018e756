"""Life cycle of a regression alert: when it is updated, resolved and reopened.

An open or acknowledged alert is *updated* when series join it, when later measurements narrow or move the range, and
when the magnitude leaves the reported interval by more than a quarter. It is *resolved* when every series ended: the
level recovered, the detector withdrew the change, or the benchmark is gone. Triage is respected: an alert that is
expected, a false alarm or resolved by a person sends no message, and further series join it silently. It is *reopened*
if it had resolved by itself and the change is back, or if an expected change surely exceeds its former interval.

Series with values that are not analysed, or of a machine that is not classified, keep their state.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.model.alert import LIVE, AlertedSeries, AlertState, LastNotification, RegressionAlert
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.quantities import change as change_words
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.store.alert_updates import RegressionUpdate

from ..policy.policy_model import AlertsTable
from .alert_content import Action
from .grouping import CommitRange, as_group, common_range, is_over, is_reportable, own_change


class Ending(StrEnum):
    """Why a series of an alert needs no more attention."""

    RECOVERED = "recovered"
    WITHDRAWN = "withdrawn"
    GONE = "gone"


_WORDS = {
    Ending.RECOVERED: "recovered: the level is back at that before the change",
    Ending.WITHDRAWN: "withdrawn: with newer results the detector no longer finds the change",
    Ending.GONE: "gone: the benchmark is no longer listed",
}


def endings(
    alert: RegressionAlert, held: Sequence[Regression], levels: Mapping[str, Sequence[SeriesChange]], within: float
) -> Mapping[str, Ending | None]:
    """The ending of each series of the alert, by key; None: still active."""
    current = {one.series.key: one for one in held}
    return {one.series.key: _ending(one, current.get(one.series.key), levels, within) for one in alert.series}


def _ending(
    one: AlertedSeries, current: Regression | None, levels: Mapping[str, Sequence[SeriesChange]], within: float
) -> Ending | None:
    if not one.series.listed:
        return Ending.GONE
    if not one.is_settled:
        return Ending.RECOVERED if one.is_resolved else None
    if current is None:
        return Ending.WITHDRAWN
    return Ending.RECOVERED if is_over(current.change, levels.get(one.series.key, ()), within) else None


def ending_words(ended: Mapping[str, Ending | None]) -> str:
    """The reason that all series of an alert ended."""
    counted = Counter(ending for ending in ended.values() if ending is not None)
    if len(counted) == 1:
        return _WORDS[next(iter(counted))]
    return "; ".join(f"{count} series {_WORDS[ending]}" for ending, count in counted.most_common())


_QUARTER = 0.25

Levels = Mapping[str, Sequence[SeriesChange]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleStep:
    """One update of an alert. Without an action no message is sent."""

    update: RegressionUpdate
    action: Action | None
    group: RegressionGroup | None  # the active regressions; None without any
    news: tuple[str, ...] = ()


def accepts_series(alert: RegressionAlert) -> bool:
    """Whether further series of its commit range join the alert instead of opening one."""
    return alert.state is not AlertState.RESOLVED


def alert_range(alert: RegressionAlert, commit_of: Callable[[str], Commit | None]) -> CommitRange:
    """The commit range of the newest message, or of the alert where none was sent."""
    reported = alert.notified
    start, end = (commit_of(reported.start), commit_of(reported.end)) if reported else (None, None)
    return CommitRange(start=start or alert.previous_commit, end=end or alert.commit)


def follow(
    alert: RegressionAlert,
    held: Sequence[Regression],
    joining: Sequence[Regression],
    levels: Levels,
    policy: AlertsTable,
    commit_of: Callable[[str], Commit | None],
) -> LifecycleStep:
    """The next update of an alert, from the current changes of its series and of those that join it."""
    ended = endings(alert, held, levels, policy.recovered_within)
    over = frozenset(key for key, ending in ended.items() if ending is not None)
    active = [one for one in (*held, *joining) if one.series.key not in over]
    group = as_group(alert.project, active) if active else None
    quiet = LifecycleStep(update=RegressionUpdate(held=(*held, *joining), resolved=over), action=None, group=group)
    if alert.state is AlertState.RESOLVED:
        returned = alert.decided_by is None and any(
            is_reportable(one, policy, levels.get(one.series.key, ())) for one in held
        )
        return _returns(alert, quiet, active, "The change is there again.") if returned and group else quiet
    if alert.state is AlertState.EXPECTED:
        grown = [one for one in active if _has_outgrown(one, alert, policy.recovered_within)]
        return _returns(alert, quiet, active, _outgrown_words(grown[0], alert)) if grown else quiet
    if alert.state not in LIVE:
        return quiet
    if not active and len(over) == len(alert.series):
        return _ends(quiet, ending_words(ended))
    news = _news(alert, active, joining, commit_of) if group else ()
    return _step(alert, quiet, Action.UPDATED, active, None, news) if news else quiet


def notification_of(active: Sequence[Regression], first_range: tuple[str, str] | None = None) -> LastNotification:
    """What a message with these regressions reports; `first_range` is None for an alert's first message."""
    common, largest = common_range(active), own_change(as_group("", active).regressions[0].change)
    return LastNotification(
        start=common.start.hash,
        end=common.end.hash,
        worst=(largest.value, largest.ci_low, largest.ci_high),
        first_range=first_range or (common.start.hash, common.end.hash),
    )


def _step(
    alert: RegressionAlert,
    quiet: LifecycleStep,
    action: Action,
    active: Sequence[Regression],
    state: AlertState | None,
    news: tuple[str, ...],
) -> LifecycleStep:
    group = as_group(alert.project, active)
    ends = (group.previous_commit, group.commit)
    moved = [each.hash for each in ends] != [alert.previous_commit.hash, alert.commit.hash]
    update = RegressionUpdate(
        held=quiet.update.held,
        resolved=quiet.update.resolved,
        state=state,
        note=" ".join(news),
        between=ends if moved else None,
        notified=notification_of(active, alert.notified.first_range if alert.notified else None),
    )
    return LifecycleStep(update=update, action=action, group=group, news=news)


def _returns(alert: RegressionAlert, quiet: LifecycleStep, active: Sequence[Regression], why: str) -> LifecycleStep:
    return _step(alert, quiet, Action.REOPENED, active, AlertState.OPEN, (why,))


def _ends(quiet: LifecycleStep, words: str) -> LifecycleStep:
    update = RegressionUpdate(held=(), resolved=quiet.update.resolved, state=AlertState.RESOLVED, note=words)
    return LifecycleStep(update=update, action=Action.RESOLVED, group=None, news=(words,))


def _news(
    alert: RegressionAlert,
    active: Sequence[Regression],
    joining: Sequence[Regression],
    commit_of: Callable[[str], Commit | None],
) -> tuple[str, ...]:
    """Differences from the newest message, a sentence each."""
    found = []
    if joining:
        names = ", ".join(one.series.title for one in joining[:3]) + (", …" if len(joining) > 3 else "")
        found.append(f"{len(joining)} more series moved with the same commits: {names}.")
    if alert.notified is None:
        return tuple(found)
    before, now = alert_range(alert, commit_of), common_range(active)
    if now.is_inside(before):
        found.append(
            f"The range is narrower: after {now.start.hash[:8]} and by {now.end.hash[:8]}, where it was after "
            f"{before.start.hash[:8]} and by {before.end.hash[:8]}."
        )
    elif before.overlap(now) is None:
        found.append(f"The range has moved: after {now.start.hash[:8]} and by {now.end.hash[:8]}.")
    largest = own_change(as_group("", active).regressions[0].change)
    was, low, high = alert.notified.worst
    if not low <= largest.value <= high and abs(largest.value - was) > _QUARTER * abs(was):
        found.append(f"The largest change is {change_words(largest.value)} now; {change_words(was)} was reported.")
    return tuple(found)


def _has_outgrown(one: Regression, alert: RegressionAlert, margin: float) -> bool:
    """Whether the interval of a change lies beyond the one that was expected."""
    was = next((before for before in alert.series if before.series.key == one.series.key), None)
    if was is None:
        return False
    change = one.change
    return change.ci_low > was.ci_high + margin if change.magnitude > 0 else change.ci_high < was.ci_low - margin


def _outgrown_words(one: Regression, alert: RegressionAlert) -> str:
    was = next(before for before in alert.series if before.series.key == one.series.key)
    return (
        f"{one.series.title} moved by {change_words(one.change.magnitude)} now, surely beyond the "
        f"{change_words(was.magnitude)} that was expected."
    )
