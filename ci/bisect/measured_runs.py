"""Runs of a series at the commits of a range, and their expected noise."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run at one commit. Values are natural logarithms, so that differences are relative changes."""

    index: int  # of the commit in the range; 0 is the good end
    value: float
    error: float = 0.0  # standard error, from the run's samples and the drift correction
    at_s: float = 0.0  # time of the run, of any clock
    controls: tuple[float, ...] = ()  # logarithms of the controls of the run, always in one order; NaN: no value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedNoise:
    """Prior of the noise between runs, from re-runs of this series and its machine."""

    sigma: float = 0.005  # relative standard deviation of one run
    df: float = 1.0  # degrees of freedom; 1 if unknown


def estimated_sigma(values: Floats, indices: NDArray[np.intp], noise: ExpectedNoise) -> float:
    """Standard deviation of one run: the prior, updated by re-runs of commits."""
    squares, df = noise.df * noise.sigma**2, noise.df
    for index in np.unique(indices):
        own = values[indices == index]
        if len(own) > 1:
            squares += float(((own - own.mean()) ** 2).sum())
            df += len(own) - 1
    return max(float(np.sqrt(squares / df)), 1e-5)


def columns(runs: Sequence[Run]) -> tuple[Floats, NDArray[np.intp], Floats]:
    """Values, commit indices and errors of the runs."""
    return (
        np.array([run.value for run in runs]),
        np.array([run.index for run in runs], dtype=np.intp),
        np.array([run.error for run in runs]),
    )
