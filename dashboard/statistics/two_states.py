"""A machine that switches between two states: levels, and a hidden Markov chain."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .level_path import Floats, LevelGrid, LevelPath
from .noise import median
from .segmentation import NoiseKind, Segmentation

_FEWEST_JUMPS = 4
_FEWEST_RETURNS = 3
_SHARE_OF_RETURNS = 0.4
_ALIKE = 1.0  # noise scales by which a jump and its return may differ
_FIRST_STAY = 8.0  # values
_ROUNDS = 3
_LONGEST = 3000  # values, to limit time
_LARGEST = 1_500_000  # values times levels, to limit memory


@dataclass(frozen=True, slots=True)
class _Chain:
    """Costs in nats of leaving each state, relative to staying, and of staying one value longer."""

    leave: tuple[float, float]
    stay: tuple[float, float]


def two_states(segmentation: Segmentation, scale: float, penalty: float) -> Segmentation | None:
    """Segmentation with levels and two states, if the first path jumps back and forth by about the same height.

    Viterbi's algorithm over level and state (Rabiner, "A tutorial on hidden Markov models", Proceedings of the IEEE
    77:257, 1989), offset, chain and noise density estimated in turn.
    """
    first, values = segmentation.first_path, segmentation.values
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
    return Segmentation(
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
    """Distance of the states, in cells: the median jump that the next one reverses."""
    jumps = np.diff(path.levels).astype(float)
    if len(jumps) < _FEWEST_JUMPS:
        return None
    jump, back = jumps[:-1], jumps[1:]
    alike = np.abs(np.abs(jump) - np.abs(back)) * path.grid.cell < _ALIKE * scale
    returns = np.abs(jump[(jump * back < 0) & alike])
    if len(returns) < max(_FEWEST_RETURNS, _SHARE_OF_RETURNS * len(jumps)):
        return None
    return round(median(returns))


def _chain(states: NDArray[np.int_]) -> _Chain:
    """Transition costs estimated from the states, with one move and one stay added."""
    moves = np.diff(states)
    leaving = [
        (int((moves == sign).sum()) + 1) / (int((states == state).sum()) + 2) for state, sign in ((0, 1), (1, -1))
    ]
    leave = tuple(float(np.log(1 - p) - np.log(p)) for p in leaving)  # relative to staying, which all values cost
    stay = tuple(float(-np.log(1 - p)) for p in leaving)
    return _Chain(leave=(leave[0], leave[1]), stay=(stay[0], stay[1]))


def _cheapest(
    grid: LevelGrid, losses: Floats, height: int, chain: _Chain, penalty: float
) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """Edges, and level and state of every value; state 1 lies `height` cells above the level."""
    windows = sliding_window_view(losses[::-1], grid.levels)
    at = grid.middle - grid.places
    both = [windows[at], windows[np.clip(at + height, 0, len(windows) - 1)]]
    costs = np.concatenate(both, axis=1)  # (value, levels in state 0 and then in state 1); becomes the cost of paths
    levels = grid.levels
    costs[0, levels:] += chain.leave[0]
    jumps = np.empty(len(costs) - 1)  # cost of a path that changes its level after the value
    kept = np.empty(2 * levels)
    for index, (before, here) in enumerate(itertools.pairwise(costs)):
        jumps[index] = jump = before[before.argmin()] + penalty
        np.add(before[levels:], chain.leave[1], out=kept[:levels])
        np.add(before[:levels], chain.leave[0], out=kept[levels:])
        np.minimum(kept, jump, out=kept)
        np.minimum(kept, before, out=kept)
        here += kept
    return _backwards(costs.reshape(len(costs), 2, levels), jumps, chain)


def _backwards(costs: Floats, jumps: Floats, chain: _Chain) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """The optimal path, traced back from its end from one move to the previous one."""
    state, level = (int(index) for index in np.unravel_index(costs[-1].argmin(), costs[-1].shape))
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
            state, level = (int(index) for index in np.unravel_index(costs[start - 1].argmin(), costs[0].shape))
        else:
            state = 1 - state
        end = start
    return edges[::-1], levels, states
