"""A machine that sits in one of two states for a while: levels below, a hidden Markov chain on top."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .level_path import Floats, LevelGrid, LevelPath
from .noise import median
from .segmentation import NoiseKind, Reading

_FEWEST_JUMPS = 4
_FEWEST_RETURNS = 3
_SHARE_OF_RETURNS = 0.4
_ALIKE = 1.0  # noise scales by which a jump there and a jump back may differ
_FIRST_STAY = 8.0  # values
_ROUNDS = 3
_LONGEST = 3000  # values; beyond, the chain costs more time than it is worth
_LARGEST = 1_500_000  # values times levels; beyond, more memory


@dataclass(frozen=True, slots=True)
class _Chain:
    """Costs in nats of leaving state 0, of leaving state 1, and of staying one value longer in each."""

    leave: tuple[float, float]
    stay: tuple[float, float]


def two_states(reading: Reading, scale: float, penalty: float) -> Reading | None:
    """The series as levels and two states, if its first path jumps to and fro by about the same height.

    Viterbi's algorithm over level and state (Rabiner, "A tutorial on hidden Markov models", Proceedings of the IEEE
    77:257, 1989), offset, chain and noise density found in turn.
    """
    first, values = reading.first_path, reading.values
    height = _height(first, scale)
    count = len(values)
    if height is None or count > _LONGEST or count * first.grid.levels > _LARGEST:
        return None
    grid, chain = first.grid, _Chain(leave=(float(np.log(_FIRST_STAY)),) * 2, stay=(0.0, 0.0))
    density = grid.density(first.residuals)
    before = np.empty(0, dtype=int)
    for _ in range(_ROUNDS):
        edges, levels, states = _cheapest(grid, -np.log(density), height, chain, penalty)
        residuals = np.clip(grid.places - levels - height * states, -grid.middle, grid.middle)
        if np.array_equal(residuals, before):
            break
        before = residuals
        chain = _chain(states)
        if min(states.sum(), count - states.sum()) > 3:
            height += round(median(residuals[states == 1]) - median(residuals[states == 0]))
        density = grid.density(residuals)
    moves = np.diff(states)
    chain_cost = (
        int((moves == 1).sum()) * chain.leave[0]
        + int((moves == -1).sum()) * chain.leave[1]
        + int((states == 0).sum()) * chain.stay[0]
        + int((states == 1).sum()) * chain.stay[1]
    )
    return Reading(
        kind=NoiseKind.TWO_STATES,
        cost=grid.cost(density, residuals) + penalty * len(edges) + chain_cost + 1.5 * float(np.log(count)),
        edges=edges,
        values=values - height * grid.cell * states,
        excursion=np.zeros(count, dtype=bool),
        path=first,
        first_path=first,
        state=np.asarray(height * grid.cell * states, dtype=float),
    )


def _height(path: LevelPath, scale: float) -> int | None:
    """How far the states lie apart, in cells: the typical jump that the next one takes back."""
    jumps = np.diff(path.levels).astype(float)
    if len(jumps) < _FEWEST_JUMPS:
        return None
    there, back = jumps[:-1], jumps[1:]
    alike = np.abs(np.abs(there) - np.abs(back)) * path.grid.cell < _ALIKE * scale
    returns = np.abs(there[(there * back < 0) & alike])
    if len(returns) < max(_FEWEST_RETURNS, _SHARE_OF_RETURNS * len(jumps)):
        return None
    return round(median(returns))


def _chain(states: NDArray[np.int_]) -> _Chain:
    """The chain that the states show, with one move and one stay more than seen."""
    moves = np.diff(states)
    chances = [
        (int((moves == sign).sum()) + 1) / (int((states == state).sum()) + 2) for state, sign in ((0, 1), (1, -1))
    ]
    leave = tuple(
        float(np.log(1 - p) - np.log(p)) for p in chances
    )  # beside the price of staying, which all values pay
    stay = tuple(float(-np.log(1 - p)) for p in chances)
    return _Chain(leave=(leave[0], leave[1]), stay=(stay[0], stay[1]))


def _cheapest(
    grid: LevelGrid, losses: Floats, height: int, chain: _Chain, penalty: float
) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """Edges, and level and state of every value. Both states share the level; state 1 lies `height` cells above it."""
    windows = sliding_window_view(losses[::-1], grid.levels)
    at = grid.middle - grid.places
    both = [windows[at], windows[np.clip(at + height, 0, len(windows) - 1)]]
    costs = np.concatenate(both, axis=1)  # (values, state 0 at every level and then state 1), in time of the whole path
    levels = grid.levels
    costs[0, levels:] += chain.leave[0]
    jumps = np.empty(len(costs) - 1)  # what a path costs that changes its level after the value
    kept = np.empty(2 * levels)
    for place, (before, here) in enumerate(itertools.pairwise(costs)):
        jumps[place] = jump = before[before.argmin()] + penalty
        np.add(before[levels:], chain.leave[1], out=kept[:levels])
        np.add(before[:levels], chain.leave[0], out=kept[levels:])
        np.minimum(kept, jump, out=kept)
        np.minimum(kept, before, out=kept)
        here += kept
    return _backwards(costs.reshape(len(costs), 2, levels), jumps, chain)


def _backwards(costs: Floats, jumps: Floats, chain: _Chain) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """The path of the costs, from its end: between one move and the next both state and level stay."""
    state, level = (int(each) for each in np.unravel_index(costs[-1].argmin(), costs[-1].shape))
    levels, states = np.empty(len(costs), dtype=int), np.empty(len(costs), dtype=int)
    edges = []
    end = len(costs)
    while end:
        switched, jumped = costs[: end - 1, 1 - state, level] + chain.leave[1 - state], jumps[: end - 1]
        moves = np.flatnonzero(costs[: end - 1, state, level] > np.minimum(switched, jumped))
        start = int(moves[-1]) + 1 if len(moves) else 0
        levels[start:end], states[start:end] = level, state
        if start and switched[start - 1] > jumped[start - 1]:
            edges.append(start)
            state, level = (int(each) for each in np.unravel_index(costs[start - 1].argmin(), costs[0].shape))
        else:
            state = 1 - state
        end = start
    return edges[::-1], levels, states
