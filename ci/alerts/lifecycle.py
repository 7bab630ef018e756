"""Life cycle of an alert: updates, returns, and its end."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from warpwatch.dashboard.model.alert import Alert, AlertedSeries, AlertState, Told
from warpwatch.dashboard.model.changepoint import Regression, RegressionGroup, SeriesChange
from warpwatch.dashboard.model.quantities import change as change_words
from warpwatch.dashboard.model.series import Commit
from warpwatch.dashboard.store.alert_updates import Progress

from ..policy.policy_model import AlertsTable
from .grouping import CommitRange, as_group, common_range, counts, is_over, own_change

# When an alert is over by itself: every one of its series has recovered, or nothing is told of it any more.
#
# - *recovered*: the level of today is back within `recovered_within` of the level before the change (half of the
# change where that is less), without what the machine did; - *withdrawn*: with newer values the detector holds no
# such step any more, or gives it to the machine; - *gone*: the benchmark is listed no more.
#
# Of a series with values that are not analysed yet, or a machine that is not judged yet, nothing new is said.


class Ending(StrEnum):
    """How a series of an alert came to its end."""

    RECOVERED = "recovered"
    WITHDRAWN = "withdrawn"
    GONE = "gone"


_WORDS = {
    Ending.RECOVERED: "recovered: the level is back at that before the change",
    Ending.WITHDRAWN: "withdrawn: with newer results the detector no longer holds the change",
    Ending.GONE: "gone: the benchmark is listed no more",
}


def endings(
    alert: Alert, held: Sequence[Regression], levels: Mapping[str, Sequence[SeriesChange]], within: float
) -> Mapping[str, Ending | None]:
    """How each series of the alert ended, by its key; None goes on."""
    told = {one.series.key: one for one in held}
    return {its.series.key: _ending(its, told.get(its.series.key), levels, within) for its in alert.series}


def _ending(
    its: AlertedSeries, told: Regression | None, levels: Mapping[str, Sequence[SeriesChange]], within: float
) -> Ending | None:
    if not its.series.listed:
        return Ending.GONE
    if not its.is_settled:
        return Ending.RECOVERED if its.is_resolved else None
    if told is None:
        return Ending.WITHDRAWN
    return Ending.RECOVERED if is_over(told.change, levels.get(its.series.key, ()), within) else None


def ending_words(ended: Mapping[str, Ending | None]) -> str:
    """What is said of an alert whose series all ended."""
    counted = Counter(ending for ending in ended.values() if ending is not None)
    if len(counted) == 1:
        return _WORDS[next(iter(counted))]
    return "; ".join(f"{count} series {_WORDS[ending]}" for ending, count in counted.most_common())


# What is to be done about an alert that was told before: nothing, or an update, an end, a return.
#
# An open or acknowledged alert is *updated* when series join it, when later measurements narrow the range of commits
# or move it, and when the magnitude leaves the interval that was told by more than a quarter; it is *resolved* as
# lifecycle.py says. What people decided is respected: of an alert that is expected, a false alarm, or that a person
# resolved, no message goes out, and further series of its range join it silently. It returns, with a message, only
#
# - from *resolved by itself*: when the detector tells the change again and its level is not back; - from *expected*:
# when a change has surely grown beyond what was expected (its interval lies above the one then).

LIVE = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
_QUARTER = 0.25

Levels = Mapping[str, Sequence[SeriesChange]]


class Action(StrEnum):
    """What a message is about."""

    OPENED = "opened"
    UPDATED = "updated"
    RESOLVED = "resolved"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of an alert. Without an action nobody is told."""

    progress: Progress
    action: Action | None
    group: RegressionGroup | None  # what is told of it now; None of one of which nothing is
    news: tuple[str, ...] = ()


def takes_in(alert: Alert) -> bool:
    """Whether further series of its range belong to it, and are not news of their own."""
    return alert.state is not AlertState.RESOLVED


def alert_range(alert: Alert, commit_of: Callable[[str], Commit | None]) -> CommitRange:
    """The commits that were told."""
    start, end = (commit_of(alert.told.start), commit_of(alert.told.end)) if alert.told else (None, None)
    return CommitRange(start=start or alert.previous_commit, end=end or alert.commit)


def follow(
    alert: Alert,
    held: Sequence[Regression],
    joining: Sequence[Regression],
    levels: Levels,
    policy: AlertsTable,
    commit_of: Callable[[str], Commit | None],
) -> Step:
    """The next step of an alert, by what the detector tells of its series now, and of those that join it."""
    ended = endings(alert, held, levels, policy.recovered_within)
    over = frozenset(key for key, ending in ended.items() if ending is not None)
    active = [one for one in (*held, *joining) if one.series.key not in over]
    group = as_group(alert.project, active) if active else None
    quiet = Step(progress=Progress(held=(*held, *joining), resolved=over), action=None, group=group)
    if alert.state is AlertState.RESOLVED:
        returned = alert.decided_by is None and any(counts(one, policy, levels.get(one.series.key, ())) for one in held)
        return _returns(alert, quiet, active, "The change is there again.") if returned and group else quiet
    if alert.state is AlertState.EXPECTED:
        grown = [one for one in active if _has_outgrown(one, alert, policy.recovered_within)]
        return _returns(alert, quiet, active, _outgrown_words(grown[0], alert)) if grown else quiet
    if alert.state not in LIVE:
        return quiet
    if not active and len(over) == len(alert.series):
        return _ends(alert, quiet, ending_words(ended))
    news = _news(alert, active, joining, commit_of) if group else ()
    return _goes_on(alert, quiet, active, news) if news else quiet


def told_of(
    thread: str, messages: int, active: Sequence[Regression], first_range: tuple[str, str] | None = None
) -> Told:
    """What a message with these regressions tells; the first one without what was told first."""
    its, largest = common_range(active), own_change(as_group("", active).regressions[0].change)
    return Told(
        thread=thread,
        messages=messages,
        start=its.start.hash,
        end=its.end.hash,
        worst=(largest.value, largest.low, largest.high),
        first_range=first_range or (its.start.hash, its.end.hash),
    )


def _again(alert: Alert, active: Sequence[Regression]) -> Told:
    return told_of(alert.thread, _messages(alert) + 1, active, alert.told.first_range if alert.told else None)


def _messages(alert: Alert) -> int:
    return alert.told.messages if alert.told else 1


def _step(
    alert: Alert,
    quiet: Step,
    action: Action,
    active: Sequence[Regression],
    state: AlertState | None,
    news: tuple[str, ...],
) -> Step:
    group = as_group(alert.project, active)
    ends = (group.previous_commit, group.commit)
    moved = [each.hash for each in ends] != [alert.previous_commit.hash, alert.commit.hash]
    progress = Progress(
        held=quiet.progress.held,
        resolved=quiet.progress.resolved,
        state=state,
        note=" ".join(news),
        between=ends if moved else None,
        told=_again(alert, active),
    )
    return Step(progress=progress, action=action, group=group, news=news)


def _returns(alert: Alert, quiet: Step, active: Sequence[Regression], why: str) -> Step:
    return _step(alert, quiet, Action.REOPENED, active, AlertState.OPEN, (why,))


def _goes_on(alert: Alert, quiet: Step, active: Sequence[Regression], news: tuple[str, ...]) -> Step:
    return _step(alert, quiet, Action.UPDATED, active, None, news)


def _ends(alert: Alert, quiet: Step, words: str) -> Step:
    told = alert.told
    end = Told(
        thread=alert.thread,
        messages=_messages(alert) + 1,
        start=told.start if told else alert.previous_commit.hash,
        end=told.end if told else alert.commit.hash,
        worst=told.worst if told else (0.0, 0.0, 0.0),
        first_range=told.first_range if told else None,
    )
    progress = Progress(held=(), resolved=quiet.progress.resolved, state=AlertState.RESOLVED, told=end, note=words)
    return Step(progress=progress, action=Action.RESOLVED, group=None, news=(words,))


def _news(
    alert: Alert,
    active: Sequence[Regression],
    joining: Sequence[Regression],
    commit_of: Callable[[str], Commit | None],
) -> tuple[str, ...]:
    """What has changed since it was told, a sentence each."""
    found = []
    if joining:
        names = ", ".join(one.series.title for one in joining[:3]) + (", …" if len(joining) > 3 else "")
        found.append(f"{len(joining)} more series moved with the same commits: {names}.")
    if alert.told is None:
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
    was, low, high = alert.told.worst
    if not low <= largest.value <= high and abs(largest.value - was) > _QUARTER * abs(was):
        found.append(f"The largest change is {change_words(largest.value)} now; {change_words(was)} was told.")
    return tuple(found)


def _has_outgrown(one: Regression, alert: Alert, margin: float) -> bool:
    """Whether a change is surely larger than it was when it was expected."""
    was = next((its for its in alert.series if its.series.key == one.series.key), None)
    if was is None:
        return False
    change = one.change
    return change.low > was.high + margin if change.magnitude > 0 else change.high < was.low - margin


def _outgrown_words(one: Regression, alert: Alert) -> str:
    was = next(its for its in alert.series if its.series.key == one.series.key)
    return (
        f"{one.series.title} moved by {change_words(one.change.magnitude)} now, surely beyond the "
        f"{change_words(was.magnitude)} that was expected."
    )
