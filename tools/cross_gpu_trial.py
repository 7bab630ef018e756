"""Accuracy of cross-GPU changes, on simulated GPUs and kernels.

    python -m tools.cross_gpu_trial

A second GPU shifts all kernels by some per cent and each by its own amount, with heavy tails and outliers. The commits
change some of the kernels. Printed: coverage of the intervals, share of changes found, share of false ones among those
reported.
"""

import math

import click
import numpy as np
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.cross_gpu import FEWEST, cross_gpu_changes

_KERNELS, _CHANGED, _ROUNDS = 300, 40, 500


@click.command()
@click.option("--seed", default=1, show_default=True)
def main(seed: int) -> None:
    """Print a line for each number of baselines and size of change."""
    dice = np.random.default_rng(seed)
    for controls in (FEWEST, 120, 475):
        for percent in (-3, -6, -12, -30):
            own = np.where(np.arange(_KERNELS) < _CHANGED, math.log1p(percent / 100), 0.0)
            covered = found = false = 0.0
            for _ in range(_ROUNDS):
                shifts = gpu_shifts(dice, _KERNELS + controls)
                changes = cross_gpu_changes((own + shifts[:_KERNELS]).tolist(), shifts[_KERNELS:].tolist())
                covered += sum(
                    change.ci_low <= math.expm1(real) <= change.ci_high
                    for change, real in zip(changes, own, strict=True)
                )
                is_significant = [change.is_significant for change in changes]
                found += sum(is_significant[:_CHANGED])
                false += sum(is_significant[_CHANGED:]) / max(1, sum(is_significant))
            click.echo(
                f"{controls} baselines, {_CHANGED} of {_KERNELS} kernels {percent:+} %: the interval holds"
                f" {covered / _ROUNDS / _KERNELS:.1%}, found {found / _ROUNDS / _CHANGED:.0%},"
                f" false among those reported {false / _ROUNDS:.1%}"
            )


def gpu_shifts(dice: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Log ratios of kernels between two GPUs: scatter of 0.8 % with the tails of t3, and one in 50 by 8 %."""
    return dice.normal(0, 0.01) + 0.008 * dice.standard_t(3, count) + np.where(dice.random(count) < 0.02, 0.08, 0.0)


if __name__ == "__main__":
    main()
