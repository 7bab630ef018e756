"""A series in short: its newest value, how that changed of late, and the verdict on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.verdict import Verdict

RECENT_DAYS = 30
SPARKLINE_COMMITS = 40
ENOUGH_COMMITS = 4  # with a number, before "unchanged" is said

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitValues:
    """What a series has at one commit. `runs` holds those with a number."""

    commit_id: int
    date_ms: int
    runs: tuple[RunValue, ...]
    failed: bool  # no run has a number, and that is not for want of the thing itself

    @property
    def cards(self) -> frozenset[str | None]:
        """The physical cards that measured it."""
        return frozenset(run.card for run in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The newest commit of a series. The change is relative and signed."""

    value: float | None
    change: float | None
    change_commit_id: int | None  # the changepoint, or the commit compared with
    change_is_step: bool
    sparkline: tuple[float | None, ...]
    verdict: Verdict


def summarise(commits: Sequence[CommitValues], changes: Sequence[Changepoint], metric: Metric) -> Summary:
    """In short: the last step if it is at most 30 days older than the newest commit, else the change in 30 days.

    `changes` count the commits that have a number. Without a commit 30 days back there is no change to tell. Of what
    is measured, only the commits of the newest one's cards count; what is exact does not depend on the card.
    """
    newest = commits[-1]
    value = median(run.value for run in newest.runs) if newest.runs else None
    sparkline = tuple(
        median(run.value for run in commit.runs) if commit.runs else None for commit in commits[-SPARKLINE_COMMITS:]
    )
    numbers = [commit for commit in commits if commit.runs]
    change, against, is_step = None, None, False
    comparable = [commit for commit in numbers if metric.is_exact or commit.cards & numbers[-1].cards]
    verdict = Verdict.UNCHANGED if len(comparable) >= ENOUGH_COMMITS else Verdict.INCONCLUSIVE
    since = newest.date_ms - RECENT_DAYS * _DAY_MS
    if changes and numbers[changes[-1].index].date_ms >= since:
        last = changes[-1]
        change, against, is_step = last.magnitude, numbers[last.index].commit_id, True
        verdict = Verdict.REGRESSED if metric.is_worse(last.magnitude) else Verdict.IMPROVED
    elif value is not None:
        older = next((commit for commit in reversed(comparable) if commit.date_ms <= since), None)
        if older is not None:
            before = median(run.value for run in older.runs)
            if before:
                change, against = value / before - 1, older.commit_id
    if value is None:
        verdict = Verdict.INVALID if newest.failed else Verdict.MISSING
    return Summary(
        value=value, change=change, change_commit_id=against, change_is_step=is_step, sparkline=sparkline,
        verdict=verdict,
    )  # fmt: skip
