"""Steps in a history that several GPUs of one model measured, on values from which the effects of sessions are taken.

`gpu_effects.py` estimates what unchanged code shows between two sessions. The chain of these estimates makes the values
of all sessions comparable: each is expressed as the newest session would have measured it. An adjusted value scatters
by what a GPU and a run do to this series alone (`gpu_spread.py`), and the chain's own uncertainty adds up with its
length. Steps are where neighbouring sessions differ significantly, and where the means of several sessions do.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.quantities import relative_change
from ..model.verdict import ChangeKind
from .changepoint import Adjusted, Changepoint, Detection, credible_set, find_changes
from .distributions import SIGNIFICANT_Q, critical_value, t_p_value
from .episodes import Episode
from .level_path import Floats, Ints

_LONG = 40  # commits, from which the history shows its own noise, and the detector of one GPU takes over
_YOUNG = 6  # commits at its end, which that detector waits for
_P = 1e-3  # of means of several sessions, to find a step
_KEPT_P = 0.01  # to keep one after all later sessions
_LEAST_RETURN = 0.5  # share of an excursion by which the next commit returns
_TAILS = 4.0  # degrees of freedom of the likelihood of a step's position
_LEAST_SCATTER = 2e-4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionChain:
    """A series' sessions in order: a commit on a GPU, each compared with the session before.

    Columns have an entry a session. NaN, of the first session and after a break: too few references (`references`).
    """

    commits: Ints  # ids
    gpus: tuple[str | None, ...]
    levels: Floats  # positive, in the unit of the series
    deviation: Floats  # log ratio to the session before, less that of unchanged code
    variance: Floats  # of the log ratio of unchanged code
    scatter: Floats  # standard deviation of an unchanged series around it
    df: Ints  # of Student's t
    q_value: Floats  # among `family`
    family: Ints  # series of ours that both sessions measured
    references: Ints

    def __len__(self) -> int:
        return len(self.commits)

    def take(self, places: Sequence[int]) -> "SessionChain":
        columns = {name: getattr(self, name)[places] for name in _COLUMNS}
        return SessionChain(gpus=tuple(self.gpus[place] for place in places), **columns)

    @property
    def adjusted(self) -> Floats:
        """Each level as the newest session of its unbroken part would have measured it, in the unit of the series."""
        logs = np.log(self.levels)
        for place in range(len(self) - 2, -1, -1):
            if not math.isnan(self.deviation[place + 1]):
                logs[place] = logs[place + 1] - self.deviation[place + 1]
        return np.exp(logs)

    @property
    def parts(self) -> list[range]:
        """Places between breaks."""
        starts = [place for place in range(len(self)) if math.isnan(self.deviation[place])]
        return [range(start, end) for start, end in zip(starts, [*starts[1:], len(self)], strict=True)]

    @property
    def starts(self) -> Ints:
        """The first session of each commit."""
        return np.flatnonzero(np.concatenate([[True], self.commits[1:] != self.commits[:-1]]))

    @property
    def broken_commits(self) -> list[int]:
        """Indices of the commits at which an unbroken part begins, but the first."""
        at = np.searchsorted(self.starts, np.flatnonzero(np.isnan(self.deviation)), side="right") - 1
        return sorted({*at.tolist()} - {0})

    @property
    def ratios(self) -> Floats:
        """Adjusted over measured level of each commit; 1 at the newest one of each unbroken part."""
        starts = self.starts
        logs = np.add.reduceat(np.log(self.adjusted / self.levels), starts) / np.diff(starts, append=len(self))
        edges = [0, *self.broken_commits, len(starts)]
        for first, end in itertools.pairwise(edges):
            logs[first:end] -= logs[end - 1]
        return np.exp(logs)

    @property
    def noise(self) -> float | None:
        """Relative scatter of one session, typically: that of two is `scatter`. None where nothing shows it."""
        known = self.scatter[~np.isnan(self.scatter)]
        return float(np.median(known)) / math.sqrt(2) if len(known) else None

    @property
    def spread(self) -> float | None:
        """GPU-to-GPU spread of the newest session: 95 % half-width of what unchanged code shows, relative."""
        if math.isnan(self.deviation[-1]):
            return None
        error = math.hypot(float(self.scatter[-1]), math.sqrt(float(self.variance[-1])))
        return relative_change(critical_value(0.05, int(self.df[-1])) * error)


_COLUMNS = (
    *("commits", "levels", "deviation", "variance", "scatter"),
    *("df", "q_value", "family", "references"),
)


def detect_across_gpus(chain: SessionChain, *, smallest_change: float, smallest_effect: float = 0.0) -> Detection:
    """Changes and transients of the adjusted values; indices count the chain's commits.

    In each unbroken part: neighbouring sessions that differ with a q of at most 0.05, and splits of the part whose
    means differ with a p of at most 0.001, by binary segmentation. A step stays with a p of at most 0.01 between the
    levels before and after it. One commit between two equal levels is a transient. Parts of 40 commits and more go
    through `find_changes`, which has a `smallest_effect`, and only what is too young for it is taken from the sessions.
    """
    changes: list[Changepoint] = []
    episodes: list[Episode] = []
    commit_of = np.searchsorted(chain.starts, np.arange(len(chain)), side="right") - 1
    for part in chain.parts:
        found = _of_part(_Part(chain.take(list(part)), smallest_change, smallest_effect))
        commits = list(dict.fromkeys(commit_of[part.start : part.stop].tolist()))
        changes += [change.among(commits) for change in found.changes]
        episodes += [episode.among(commits) for episode in found.episodes]
    return Detection(changes=tuple(changes), episodes=tuple(episodes))


class _Part:
    """An unbroken part of a chain, on logarithms."""

    def __init__(self, chain: SessionChain, smallest: float, smallest_effect: float) -> None:
        self.chain, self.smallest, self.smallest_effect = chain, smallest, smallest_effect
        self.values = np.log(chain.adjusted)
        squares = np.maximum(chain.scatter, _LEAST_SCATTER) ** 2 / 2
        ends = np.concatenate([squares[1:2], squares[1:], squares[-1:]])
        self.squares = (ends[:-1] + ends[1:]) / 2  # variance of each session
        self.places = np.arange(len(chain))
        self.is_first = np.isin(self.places, chain.starts)  # of its commit
        self.commit = np.cumsum(self.is_first) - 1

    def commits(self) -> list[tuple[int, int]]:
        """Start and end of each commit's sessions."""
        starts = self.chain.starts.tolist()
        return list(zip(starts, [*starts[1:], len(self.chain)], strict=True))

    def step(self, left: Ints, right: Ints) -> "_Step":
        """The step between two sets of sessions, by weighted means.

        All sessions of a GPU on one side count as one, unless that GPU alone measured both sides: its effect cancels.
        """
        chain = self.chain
        if len(left) == len(right) == 1 and left[0] + 1 == right[0]:
            place = int(right[0])
            error = math.hypot(float(chain.scatter[place]), math.sqrt(float(chain.variance[place])))
            return _Step(place, float(chain.deviation[place]), error, int(chain.df[place]))
        weights = np.zeros(len(chain))
        variance, counts = 0.0, []
        is_one = len({chain.gpus[place] for place in (*left.tolist(), *right.tolist())}) == 1
        for places, sign in ((left, -1.0), (right, 1.0)):
            gpus: list[object] = [place if is_one else chain.gpus[place] for place in places.tolist()]
            squares = self.squares[places] * np.array([gpus.count(gpu) for gpu in gpus])
            share = (1 / squares) / (1 / squares).sum()
            weights[places] = sign * share
            variance += float((share**2 * squares).sum())
            counts.append(len(set(gpus)))
        # An error of the chain between two sessions moves all sessions before it.
        variance += float((chain.variance[1:] * np.cumsum(weights)[:-1] ** 2).sum())
        place = int(right[0])
        df = int(chain.df[max(1, place)]) * min(counts)
        return _Step(place, float(weights @ self.values), math.sqrt(variance), df)

    def is_found(self, step: "_Step") -> bool:
        """Whether neighbouring sessions alone show it, as a comparison of their commits does."""
        q, change = self.chain.q_value[step.place], relative_change(float(self.chain.deviation[step.place]))
        return bool(q <= SIGNIFICANT_Q) and abs(change) >= self.smallest


@dataclass(frozen=True, slots=True)
class _Step:
    place: int  # first session of the new level
    shift: float
    error: float
    df: int

    @property
    def p_value(self) -> float:
        return t_p_value(abs(self.shift) / self.error, self.df)

    @property
    def magnitude(self) -> float:
        return relative_change(self.shift)


def _of_part(part: _Part) -> Detection:
    commits = part.commits()
    if len(commits) < 2:
        return Detection()
    if len(commits) < _LONG:
        kept, excursions = _without_excursions(part)
        edges = _edges(part, kept, sorted(_found(part, kept)))
        return Detection(
            changes=tuple(_changepoint(part, *each) for each in _steps(part, kept, edges)), episodes=tuple(excursions)
        )
    levels = [float(np.exp(part.values[start:end].mean())) for start, end in commits]
    whole = find_changes(levels, smallest_change=part.smallest, smallest_effect=part.smallest_effect)
    ends = [commits[change.index][0] for change in whole.changes[1:]] + [len(part.places)]
    changes = [_marked(part, change, end) for change, end in zip(whole.changes, ends, strict=False)]
    first = max([len(commits) - _LONG, *(change.index for change in changes)])
    newest = part.places[commits[first][0] :]
    edges = _edges(part, newest, sorted(_found(part, newest)))
    young = [
        _changepoint(part, *each)
        for each in _steps(part, newest, edges)
        if part.commit[each[0].place] >= len(commits) - _YOUNG
    ]
    return Detection(changes=(*changes, *young), episodes=whole.episodes)


def _without_excursions(part: _Part) -> tuple[Ints, list[Episode]]:
    """The sessions but those of commits between two equal levels, and these as transients."""
    commits, kept, found = part.commits(), np.ones(len(part.places), dtype=bool), []
    for index in range(1, len(commits) - 1):
        (start, end), (last, _) = commits[index], commits[index + 1]
        up = part.step(part.places[start - 1 : start], part.places[start : start + 1])
        if not kept[start - 1] or not part.is_found(up):
            continue
        down = part.step(part.places[end - 1 : end], part.places[last : last + 1])
        if down.p_value > _P or up.shift * down.shift > 0 or abs(down.shift) < _LEAST_RETURN * abs(up.shift):
            continue
        around = part.step(part.places[start - 1 : start], part.places[last : last + 1])
        if abs(around.shift) > (1 - _LEAST_RETURN) * abs(up.shift):
            continue
        kept[start:end] = False
        before, half = float(np.exp(part.values[start - 1])), critical_value(0.05, up.df) * up.error
        found.append(
            Episode(
                kind=ChangeKind.TRANSIENT,
                first=index,
                last=index,
                before=before,
                after=before * math.exp(up.shift),
                magnitude=up.magnitude,
                ci_low=relative_change(up.shift - half),
                ci_high=relative_change(up.shift + half),
                p_value=up.p_value,
            )
        )
    return part.places[kept], found


def _found(part: _Part, kept: Ints) -> Iterator[int]:
    """Positions in `kept` of the first sessions of new levels."""
    for position in range(1, len(kept)):
        before, place = kept[position - 1], int(kept[position])
        if part.is_first[place] and before == place - 1:
            step = part.step(kept[position - 1 : position], kept[position : position + 1])
            if part.is_found(step):
                yield position
    yield from _splits(part, kept, 0, len(kept))


def _splits(part: _Part, kept: Ints, start: int, end: int) -> Iterator[int]:
    candidates = [position for position in range(start + 1, end) if part.is_first[kept[position]]]
    steps = {position: part.step(kept[start:position], kept[position:end]) for position in candidates}
    if not steps:
        return
    best = max(steps, key=lambda position: abs(steps[position].shift) / steps[position].error)
    if steps[best].p_value <= _P and abs(steps[best].magnitude) >= part.smallest:
        yield from _splits(part, kept, start, best)
        yield best
        yield from _splits(part, kept, best, end)


def _edges(part: _Part, kept: Ints, positions: Sequence[int]) -> list[int]:
    """The positions that remain significant between the levels on both sides; the weakest is removed first."""
    edges = list(dict.fromkeys(positions))
    while edges:
        steps = {step.place: (step, edge) for step, edge in zip(_between(part, kept, edges), edges, strict=True)}
        weak, edge = max(steps.values(), key=lambda pair: (abs(pair[0].magnitude) < part.smallest, pair[0].p_value))
        if weak.p_value <= _KEPT_P and abs(weak.magnitude) >= part.smallest:
            break
        edges.remove(edge)
    return edges


def _between(part: _Part, kept: Ints, edges: Sequence[int]) -> list[_Step]:
    bounds = [0, *edges, len(kept)]
    return [
        part.step(kept[start:middle], kept[middle:end])
        for start, middle, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]


def _steps(part: _Part, kept: Ints, edges: Sequence[int]) -> list[tuple[_Step, Ints, Ints]]:
    """The steps with the sessions before and after."""
    bounds = [0, *edges, len(kept)]
    sides = [
        (kept[start:middle], kept[middle:end])
        for start, middle, end in zip(bounds, bounds[1:], bounds[2:], strict=False)
    ]
    return [(part.step(*each), *each) for each in sides]


def _changepoint(part: _Part, step: _Step, left: Ints, right: Ints) -> Changepoint:
    half = critical_value(0.05, step.df) * step.error
    after = float(np.exp(np.median(part.values[right])))
    return _marked(
        part,
        Changepoint(
            index=int(part.commit[step.place]),
            before=after / math.exp(step.shift),
            after=after,
            magnitude=step.magnitude,
            ci_low=relative_change(step.shift - half),
            ci_high=relative_change(step.shift + half),
            p_value=step.p_value,
            p_adjusted=step.p_value,  # of each commit's own test; its run is the family
            posterior=_posterior(part, step, left, right),
        ),
        int(right[-1]) + 1,
    )


def _posterior(part: _Part, step: _Step, left: Ints, right: Ints) -> tuple[tuple[int, float], ...]:
    """95 % of the probability of the commit, by t likelihoods of the sessions around the levels on both sides."""
    if part.is_found(step):
        return ((int(part.commit[step.place]), 1.0),)
    around = np.concatenate([left, right])
    old, new = float(np.median(part.values[left])), float(np.median(part.values[right]))
    losses = [
        (_TAILS + 1) / 2 * np.log1p((part.values[around] - level) ** 2 / part.squares[around] / _TAILS)
        for level in (old, new)
    ]
    positions = [position for position in range(1, len(around)) if part.is_first[around[position]]]
    totals = np.array([losses[0][:position].sum() + losses[1][position:].sum() for position in positions])
    weights = np.exp(totals.min() - totals)
    probability = (weights / weights.sum()).tolist()
    first, last = credible_set(probability, positions.index(len(left)))
    return tuple((int(part.commit[around[positions[at]]]), probability[at]) for at in range(first, last + 1))


def _marked(part: _Part, change: Changepoint, end: int) -> Changepoint:
    """With the GPUs on both sides, those of the new level up to `end`, and the number of series it is tested among."""
    commits, chain = part.commits(), part.chain
    start, stop = commits[change.index]
    before = {chain.gpus[place] for place in range(commits[change.index - 1][0], start)}
    adjusted = Adjusted(
        is_across=not before & set(chain.gpus[start:stop]),
        gpus=len(set(chain.gpus[start:end])),
        family=max(int(chain.family[start]), 1),
    )
    return replace(change, adjusted=adjusted)
