"""Steps that measuring base and head again in turns has confirmed, among the changepoints of a history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.comparison import Estimate
from .changepoint import Changepoint, Detection
from .level_path import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedStep:
    """A significant difference of the further runs of two commits."""

    base: int  # ids of the commits
    head: int
    before: float
    after: float
    estimate: Estimate
    p_adjusted: float  # by Holm, among the series that were measured again


def with_confirmed(detection: Detection, steps: Sequence[ConfirmedStep], commits: Ints) -> Detection:
    """The findings with the confirmed steps; `commits` has the id of each value's commit.

    A changepoint in the same direction whose range contains the confirmed commit is the same change: the confirmed
    step, which has the narrower range, replaces it.
    """
    places = {int(commit): index for index, commit in enumerate(commits.tolist())}
    confirmed = [_changepoint(step, places) for step in steps if _is_in_order(step, places)]
    if not confirmed:
        return detection
    others = [change for change in detection.changes if not any(_is_same(change, each) for each in confirmed)]
    return replace(detection, changes=tuple(sorted([*others, *confirmed], key=lambda change: change.index)))


def _is_in_order(step: ConfirmedStep, places: Mapping[int, int]) -> bool:
    """Whether the history has both commits in this order, which another process may have changed meanwhile."""
    return step.base in places and step.head in places and places[step.base] < places[step.head]


def _is_same(change: Changepoint, confirmed: Changepoint) -> bool:
    is_alike = (change.magnitude > 0) == (confirmed.magnitude > 0)
    return change.index == confirmed.index or (is_alike and change.first <= confirmed.index <= change.last)


def _changepoint(step: ConfirmedStep, places: Mapping[int, int]) -> Changepoint:
    first, last = places[step.base] + 1, places[step.head]
    return Changepoint(
        index=last,
        first=first,
        last=last,
        before=step.before,
        after=step.after,
        magnitude=step.estimate.change,
        ci_low=step.estimate.ci_low,
        ci_high=step.estimate.ci_high,
        p_value=step.estimate.p_value,
        p_adjusted=step.p_adjusted,
        posterior=tuple((index, 1 / (last - first + 1)) for index in range(first, last + 1)),
        is_confirmed=True,
    )


def holm_p_values(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted for all of them (Holm, Scandinavian Journal of Statistics 6:65, 1979)."""
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values)
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return tuple(adjusted.tolist())
