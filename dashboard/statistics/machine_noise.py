"""Noise of a series with a short history, with the help of the other series of its machine.

A moderated variance, as in Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments" (Statistical Applications in Genetics and Molecular Biology 3:1, 2004): the typical scatter of
the machine's series of similar latency counts as `PRIOR_DF` degrees of freedom, the series' own differences are added,
and the test uses Student's t with the sum, which allows for series with more noise than the others. Smyth estimates the
degrees of freedom; here they are a constant, as a machine has dozens of series and not thousands.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..model.verdict import NoiseSource
from .noise import Noise, difference_scale, noise_scale, noise_scales

ENOUGH_ALONE = 16  # commits from which a series' own history is enough
PRIOR_DF = 6  # false alarms in about 1 % of simulated families, in none of the H200's baselines (README.md)

_SIMILAR = 4.0  # largest ratio of two latencies that are similar
_ENOUGH_PEERS = 5
_ENOUGH_DIFFERENCES = 3  # of one series, to count as a peer
_ENOUGH_COMMITS_WITHOUT_MACHINE = 8
_WORTH_OF_A_DIFFERENCE = 0.5  # degrees of freedom: neighbours share a value, and a quantile is no variance


Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another series of the same machine, environment and unit."""

    level: float  # median
    scale: float | None  # of one run, from neighbouring commits; None if too few
    is_control: bool  # not changed by commits of the project
    change: float = math.nan  # log ratio between the compared commits, the machine's drift subtracted


def peer(
    levels: Sequence[float], *, is_control: bool, span: tuple[int, int] | None = None, change: float = math.nan
) -> Peer:
    """A series of positive levels as a peer; unless it is a control, the largest change within `span` is left out."""
    differences = neighbour_differences(levels, None if is_control else span)
    scale = difference_scale(differences) if len(differences) >= _ENOUGH_DIFFERENCES else None
    return Peer(level=median(levels), scale=scale, is_control=is_control, change=change)


def neighbour_differences(levels: Sequence[float], span: tuple[int, int] | None = None) -> tuple[float, ...]:
    """Differences of the logarithms of neighbouring positive levels.

    The largest between the two positions of `span`, the compared commits, is left out: it may be the change.
    """
    logs = np.log(np.asarray(levels, dtype=float))
    steps = np.diff(logs)
    if span is not None and span[0] != span[1]:
        first, last = min(span), max(span)
        steps = np.delete(steps, first + int(np.argmax(np.abs(steps[first:last]))))
    return tuple(float(step) for step in steps)


class Peers(Generic[Key]):
    """The series of one machine, environment and unit of time."""

    def __init__(self, peers: Mapping[Key, Peer]) -> None:
        self._place = {key: place for place, key in enumerate(peers)}
        self._level = np.array([peer.level for peer in peers.values()])
        self._scale = np.array([math.nan if peer.scale is None else peer.scale for peer in peers.values()])
        self._is_control = np.array([peer.is_control for peer in peers.values()], dtype=bool)
        self._change = np.array([peer.change for peer in peers.values()])

    def scale(self, key: Key, level: float) -> float | None:
        """Typical scatter between runs of the other series of similar latency; None with fewer than five.

        The median of their scales, or the scatter of their controls' changes between the two commits if that is larger.
        Only controls are used if there are five.
        """
        is_similar = np.maximum(self._level, level) <= _SIMILAR * np.minimum(self._level, level)
        if key in self._place:
            is_similar[self._place[key]] = False
        controls = is_similar & self._is_control
        scales = self._scale[controls if np.count_nonzero(controls) >= _ENOUGH_PEERS else is_similar]
        scales, changes = scales[~np.isnan(scales)], self._change[controls]
        changes = changes[~np.isnan(changes)]
        estimates = [float(np.median(scales))] if len(scales) >= _ENOUGH_PEERS else []
        if len(changes) >= _ENOUGH_PEERS:
            estimates.append(difference_scale(changes.tolist()))
        return max(estimates, default=None)


def history_noise(levels: Sequence[float], machine: float | None, span: tuple[int, int] | None = None) -> Noise | None:
    """Noise of one run of a series, from its history and, up to 15 commits, the machine's scale."""
    if not levels or min(levels) <= 0:
        return None
    if len(levels) >= ENOUGH_ALONE:
        return Noise(scale=noise_scale(np.log(np.asarray(levels))), source=NoiseSource.HISTORY)
    own = neighbour_differences(levels, span)
    if machine is None:
        enough = len(levels) >= _ENOUGH_COMMITS_WITHOUT_MACHINE and own
        return Noise(scale=difference_scale(own), source=NoiseSource.HISTORY) if enough else None
    weight = _WORTH_OF_A_DIFFERENCE * len(own)
    square = PRIOR_DF * machine**2 + (weight * difference_scale(own) ** 2 if own else 0.0)
    return Noise(
        scale=math.sqrt(square / (PRIOR_DF + weight)),
        source=NoiseSource.HISTORY if weight > PRIOR_DF else NoiseSource.MACHINE,
        df=PRIOR_DF + int(weight),
    )


def long_noises(levels: Mapping[str, Sequence[float] | NDArray[np.float64]]) -> dict[str, Noise]:
    """`history_noise` of all long and positive histories, vectorised over those of equal length."""
    by_length: dict[int, list[str]] = {}
    for key, history in levels.items():
        if len(history) >= ENOUGH_ALONE:
            by_length.setdefault(len(history), []).append(key)
    noises: dict[str, Noise] = {}
    for length, keys in by_length.items():
        table = np.concatenate([levels[key] for key in keys]).reshape(-1, length)
        positive = np.flatnonzero(table.min(axis=1) > 0)
        scales = noise_scales(np.log(table[positive])).tolist()
        for row, scale in zip(positive.tolist(), scales, strict=True):
            noises[keys[row]] = Noise(scale=scale, source=NoiseSource.HISTORY)
    return noises
