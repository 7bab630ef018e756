"""Runs of a series at the commits of a range, and their expected noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run at one commit. Values are natural logarithms, so that differences are relative changes."""

    place: int  # of the commit in the range: 0 is the good end
    value: float
    error: float = 0.0  # standard error of the value, as the samples inside the run and the drift taken off tell it
    at_s: float = 0.0  # when it was, on any clock
    controls: tuple[float, ...] = ()  # of work that no commit changes, in the same run and in one order; NaN: none


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedNoise:
    """Prior of the noise between runs, from re-runs of this series and its machine."""

    scale: float = 0.005  # relative, of one run
    df: float = 1.0  # degrees of freedom; 1 if unknown


def guessed_scale(values: Floats, places: NDArray[np.intp], noise: ExpectedNoise) -> float:
    """Scale of one run: the prior, updated by commits that were measured again."""
    squares, df = noise.df * noise.scale**2, noise.df
    for place in np.unique(places):
        its = values[places == place]
        if len(its) > 1:
            squares += float(((its - its.mean()) ** 2).sum())
            df += len(its) - 1
    return max(float(np.sqrt(squares / df)), 1e-5)


def columns(runs: Sequence[Run]) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Values, places and errors of the runs."""
    return (
        np.array([run.value for run in runs]),
        np.array([run.place for run in runs], dtype=np.intp),
        np.array([run.error for run in runs]),
    )
