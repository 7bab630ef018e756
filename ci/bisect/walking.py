"""How well each reading of a bisect's runs fits, on a machine that walks: errors of runs beside each other go together.

Generalised least squares with a level for each stretch between steps; levels and the noise's variance are integrated
out. Noise is normal here: tails and a walk together have no closed form, and a run that lies off its like is measured
again before a commit is named.
"""

import math

import numpy as np
from numpy.typing import NDArray

from warpwatch.ci.bisect.runs import ExpectedNoise, Floats
from warpwatch.ci.bisect.standing import Fit
from warpwatch.ci.bisect.wander import World


class WalkingFits:
    """Fits of one world's runs, whose commits are `where` among the measured ones."""

    def __init__(
        self, world: World, where: NDArray[np.intp], inside: Floats, count: int, noise: ExpectedNoise, width: float
    ) -> None:  # fmt: skip
        """`inside` are the runs' own errors in variances of a run, `width` the range that a level may lie in."""
        covariance = np.diag(1 + inside) + world.covariance
        inverse = np.linalg.inv(covariance)
        at = np.equal.outer(where, np.arange(count)).astype(float)  # runs x measured commits
        self._products = np.zeros((count + 1, count + 1))
        self._products[1:, 1:] = (at.T @ inverse @ at).cumsum(axis=0).cumsum(axis=1)
        self._sums = np.concatenate([[0.0], (at.T @ inverse @ world.values).cumsum()])
        self._squares = float(world.values @ inverse @ world.values)
        self._runs, self._noise, self._width = len(where), noise, width
        self._determinant = float(np.linalg.slogdet(covariance)[1])
        self._count = count

    def of(self, gaps: NDArray[np.intp]) -> Fit:
        """Steps lie in these gaps, a row for each reading."""
        rows, steps = gaps.shape
        edges = np.column_stack([np.zeros(rows, np.intp), gaps, np.full(rows, self._count)])
        low, high = edges[:, :-1], edges[:, 1:]
        total = self._products
        normal = (
            total[high[:, :, None], high[:, None, :]] - total[low[:, :, None], high[:, None, :]]
            - total[high[:, :, None], low[:, None, :]] + total[low[:, :, None], low[:, None, :]]
        )  # fmt: skip
        right = self._sums[high] - self._sums[low]
        inverse = np.linalg.inv(normal)
        mean = np.einsum("rab,rb->ra", inverse, right)
        levels = steps + 1
        half = (self._runs - levels + self._noise.freedom) / 2
        rest = np.maximum(self._squares - (mean * right).sum(axis=1), 0.0) + self._noise.freedom * self._noise.scale**2
        evidence = (
            -0.5 * (self._determinant + np.linalg.slogdet(normal)[1]) - levels * math.log(self._width)
            + math.lgamma(half) + levels / 2 * math.log(2 * math.pi) - half * np.log(rest / 2)
        )  # fmt: skip
        of_a_run = rest / (2 * half)
        variance = np.diagonal(inverse, axis1=1, axis2=2) * of_a_run[:, None]
        return Fit(log_evidence=evidence, mean=mean, variance=variance, scale=np.sqrt(of_a_run))
