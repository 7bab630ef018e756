"""Summary of a series: newest value, recent change, verdict."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.metric import Metric
from ..model.verdict import Verdict
from .changepoint import Changepoint
from .level_path import Floats, Ints


def severity(ci_low: float, ci_high: float, *, machine_share: float = 0.0) -> float:
    """Bound of a change's 95 % interval that is nearest to zero, in nats; 0 if the interval contains zero.

    `machine_share`, between 0 and 1, is left out. In nats, severities of several series add up, and a doubling weighs
    as much as a half. Regressions are ranked by it.
    """
    if ci_low <= 0 <= ci_high or min(ci_low, ci_high) <= -1:
        return 0.0
    nearest = min(abs(math.log1p(ci_low)), abs(math.log1p(ci_high)))
    return nearest * (1 - min(max(machine_share, 0.0), 1.0))


RECENT_DAYS = 30
SPARKLINE_COMMITS = 40
ENOUGH_COMMITS = 4  # with a number on one GPU, for a verdict on a measured series
_ENOUGH_IF_EXACT = 2
_ENOUGH_IF_ADJUSTED = 2  # references measure how far two sessions differ

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitLevels:
    """A series by commit, in the project's order. Each array has one entry per measured commit."""

    commit_id: Ints
    date_ms: Ints
    level: Floats  # median over runs; NaN: no number
    comparable: NDArray[np.bool_]  # has a number of a GPU that also measured the newest number
    is_adjusted: bool = False  # to the newest session's GPU and software
    newest_failed: bool  # the newest commit has no number, for another reason than that it was unavailable


class GpuFacts(NamedTuple):
    """What is known of a series that several GPUs measured."""

    ratios: tuple[float | None, ...]  # GPU-adjusted over measured value of each commit with a number; None: unknown
    spread: float | None  # GPU-to-GPU: 95 % half-width of what unchanged code shows; None: too few references
    references: int  # that the newest session was compared with


class Summary(NamedTuple):
    """The newest commit of a series. The change is relative and signed."""

    value: float | None
    change: float | None
    change_commit_id: int | None  # the changepoint, or the commit compared with
    change_is_step: bool
    sparkline: tuple[float | None, ...]
    verdict: Verdict


def summarise(commits: CommitLevels, last: Changepoint | None, metric: Metric) -> Summary:
    """Summary of a series: its last step if at most 30 days older than the newest commit, else the change in 30 days.

    `last` is the last changepoint; its index counts the commits with a number. Without a commit at least 30 days old
    there is no change. Of measured quantities only the commits of the newest one's GPUs count, or those adjusted to it;
    exact quantities do not depend on the GPU.
    """
    numbers = np.flatnonzero(~np.isnan(commits.level))
    comparable = numbers if metric.is_exact else np.flatnonzero(commits.comparable)
    sparkline = tuple(None if value != value else value for value in commits.level[-SPARKLINE_COMMITS:].tolist())
    value, since_ms = sparkline[-1], int(commits.date_ms[-1]) - RECENT_DAYS * _DAY_MS
    enough = _ENOUGH_IF_EXACT if metric.is_exact else _ENOUGH_IF_ADJUSTED if commits.is_adjusted else ENOUGH_COMMITS
    verdict = Verdict.UNCHANGED if len(comparable) >= enough else Verdict.INCONCLUSIVE
    change, change_commit, is_step = None, None, False
    if last is not None and commits.date_ms[numbers[last.index]] >= since_ms:
        change, change_commit, is_step = last.magnitude, int(commits.commit_id[numbers[last.index]]), True
        verdict = Verdict.REGRESSED if metric.is_worse(change) else Verdict.IMPROVED
    elif value is not None:
        older = comparable[commits.date_ms[comparable] <= since_ms]
        if len(older) and (before := float(commits.level[older[-1]])):
            change, change_commit = value / before - 1, int(commits.commit_id[older[-1]])
    if value is None:
        verdict = Verdict.INVALID if commits.newest_failed else Verdict.MISSING
    return Summary(
        value=value,
        change=change,
        change_commit_id=change_commit,
        change_is_step=is_step,
        sparkline=sparkline,
        verdict=verdict,
    )
