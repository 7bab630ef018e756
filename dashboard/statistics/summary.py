"""A series in short: its newest value, how that changed of late, and the verdict on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from warpwatch.dashboard.metrics import Metric
from warpwatch.dashboard.statistics.changepoint import Changepoint
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.verdict import Verdict

RECENT_DAYS = 30
SPARKLINE_COMMITS = 40
_ENOUGH_COMMITS = 4  # with a number, before "unchanged" is said of what is measured
_ENOUGH_IF_EXACT = 2

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


class Summary(NamedTuple):
    """The newest commit of a series. The change is relative and signed."""

    value: float | None
    change: float | None
    change_commit_id: int | None  # the changepoint, or the commit compared with
    change_is_step: bool
    sparkline: tuple[float | None, ...]
    verdict: Verdict


class Reference(NamedTuple):
    """What the newest value is compared with."""

    change: float  # relative and signed
    commit_id: int
    is_step: bool


def summarise(commits: Sequence[CommitValues], changes: Sequence[Changepoint], metric: Metric) -> Summary:
    """In short: the last step if it is at most 30 days older than the newest commit, else the change in 30 days.

    `changes` count the commits that have a number. Without a commit 30 days back there is no change to tell. Of what
    is measured, only the commits of the newest one's cards count; what is exact does not depend on the card.
    """
    newest = commits[-1]
    numbers = [commit for commit in commits if commit.runs]
    comparable = [commit for commit in numbers if metric.is_exact or commit.cards & numbers[-1].cards]
    value, since = _level(newest), since_ms(newest.date_ms)
    against = None
    if changes and numbers[changes[-1].index].date_ms >= since:
        last = changes[-1]
        against = Reference(change=last.magnitude, commit_id=numbers[last.index].commit_id, is_step=True)
    elif value is not None:
        older = next((commit for commit in reversed(comparable) if commit.date_ms <= since), None)
        if older is not None:
            against = moved_since(value, median(run.value for run in older.runs), older.commit_id)
    return summary(
        sparkline=[_level(commit) for commit in commits[-SPARKLINE_COMMITS:]], against=against, metric=metric,
        numbers=len(comparable), newest_failed=newest.failed,
    )  # fmt: skip


def since_ms(newest_ms: int) -> int:
    """The end of what is old beside a commit of that date."""
    return newest_ms - RECENT_DAYS * _DAY_MS


def moved_since(value: float, before: float, commit_id: int) -> Reference | None:
    """The newest value beside that of an old commit."""
    return Reference(change=value / before - 1, commit_id=commit_id, is_step=False) if before else None


def summary(
    *, sparkline: Sequence[float | None], against: Reference | None, metric: Metric, numbers: int,
    newest_failed: bool,
) -> Summary:  # fmt: skip
    """The newest value, which ends the sparkline, and what it is compared with; `numbers`: the commits that tell."""
    value = sparkline[-1]
    enough = _ENOUGH_IF_EXACT if metric.is_exact else _ENOUGH_COMMITS
    verdict = Verdict.UNCHANGED if numbers >= enough else Verdict.INCONCLUSIVE
    if against is not None and against.is_step:
        verdict = Verdict.REGRESSED if metric.is_worse(against.change) else Verdict.IMPROVED
    if value is None:
        verdict = Verdict.INVALID if newest_failed else Verdict.MISSING
    return Summary(
        value=value, change=against.change if against else None,
        change_commit_id=against.commit_id if against else None,
        change_is_step=against is not None and against.is_step, sparkline=tuple(sparkline), verdict=verdict,
    )  # fmt: skip


def _level(commit: CommitValues) -> float | None:
    return median(run.value for run in commit.runs) if commit.runs else None
