"""The best path of levels through a series, under a noise density that the series itself shows.

Values and levels lie on a grid of 0.15 noise scales. A path pays the negative log density of every residual and a fixed
penalty for every change of level; dynamic programming finds the cheapest (Potts functional; Rigaill, "A pruned dynamic
programming algorithm", 2010, on a grid). Path and density are found in turn: the density is a kernel estimate of the
residuals, shrunk to Student's t of four degrees of freedom while they are few. Location is then estimated about as well
as if the density were known (Bickel, "On adaptive estimation", Annals of Statistics 10:647, 1982): skewed, bimodal or
rounded noise, which least squares pays for dearly, costs little.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.median import median

Floats = NDArray[np.float64]
Places = NDArray[np.int_]
Span = tuple[int, int]

_CELL = 0.15  # noise scales
_MOST_LEVELS = 4000
_FAR = 400  # cells beyond the levels; what lies further is an outlier like any other
_BLOCK = 4  # values between the places where the path may change at first; the places are then made exact
_TAILS = 4.0  # degrees of freedom of the density assumed of a series that has told nothing yet
_WORTH_OF_ASSUMPTION = 20.0  # values that the assumed density counts for
_BANDWIDTH = 0.35  # of the kernel at 100 values and more, in noise scales
_STRAY = 0.02  # share of values allowed to come from nowhere
_ROUNDS = 3


class LevelGrid:
    """Values in cells of a grid, and the densities of what remains of them at a level."""

    def __init__(self, values: Floats, scale: float) -> None:
        edge = len(values) // 100  # one in a hundred on each side makes no levels
        ordered = np.partition(values, (edge, len(values) - 1 - edge))
        low, high = float(ordered[edge]), float(ordered[-1 - edge])
        self._step = max(_CELL, (high - low) / _MOST_LEVELS / scale)  # of the grid, in noise scales
        self.cell = self._step * scale
        self.low = low
        self.levels = math.ceil((high - low) / self.cell) + 1
        self.places = np.minimum(np.maximum(self.place(values), -_FAR), self.levels + _FAR)
        self.middle = self.levels + _FAR  # of a density: residual 0
        self.assumed, self._stray = _assumed(self.middle, self._step)

    def place(self, values: Floats) -> Places:
        """The cells of values, counted from the lowest level."""
        return np.rint((values - self.low) / self.cell).astype(int)

    def density(self, residuals: Places) -> Floats:
        """Of residuals in cells: probability by cell, residual 0 at `middle`."""
        count = len(residuals)
        shown = np.bincount(residuals + self.middle, minlength=2 * self.middle + 1)
        kernel = _kernel(max(1, round(_BANDWIDTH / self._step * max(1.0, (100 / count) ** 0.2))))
        smooth = np.convolve(shown, kernel, "same")
        mixed = (smooth + _WORTH_OF_ASSUMPTION * self.assumed) / (count + _WORTH_OF_ASSUMPTION)
        return np.asarray((1 - _STRAY) * mixed + _STRAY * self._stray)

    def cost(self, density: Floats, residuals: Places) -> float:
        """Negative log likelihood of residuals in cells, in nats; per unit of the values, so that grids compare."""
        return math.log(self.cell) * len(residuals) - float(np.log(density[residuals + self.middle]).sum())

    def surprise(self, density: Floats, values: Floats, level: int) -> Floats:
        """Negative log densities of values at a level, in nats."""
        off = np.minimum(np.maximum(self.place(values) - level, -self.middle), self.middle)
        return -np.log(density[off + self.middle])


@dataclass(frozen=True, slots=True)
class LevelPath:
    """Levels (in cells of the grid) between edges, and what they cost."""

    grid: LevelGrid
    density: Floats
    edges: list[int]  # first value of each level but the first
    levels: list[int]
    cost: float  # nats

    @property
    def residuals(self) -> Places:
        """Of every value, in cells."""
        lengths = [end - start for start, end in spans(self.edges, len(self.grid.places))]
        return np.asarray(self.grid.places - np.repeat(self.levels, lengths))


def level_path(values: Floats, scale: float, penalty: float, *, one_level: bool = False) -> LevelPath:
    """The path and the noise density that fit `values` best. `scale`: of the noise; `penalty`: of a change, in nats.

    Starts from the assumed density; with `one_level` from that of all values around their median, which finds noise
    of several modes where the other start finds changes. Of the two the cheaper is the better.
    """
    grid = LevelGrid(values, scale)
    density = grid.density(grid.places - int(median(grid.places))) if one_level else grid.assumed
    edges, levels = cheapest(grid, -np.log(density), penalty)
    for _ in range((4 if one_level else _ROUNDS) - 1):
        density = grid.density(LevelPath(grid, density, edges, levels, 0.0).residuals)
        before = edges
        edges, levels = cheapest(grid, -np.log(density), penalty)
        if edges == before:
            break
    residuals = LevelPath(grid, density, edges, levels, 0.0).residuals
    density = grid.density(residuals)
    return LevelPath(grid, density, edges, levels, grid.cost(density, residuals) + penalty * len(edges))


def spans(edges: Sequence[int], length: int) -> list[Span]:
    """Starts and ends of the stretches between edges."""
    return list(zip([0, *edges], [*edges, length], strict=True))


def cheapest(grid: LevelGrid, losses: Floats, penalty: float) -> tuple[list[int], list[int]]:
    """Edges and levels of the cheapest path. `losses`: by residual in cells, 0 at the grid's middle."""
    count = len(grid.places)
    blocks = _block_losses(grid, losses)
    changed = np.zeros(blocks.shape, dtype=bool)
    came_from = np.zeros(len(blocks), dtype=int)
    best = blocks[0].copy()
    for block in range(1, len(blocks)):
        cheapest = int(best.argmin())
        jump = best[cheapest] + penalty
        came_from[block] = cheapest
        np.greater(best, jump, out=changed[block])
        np.minimum(best, jump, out=best)
        best += blocks[block]
    level = int(best.argmin())
    levels, edges = [level], []
    for block in range(len(blocks) - 1, 0, -1):
        if changed[block, level]:
            edges.append(block * _BLOCK)
            level = int(came_from[block])
            levels.append(level)
    edges.reverse()
    levels.reverse()
    for i, edge in enumerate(edges):
        first = max(edge - 2 * _BLOCK, (edges[i - 1] if i else 0) + 1)
        last = min(edge + 2 * _BLOCK, (edges[i + 1] if i + 1 < len(edges) else count) - 1)
        values = grid.middle + grid.places[first:last]
        gain = losses[values - levels[i]] - losses[values - levels[i + 1]]
        edges[i] = first + int(np.concatenate([[0.0], np.cumsum(gain)]).argmin())
    return edges, levels


def _block_losses(grid: LevelGrid, losses: Floats) -> Floats:
    """The losses at every level, (blocks, levels), summed over each block's values; the last block may be short.

    A value's losses at all levels are a window of the reversed table, so that none is computed twice.
    """
    windows = sliding_window_view(losses[::-1], grid.levels)
    at = grid.middle - grid.places
    whole = len(at) // _BLOCK * _BLOCK
    blocks = windows[at[0:whole:_BLOCK]]
    for place in range(1, _BLOCK):
        blocks += windows[at[place:whole:_BLOCK]]
    if whole < len(at):
        blocks = np.vstack([blocks, windows[at[whole:]].sum(axis=0)])
    return np.asarray(blocks)


@lru_cache(maxsize=128)
def _assumed(middle: int, step: float) -> tuple[Floats, Floats]:
    """The density of a series that has told nothing yet, and that of strays, so many cells to either side."""
    z = np.arange(-middle, middle + 1) * step
    return _share((1 + z * z / _TAILS) ** (-(_TAILS + 1) / 2)), _share(1 / (1 + (z / 3) ** 2))


@lru_cache(maxsize=64)
def _kernel(bandwidth: int) -> Floats:
    reach = np.arange(-3 * bandwidth, 3 * bandwidth + 1)
    kernel = np.exp(-0.5 * (reach / bandwidth) ** 2)
    return np.asarray(kernel / kernel.sum())


def _share(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())
