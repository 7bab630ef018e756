"""When an alert is over by itself: every one of its series has recovered, or nothing is told of it any more.

- *recovered*: the level of today is back within `recovered_within` of the level before the change (half of the change
  where that is less), without what the machine did;
- *withdrawn*: with newer values the detector holds no such step any more, or gives it to the machine;
- *gone*: the benchmark is listed no more.

Of a series with values that are not analysed yet, or a machine that is not judged yet, nothing new is said.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from warpwatch.ci.alerting.counting import is_over
from warpwatch.dashboard.store.alert_records import Alert, AlertedSeries
from warpwatch.dashboard.store.records import Regression, SeriesChange


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
