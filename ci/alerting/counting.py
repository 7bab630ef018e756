"""What counts as news: steps for the worse that are large enough without the machine's part, and not over already.

What the machine did is no commit's doing: such changes have a kind of their own (machine state) and are told with the
machine's health. Of a step that the machine has a part in, what remains without it counts.
"""

import math
from collections.abc import Iterable, Sequence

from warpwatch.ci.policy.alerts import AlertsTable
from warpwatch.dashboard.statistics.change_kind import ChangeKind
from warpwatch.dashboard.store.records import Magnitude, Regression, SeriesChange

_HALF = 0.5  # of what was lost, that may be missing still where the whole was little


def own_change(change: SeriesChange) -> Magnitude:
    """The change without the machine's part, where controls told of one."""
    return change.without_machine or Magnitude(value=change.magnitude, low=change.low, high=change.high)


def counts(regression: Regression, policy: AlertsTable, levels: Sequence[SeriesChange]) -> bool:
    """Whether it is worth a message. `levels` are all changes of its series, in order."""
    change = regression.change
    own = own_change(change)
    if own.value * change.magnitude <= 0:  # without the machine it got better
        return False
    return abs(own.value) >= policy.threshold and not is_over(change, levels, policy.recovered_within)


def is_over(change: SeriesChange, levels: Iterable[SeriesChange], within: float) -> bool:
    """Whether the level is back: at most `within` worse than before the change, and half of it where that is less.

    The level now is that of the newest segment, without what the machine did on the way.
    """
    lost = own_change(change)
    since = [each for each in levels if each.index > change.index]
    if not since:
        return False
    growth, level = 0.0, change.after
    for each in (change, *since):
        if each.kind is not ChangeKind.MACHINE_STATE:
            own = own_change(each).value
            growth = growth + math.log1p(own) if own > -1 and math.isfinite(own) else math.nan
        level = each.after
    worse = math.copysign(1.0, change.magnitude)
    if math.isnan(growth) or not change.before:  # from 0, or to 0: there is no ratio
        return (level - change.before) * worse <= 0
    return math.expm1(growth) * worse <= min(within, abs(lost.value) * _HALF)
