"""Series to which an import brought a few values that go on as before: told in short anew, without the detector.

After a commit nearly all series are so. What the detector said of them stands; it looks again where the newest values
might be a change (continuation.py), where the last change is so young that each value tells more of it, and everywhere
after some values more, at another time in each series. Whatever is not as simple as it is usual is left to it as well.
"""

import itertools
import logging
import math
from collections.abc import Mapping, Sequence

import numpy as np

from warpwatch.dashboard.faults import located
from warpwatch.dashboard.metrics import metric
from warpwatch.dashboard.statistics.continuation import LOOK_BACK, go_on
from warpwatch.dashboard.statistics.detection import stands_still
from warpwatch.dashboard.statistics.level_path import Floats
from warpwatch.dashboard.statistics.summary import (
    SPARKLINE_COMMITS,
    Reference,
    moved_since,
    since_ms,
    summary,
)
from warpwatch.dashboard.store.analysed import StaleProject, newest_among
from warpwatch.dashboard.store.calendar import Calendar, PointRow, ProjectCalendar
from warpwatch.dashboard.store.grown import Continued, Grown, take_grown, write_continued
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.rows import STATUS_CODES
from warpwatch.dashboard.store.store import Store
from warpwatch.dashboard.store.tails import Rule, Tail
from warpwatch.dashboard.verdict import Verdict

_log = logging.getLogger(__name__)

_AT_ONCE = 2000  # series
_UNSEEN, _SPREAD = 12, 16  # values until the detector looks again: from the one on, a few more in other series
_OF_THE_LEVEL = 6  # and at most a sixth of the last level
_OK, _UNAVAILABLE, _UNCHANGED = (
    STATUS_CODES[status] for status in (Status.OK, Status.UNAVAILABLE, Status.UNCHANGED)
)  # fmt: skip
_OF_A_STEP = {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED, Verdict.INCONCLUSIVE}  # the last: not yet judged


def bring_up_to_date(store: Store, project: StaleProject) -> int:
    """Takes care of the stale series of a project that go on as before; returns how many. The rest stays stale."""
    its_calendar, after, done = ProjectCalendar(project.id), 0, 0
    while True:
        with store.read() as connection:
            now = its_calendar.read(connection)
            taken = take_grown(connection, project, now, after=after, limit=_AT_ONCE)
        if not taken:
            return done
        after = taken[-1].id
        try:
            found = continued(taken, now)
        except Exception as error:  # a fault of ours: they stay stale, and the detector takes them one by one
            _log.error("%d series of %s could not be told in short (%s), and are analysed in full. Please report this",
                       len(taken), project.name, located(error))  # fmt: skip
            continue
        if found:
            with store.write(project.name, of_project=True) as connection:
                done += write_continued(connection, found)


def continued(grown: Sequence[Grown], calendar: Calendar) -> list[Continued]:
    """Those that go on as before, as they are now."""
    position = dict(zip(calendar.commits.tolist(), calendar.position.tolist(), strict=True))
    ordered = [(each, new) for each in grown if (new := _in_order(each, position)) is not None]
    known = [(each, new, tail) for each, new in ordered if (tail := _longer(each, new)) is not None]
    measured = [number for number, (_, _, tail) in enumerate(known) if tail.rule is not Rule.COUNTED]
    if measured:
        tails = [known[number][2] for number in measured]
        goes_on = go_on([_last_level(tail) for tail in tails], [tail.total for tail in tails])
        left = {number for number, goes in zip(measured, goes_on.tolist(), strict=True) if not goes}
        known = [one for number, one in enumerate(known) if number not in left]
    return [found for one in known if (found := _in_short(*one, calendar)) is not None]


def _last_level(tail: Tail) -> Floats:
    return tail.value[~np.isnan(tail.value)][-min(tail.level, LOOK_BACK) :]


def _longer(grown: Grown, new: Sequence[PointRow]) -> Tail | None:
    """The tail with the new values, if it is not yet time for the detector and the rule for the series stands."""
    tail = grown.tail
    # A series has one new value or a few: NumPy would take longer than they do.
    values = [row.value if row.status == _OK and row.value is not None else math.nan for row in new]
    numbers = [value for value in values if value == value]
    more, unseen = len(numbers), tail.total - tail.looked_at
    if unseen + more > min((tail.level - unseen) // _OF_THE_LEVEL, _UNSEEN + grown.id % _SPREAD):
        return None
    rule, still = tail.rule, tail.still
    if more and rule is not Rule.MEASURED:
        before = float(tail.value[~np.isnan(tail.value)][-1])
        still += sum(a == b for a, b in zip([before, *numbers], numbers, strict=False))
        if rule is Rule.COUNTED and any(number != before for number in numbers):
            return None
        if rule is Rule.WHOLE and stands_still(tail.total + more, still):
            return None
        if rule is Rule.WHOLE and not all(number.is_integer() for number in numbers):
            rule = Rule.MEASURED
    return tail._replace(
        commit=np.concatenate([tail.commit, [row.commit_id for row in new]]),
        value=np.concatenate([tail.value, values]), total=tail.total + more, still=still, level=tail.level + more,
        rule=rule,
    )  # fmt: skip


def _in_order(grown: Grown, position: Mapping[int, int]) -> Sequence[PointRow] | None:
    """The new points, if they are one a commit, of commits after the tail's, and of its card."""
    new = sorted(grown.new, key=lambda row: row.position)
    places = [position[int(grown.tail.commit[-1])], *(row.position for row in new)]
    if any(after <= before for before, after in itertools.pairwise(places)):
        return None
    return new if all(row.card == grown.tail.card and row.status != _UNCHANGED for row in new) else None


def _in_short(grown: Grown, new: Sequence[PointRow], tail: Tail, calendar: Calendar) -> Continued | None:
    """What `plain_summary` tells of the whole history; None where the tail does not reach back far enough."""
    date_ms = calendar.date_ms[calendar.commits.searchsorted(tail.commit)]
    since = since_ms(int(date_ms[-1]))
    numbers = tail.numbers
    older = numbers[date_ms[numbers] <= since]
    if not len(older) and not tail.is_all:
        return None
    sparkline = [None if value != value else value for value in tail.value[-SPARKLINE_COMMITS:].tolist()]
    step_ms = calendar.date_ms[calendar.commits.searchsorted(tail.step_commit)] if tail.step_commit else None
    against, is_step = None, step_ms is not None and step_ms >= since
    if is_step:
        against = Reference(change=tail.step, commit_id=tail.step_commit, is_step=True)
    elif sparkline[-1] is not None and len(older):
        against = moved_since(sparkline[-1], float(tail.value[older[-1]]), int(tail.commit[older[-1]]))
    found = summary(
        sparkline=sparkline, against=against, metric=metric(grown.metric, grown.unit),
        numbers=tail.total, newest_failed=new[-1].status != _UNAVAILABLE,
    )  # fmt: skip
    if is_step and found.value is not None:
        if grown.verdict not in _OF_A_STEP:
            return None
        found = found._replace(verdict=grown.verdict)  # it was judged beside the machine's other series
    return Continued(
        series_id=grown.id, revision=grown.revision, newest=newest_among(new[-1:]), summary=found,
        last_run=max(row.run_id for row in new), tail=tail.shorter(int(older[-1]) if len(older) else 0),
    )  # fmt: skip
