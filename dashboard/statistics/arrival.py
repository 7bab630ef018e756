"""When data of a machine comes, and when its absence is news.

A visit is a stretch of runs of one commit. Between visits lie pauses; those under two hours belong to one sitting
(a gate, a backfill) and say nothing of when the next data may be expected. The usual pause is the median of the longer
ones among the newest visits. A machine is overdue when its newest data is older than three usual pauses, and than two
days, so that a weekend is no alarm.
"""

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

SITTING_S = 2 * 3600.0
LEAST_PATIENCE_S = 2 * 86400.0
ARCHIVED_S = 90 * 86400.0  # of silence of a whole project: it is an archive, and nobody waits for its data
_PATIENCE = 3  # usual pauses
_NEWEST = 50  # visits


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A stretch of time in which nothing was measured, from the start of one visit to the start of the next."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        """How long it was."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """How a machine's data comes. Seconds since 1970."""

    newest_s: float
    visits: int
    usual_pause_s: float | None  # None: all that there is came in one sitting
    longest: Pause | None  # None with a single visit

    @property
    def patience_s(self) -> float:
        """The age of the newest data up to which nobody need worry."""
        return max(_PATIENCE * (self.usual_pause_s or 0.0), LEAST_PATIENCE_S)

    def is_overdue(self, now_s: float) -> bool:
        """Whether its data has stopped coming."""
        return now_s - self.newest_s > self.patience_s


def is_archived(newest_s: Iterable[float], now_s: float) -> bool:
    """Whether all machines of a project, by the start of the newest run of each, have been silent for so long."""
    newest = max(newest_s, default=None)
    return newest is not None and now_s - newest > ARCHIVED_S


def arrival(runs: Sequence[tuple[float, Hashable]]) -> Arrival | None:
    """Of runs in any order, each its start and its commit; None without any."""
    ordered = sorted(runs, key=lambda run: run[0])
    if not ordered:
        return None
    starts = [next(visit)[0] for _, visit in itertools.groupby(ordered, key=lambda run: run[1])]
    pauses = [Pause(start_s=start, end_s=end) for start, end in itertools.pairwise(starts)]
    long = [pause.length_s for pause in pauses[-_NEWEST:] if pause.length_s >= SITTING_S]
    return Arrival(
        newest_s=ordered[-1][0],
        visits=len(starts),
        usual_pause_s=median(long) if long else None,
        longest=max(pauses, key=lambda pause: pause.length_s, default=None),
    )
