"""Arrival of a machine's data, and when it is overdue.

A visit is a stretch of runs of one commit. Pauses between visits of under two hours belong to one session (a gate, a
backfill) and are not used. The usual pause is the median of the longer ones among the newest visits. A machine is
overdue when its newest data is older than three usual pauses and than two days, so that a weekend is no alarm.
"""

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

SESSION_GAP_S = 2 * 3600.0  # longest pause between runs of one session; shorter than a night
LEAST_PATIENCE_S = 2 * 86400.0
ARCHIVED_S = 90 * 86400.0  # a project without data for so long is an archive: nothing is overdue
_PATIENCE = 3  # usual pauses
_NEWEST = 50  # visits


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Time from the start of one visit to the start of the next."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """Seconds from start to end."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Visits of a machine. Seconds since 1970."""

    newest_s: float
    visits: int
    usual_pause_s: float | None  # None: all data came in one session
    longest: Pause | None  # None with a single visit

    @property
    def patience_s(self) -> float:
        """Age of the newest data from which on it is overdue."""
        return max(_PATIENCE * (self.usual_pause_s or 0.0), LEAST_PATIENCE_S)

    def is_overdue(self, now_s: float) -> bool:
        """Whether new data should have come by now."""
        return now_s - self.newest_s > self.patience_s


def is_archived(newest_s: Iterable[float], now_s: float) -> bool:
    """Whether a project is an archive, by the start of each machine's newest run."""
    newest = max(newest_s, default=None)
    return newest is not None and now_s - newest > ARCHIVED_S


def arrival(runs: Sequence[tuple[float, Hashable]]) -> Arrival | None:
    """Arrival by the start and commit of each run, in any order; None without runs."""
    ordered = sorted(runs, key=lambda run: run[0])
    if not ordered:
        return None
    starts = [next(visit)[0] for _, visit in itertools.groupby(ordered, key=lambda run: run[1])]
    pauses = [Pause(start_s=start, end_s=end) for start, end in itertools.pairwise(starts)]
    long = [pause.length_s for pause in pauses[-_NEWEST:] if pause.length_s >= SESSION_GAP_S]
    return Arrival(
        newest_s=ordered[-1][0],
        visits=len(starts),
        usual_pause_s=median(long) if long else None,
        longest=max(pauses, key=lambda pause: pause.length_s, default=None),
    )
