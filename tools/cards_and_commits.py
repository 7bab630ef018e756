"""How well what another card changed is told from what a commit did, on simulated cards and kernels.

    python -m tools.cards_and_commits

A second card shifts all kernels by some per cent and each by its own, with heavy tails, and some far away. The commits
change a part of the kernels. Told is how often the interval of a kernel's own change holds it, how many changes are
found, and the share of false ones among what is told.
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
            held = found = false = 0.0
            for _ in range(_ROUNDS):
                shifts = cards(dice, _KERNELS + controls)
                told = cross_gpu_changes((own + shifts[:_KERNELS]).tolist(), shifts[_KERNELS:].tolist())
                held += sum(
                    each.ci_low <= math.expm1(real) <= each.ci_high for each, real in zip(told, own, strict=True)
                )
                is_significant = [each.is_significant for each in told]
                found += sum(is_significant[:_CHANGED])
                false += sum(is_significant[_CHANGED:]) / max(1, sum(is_significant))
            click.echo(
                f"{controls} baselines, {_CHANGED} of {_KERNELS} kernels {percent:+} %: the interval holds"
                f" {held / _ROUNDS / _KERNELS:.1%}, found {found / _ROUNDS / _CHANGED:.0%},"
                f" false among what is told {false / _ROUNDS:.1%}"
            )


def cards(dice: np.random.Generator, count: int) -> NDArray[np.float64]:
    """What another card does to kernels, on logarithms: scatter of 0.8 % with the tails of t3, and one in 50 by 8 %."""
    return dice.normal(0, 0.01) + 0.008 * dice.standard_t(3, count) + np.where(dice.random(count) < 0.02, 0.08, 0.0)


if __name__ == "__main__":
    main()
