"""A machine that sits in one of two states for a while: levels below, a hidden Markov chain on top."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warpwatch.dashboard.statistics.level_path import Floats, LevelGrid, LevelPath
from warpwatch.dashboard.statistics.median import median
from warpwatch.dashboard.statistics.reading import NoiseKind, Reading

_FEWEST_JUMPS = 4
_FEWEST_RETURNS = 3
_SHARE_OF_RETURNS = 0.4
_ALIKE = 1.0  # noise scales by which a jump there and a jump back may differ
_FIRST_STAY = 8.0  # values
_ROUNDS = 3
_LONGEST = 3000  # values; beyond, the chain costs more time than it is worth


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
    if height is None or count > _LONGEST:
        return None
    grid, chain = first.grid, _Chain(leave=(float(np.log(_FIRST_STAY)),) * 2, stay=(0.0, 0.0))
    density = grid.density(first.residuals)
    for _ in range(_ROUNDS):
        edges, levels, states = _cheapest(grid, -np.log(density), height, chain, penalty)
        residuals = grid.places - levels - height * states
        chain = _chain(states)
        if min(states.sum(), count - states.sum()) > 3:
            height += round(median(residuals[states == 1]) - median(residuals[states == 0]))
        density = grid.density(residuals)
    moves = np.diff(states)
    chain_cost = (
        int((moves == 1).sum()) * chain.leave[0] + int((moves == -1).sum()) * chain.leave[1]
        + int((states == 0).sum()) * chain.stay[0] + int((states == 1).sum()) * chain.stay[1]
    )  # fmt: skip
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
    ]  # fmt: skip
    leave = tuple(
        float(np.log(1 - p) - np.log(p)) for p in chances
    )  # beside the price of staying, which all values pay
    stay = tuple(float(-np.log(1 - p)) for p in chances)
    return _Chain(leave=(leave[0], leave[1]), stay=(stay[0], stay[1]))


def _cheapest(
    grid: LevelGrid, losses: Floats, height: int, chain: _Chain, penalty: float
) -> tuple[list[int], NDArray[np.int_], NDArray[np.int_]]:
    """Edges, and level and state of every value. Both states share the level; state 1 lies `height` cells above it."""
    table = losses[::-1]
    count, levels = len(grid.places), grid.levels
    rows = [grid.middle - grid.places, np.clip(grid.middle - grid.places + height, 0, len(table) - levels)]
    best = [table[at[0] : at[0] + levels].copy() for at in rows]
    best[1] += chain.leave[0]
    how = np.zeros((count, 2, levels), dtype=np.int8)  # 0 stayed, 1 changed state, 2 changed level
    origin = np.zeros((count, 2), dtype=int)  # state and level that a change of level comes from
    for t in range(1, count):
        lowest = [int(each.argmin()) for each in best]
        state = int(best[1][lowest[1]] < best[0][lowest[0]])
        origin[t] = state, lowest[state]
        jump = best[state][lowest[state]] + penalty
        arrivals = (best[1] + chain.leave[1], best[0] + chain.leave[0])
        for into in (0, 1):
            how[t, into] = best[into] > arrivals[into]
            np.minimum(best[into], arrivals[into], out=best[into])
            how[t, into][best[into] > jump] = 2
            np.minimum(best[into], jump, out=best[into])
            best[into] += table[rows[into][t] : rows[into][t] + levels]
    state = int(best[1].min() < best[0].min())
    level = int(best[state].argmin())
    path = np.empty((2, count), dtype=int)
    edges = []
    for t in range(count - 1, -1, -1):
        path[:, t] = level, state
        came = how[t, state, level]
        if came == 1:
            state = 1 - state
        elif came == 2:
            edges.append(t)
            state, level = int(origin[t, 0]), int(origin[t, 1])
    return edges[::-1], path[0], path[1]
