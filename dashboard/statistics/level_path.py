"""Optimal path of levels through a series, with the noise density estimated from the series.

Values and levels lie on a grid of 0.15 noise scales. A path costs the negative log density of every residual and a
fixed penalty for every change of level; dynamic programming finds the optimum (Potts functional; Rigaill, "A pruned
dynamic programming algorithm", 2010, on a grid). Path and density are estimated in turn: the density is a kernel
estimate of the residuals, shrunk to Student's t with four degrees of freedom while they are few. Location is then
estimated about as well as with a known density (Bickel, "On adaptive estimation", Annals of Statistics 10:647, 1982),
also in skewed, bimodal or rounded noise, for which least squares is inefficient.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .noise import median

Floats = NDArray[np.float64]
Ints = NDArray[np.int_]
Span = tuple[int, int]

_CELL = 0.15  # noise scales
_MOST_LEVELS = 4000
_FAR = 400  # cells beyond the levels; farther outliers are clipped
_BLOCK = 4  # values between possible changes of the path at first; edges are then made exact
_CALM = 0.8  # nats a block above its own best level; if one level costs less, a change is unlikely
_TAILS = 4.0  # degrees of freedom of the prior density
_PRIOR_WEIGHT = 20.0  # values that the prior density counts for
_BANDWIDTH = 0.35  # of the kernel at 100 values and more, in noise scales
_STRAY = 0.02  # share of values from a wide background density
_ROUNDS = 3


class LevelGrid:
    """Values in cells of a grid, and densities of their residuals."""

    def __init__(self, values: Floats, scale: float) -> None:
        edge = len(values) // 100  # 1 % on each side is outside the levels
        ordered = np.partition(values, (edge, len(values) - 1 - edge))
        low, high = float(ordered[edge]), float(ordered[-1 - edge])
        self._step = max(_CELL, (high - low) / _MOST_LEVELS / scale)  # of the grid, in noise scales
        self.cell = self._step * scale
        self.low = low
        self.levels = math.ceil((high - low) / self.cell) + 1
        self.places = np.minimum(np.maximum(self.place(values), -_FAR), self.levels + _FAR)
        self.middle = self.levels + _FAR  # of a density: residual 0
        self.prior, self._stray = _prior_densities(self.middle, self._step)
        self.blocks = self._in_blocks()

    def _in_blocks(self) -> list[Ints]:
        """Start of each value's window in the reversed table of losses, by its index in its block.

        (half, side): side 0 holds the blocks of the first half, side 1 those of the second half in reverse order. The
        padding of the last blocks starts behind the table.
        """
        count = len(self.places)
        half = -(-count // (2 * _BLOCK))
        at = np.empty(2 * half * _BLOCK, dtype=int)
        at[:count] = self.middle - self.places
        at[count:] = 2 * self.middle + 1
        blocks = at.reshape(2, half, _BLOCK)
        return [np.array([blocks[0, :, n], blocks[1, ::-1, n]]).T.copy() for n in range(_BLOCK)]

    def place(self, values: Floats) -> Ints:
        """Cells of values, counted from the lowest level."""
        return np.rint((values - self.low) / self.cell).astype(int)

    def residuals(self, edges: Sequence[int], levels: Sequence[int]) -> Ints:
        """Residuals of every value, in cells."""
        lengths = [end - start for start, end in spans(edges, len(self.places))]
        return np.asarray(self.places - np.array(levels).repeat(lengths))

    def density(self, residuals: Ints) -> Floats:
        """Density of residuals in cells: probability by cell, residual 0 at `middle`."""
        count = len(residuals)
        counts = np.bincount(residuals + self.middle, minlength=2 * self.middle + 1)
        kernel = _kernel(max(1, round(_BANDWIDTH / self._step * max(1.0, (100 / count) ** 0.2))))
        smooth = np.convolve(counts, kernel, "same")
        mixed = (smooth + _PRIOR_WEIGHT * self.prior) / (count + _PRIOR_WEIGHT)
        return np.asarray((1 - _STRAY) * mixed + _STRAY * self._stray)

    def cost(self, density: Floats, residuals: Ints) -> float:
        """Negative log likelihood of residuals in cells, in nats; per unit of the values, so grids are comparable."""
        return math.log(self.cell) * len(residuals) - float(np.log(density[residuals + self.middle]).sum())

    def surprise(self, density: Floats, values: Floats, *levels: int) -> Floats:
        """Negative log densities of values, in nats, (level, value)."""
        off = np.minimum(np.maximum(np.subtract.outer(levels, self.place(values)), -self.middle), self.middle)
        return -np.log(density[self.middle - off])


@dataclass(frozen=True, slots=True)
class LevelPath:
    """Levels (in cells of the grid) between edges, and their cost."""

    grid: LevelGrid
    density: Floats
    edges: list[int]  # first value of each level but the first
    levels: list[int]
    cost: float  # nats

    @property
    def residuals(self) -> Ints:
        """Residuals of every value, in cells."""
        return self.grid.residuals(self.edges, self.levels)


def level_path(
    values: Floats, scale: float, penalty: float, *, one_level: bool = False, grid: LevelGrid | None = None
) -> LevelPath:
    """The path and the noise density that fit `values` best. `scale`: of the noise; `penalty`: of a change, in nats.

    Starts from the prior density; with `one_level` from the density around the median, which finds multimodal noise
    where the other start finds changes. The cheaper of both is better; they may share a `grid`.
    """
    grid = grid or LevelGrid(values, scale)
    density = grid.density(grid.places - int(median(grid.places))) if one_level else grid.prior
    path = cheapest(grid, -np.log(density), penalty)
    for _ in range((4 if one_level else _ROUNDS) - 1):
        residuals = grid.residuals(*path)
        density = grid.density(residuals)
        before, path = path, cheapest(grid, -np.log(density), penalty, may_be_one_level=not path[0])
        if path[0] == before[0]:
            break
    edges, levels = path
    if path != before:
        residuals = grid.residuals(edges, levels)
        density = grid.density(residuals)
    return LevelPath(grid, density, edges, levels, grid.cost(density, residuals) + penalty * len(edges))


def spans(edges: Sequence[int], length: int) -> list[Span]:
    """Starts and ends of the segments between edges."""
    return list(zip([0, *edges], [*edges, length], strict=True))


def stretches(mask: NDArray[np.bool_]) -> list[Span]:
    """Starts and ends of the runs of true values."""
    inside = mask.nonzero()[0]
    if not len(inside):
        return []
    breaks = (inside[1:] - inside[:-1] > 1).nonzero()[0]
    starts, last = [0, *(breaks + 1).tolist()], [*breaks.tolist(), len(inside) - 1]
    return [(int(inside[start]), int(inside[end]) + 1) for start, end in zip(starts, last, strict=True)]


def cheapest(
    grid: LevelGrid, losses: Floats, penalty: float, *, may_be_one_level: bool = True
) -> tuple[list[int], list[int]]:
    """Edges and levels of the cheapest path. `losses`: by residual in cells, 0 at the grid's middle.

    Grows from both ends at once towards the middle, to halve the number of NumPy calls. `may_be_one_level`: first test
    whether a single level is optimal, which is faster if it is.
    """
    costs = _block_losses(grid, losses)
    if may_be_one_level and (level := _level_of_all(costs, penalty)) is not None:
        return [], [level]
    jumps = _grow(costs, penalty)
    half, (left, right) = len(costs), costs[-1]
    both = left + right
    low, high, one = int(left.argmin()), int(right.argmin()), int(both.argmin())
    middle = left[low] + right[high] + penalty < both[one]
    early, before = _outwards(costs[:, 0], jumps[:, 0], low if middle else one)
    late, after = _outwards(costs[:, 1], jumps[:, 1], high if middle else one)
    blocks = [*reversed(early), *([half] if middle else []), *(2 * half - each for each in late)]
    levels = [*reversed(before), *(after if middle else after[1:])]
    return _exact_edges(grid, losses, [block * _BLOCK for block in blocks], levels), levels


def _exact_edges(grid: LevelGrid, losses: Floats, edges: list[int], levels: list[int]) -> list[int]:
    """Edges between blocks, each moved by up to two blocks to the best value."""
    for i, edge in enumerate(edges):
        first = max(edge - 2 * _BLOCK, (edges[i - 1] if i else 0) + 1)
        last = min(edge + 2 * _BLOCK, (edges[i + 1] if i + 1 < len(edges) else len(grid.places)) - 1)
        values = grid.middle + grid.places[first:last]
        edges[i] = first + split(losses[values - levels[i]] - losses[values - levels[i + 1]])
    return edges


def split(gain: Floats) -> int:
    """Number of values of the level before; `gain`: how much more each costs there than at the level after."""
    so_far = gain.cumsum()
    if len(so_far) == 0:
        return 0
    lowest = int(so_far.argmin())
    return lowest + 1 if so_far[lowest] < 0 else 0


def _block_losses(grid: LevelGrid, losses: Floats) -> Floats:
    """Losses at every level, summed over each block's values: (half, side, levels).

    Padding costs nothing. A value's losses at all levels are a window of the reversed table, so none is computed twice.
    """
    table = np.zeros(len(losses) + grid.levels)
    table[: len(losses)] = losses[::-1]
    windows = np.ndarray((len(losses) + 1, grid.levels), dtype=float, buffer=table, strides=(8, 8))
    first, *others = grid.blocks
    costs = windows[first]
    for each in others:
        costs += windows[each]
    return np.asarray(costs)


def _level_of_all(costs: Floats, penalty: float) -> int | None:
    """The level of a path without changes, if that is the cheapest: where no one change pays, no more do."""
    total = costs.sum(axis=(0, 1))
    level = int(total.argmin())
    if len(costs) < 2 or total[level] - costs.min(axis=2).sum() > _CALM * 2 * len(costs):
        return None  # it may be, but looking would mostly be in vain
    so_far = costs.cumsum(axis=0)
    lowest = so_far.min(axis=2)
    changed = np.minimum.accumulate(lowest[:-1, :, None] + penalty - so_far[:-1], axis=0) + so_far[1:]
    if (changed.min(axis=2) < lowest[1:]).any():
        return None
    alone, together = so_far[-1], np.minimum(so_far[-1], changed[-1])
    least = min(together.sum(axis=0).min(), lowest[-1].sum() + penalty)
    return level if least >= alone.sum(axis=0).min() else None


def _grow(costs: Floats, penalty: float) -> Floats:
    """Turn costs of blocks into costs of the cheapest paths to them, in place; return those of a change after each."""
    half, _, width = costs.shape
    jumps: list[float] = []
    kept = np.empty(2 * width)
    change_left, change_right, minimum, add = kept[:width].fill, kept[width:].fill, np.minimum, np.add
    flat = costs.reshape(half, -1)
    before = flat[0]
    for here, left, right in zip(flat[1:], costs[:, 0], costs[:, 1], strict=False):
        jump_left, jump_right = left.item(left.argmin()) + penalty, right.item(right.argmin()) + penalty
        jumps += jump_left, jump_right
        change_left(jump_left)
        change_right(jump_right)
        minimum(before, kept, out=kept)
        add(here, kept, out=here)
        before = here
    return np.array(jumps).reshape(-1, 2)


def _outwards(costs: Floats, jumps: Floats, level: int) -> tuple[list[int], list[int]]:
    """Blocks at which a path changes, and its levels, from the middle outwards."""
    blocks, levels = [], [level]
    changes = (costs[:-1, level] > jumps).nonzero()[0]
    while len(changes):
        last = changes[-1]
        blocks.append(int(last) + 1)
        levels.append(int(costs[last].argmin()))
        changes = (costs[:last, levels[-1]] > jumps[:last]).nonzero()[0]
    return blocks, levels


def _prior_densities(middle: int, step: float) -> tuple[Floats, Floats]:
    """Prior density and background density, `middle` cells to either side."""
    cells = -(-middle // _FAR) * _FAR
    inner = slice(cells - middle, cells + middle + 1)
    return _normalised(_heavy_tails(cells, step)[0][inner]), _normalised(_heavy_tails(cells, step)[1][inner])


@lru_cache(maxsize=64)
def _heavy_tails(cells: int, step: float) -> tuple[Floats, Floats]:
    """Both densities, not normalised; most series have the same step and use a slice."""
    z = np.arange(-cells, cells + 1) * step
    return (1 + z * z / _TAILS) ** (-(_TAILS + 1) / 2), 1 / (1 + (z / 3) ** 2)


@lru_cache(maxsize=64)
def _kernel(bandwidth: int) -> Floats:
    cells = np.arange(-3 * bandwidth, 3 * bandwidth + 1)
    kernel = np.exp(-0.5 * (cells / bandwidth) ** 2)
    return np.asarray(kernel / kernel.sum())


def _normalised(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())
