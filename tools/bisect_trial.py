"""Accuracy, calibration and cost of bisects, with recorded noise.

`python -m tools.bisect_trial perf_suite/trials/repeatability-h200/*.json.gz` plants a change at a random one of 64
commits and bisects, many times. The deviation of a run is that of a run of a recorded series, as in gate_trial.py, with
additions by `WORLDS`. The bisect does not know the noise beforehand. For comparison: git bisect with the median of
three runs of each commit, and one run of every commit, split by least squares.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
from numpy.random import Generator

from tools.gate_trial import Recorded, recorded
from warpwatch.ci.bisect.bisect_loop import Conclusion, SearchSettings, Suspects, search
from warpwatch.ci.bisect.run_likelihood import ExpectedNoise, Run
from warpwatch.dashboard.statistics.comparison import RunValue, sample_error

_ALIKE = 20  # series of the most similar latency, from which the scatter is drawn
_BUILD_S, _RUN_S = 60.0, 30.0
_CONTROLS = 4
_CHANGES = (0.03, 0.1)
_BINS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.995, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Machine and commits of a trial, besides the recorded scatter."""

    name: str
    fastest_s: float = 0.0  # of the series used
    slowest_s: float = math.inf
    scatter: float = 1.0  # times the recorded one
    wild: float = 0.0  # share of outliers of 2 to 10 %
    walk: float = 0.0  # standard deviation of the machine's step from run to run
    state: float = 0.0  # distance of two states of the machine, which it leaves with probability 0.1 a run
    controls: bool = False  # whether controls are measured in the same runs
    broken: float = 0.0  # share of commits that do not build
    second: float = 0.0  # another change anywhere, relative to the planted one
    index: int | None = None  # position of the change; None: random


WORLDS = (
    World(name="as recorded"),
    World(name="launches below 10 µs", slowest_s=1e-5),
    World(name="kernels above 100 µs", fastest_s=1e-4),
    World(name="five times the scatter", scatter=5.0),
    World(name="one run in 20 lies 2 to 10 % off", wild=0.05),
    World(name="the machine walks, 0.2 % a run", walk=0.002),
    World(name="the same, with controls", walk=0.002, controls=True),
    World(name="the machine walks, 1 % a run", walk=0.01),
    World(name="the same, with controls", walk=0.01, controls=True),
    World(name="two states of the machine, 1 % apart", state=0.01),
    World(name="the same, with controls", state=0.01, controls=True),
    World(name="controls, and nothing that moves them", controls=True),
    World(name="a quarter of the commits does not build", broken=0.25),
    World(name="another change of half the size", second=0.5),
    World(name="an improvement of that size too", second=-0.5),
    World(name="at the first commit", index=1),
    World(name="at the last commit", index=64),
)


@dataclass(slots=True, kw_only=True)
class SimulatedBench:
    """Commits with recorded scatter, and a simulated clock."""

    pool: Sequence[Recorded]
    levels: Sequence[float]  # log, of each commit
    broken: frozenset[int]
    world: World
    rng: Generator
    seconds: float = 0.0
    _center: int = 0
    _walk: float = 0.0
    _state: bool = False
    _built: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._center = int(self.rng.integers(len(self.pool)))

    def measure(self, index: int) -> Run | None:
        """Simulate a run; None if the commit does not build."""
        self.seconds += self.cost_s(index)
        if index in self.broken:
            return None
        self._built.add(index)
        world, rng = self.world, self.rng
        self._walk += world.walk * rng.standard_normal()
        self._state ^= bool(rng.random() < 0.1)
        machine = self._walk + world.state * self._state
        off, error = self._off()
        if rng.random() < world.wild:
            off += rng.choice([-1, 1]) * rng.uniform(0.02, 0.1)
        controls = tuple(machine + self._off()[0] for _ in range(_CONTROLS)) if world.controls else ()
        value = self.levels[index] + machine + world.scatter * off
        return Run(index=index, value=value, error=error, at_s=self.seconds, controls=controls)

    def cost_s(self, index: int) -> float:
        """Seconds of a run, and of the build if it is the first."""
        return _RUN_S + (0.0 if index in self._built else _BUILD_S)

    def _off(self) -> tuple[float, float]:
        first = min(max(self._center - _ALIKE // 2, 0), max(len(self.pool) - _ALIKE - 1, 0))
        near = self.pool[int(self.rng.integers(first, min(first + _ALIKE + 1, len(self.pool))))]
        run = int(self.rng.integers(len(near.off)))
        q25, q75, count = near.spread[run]
        return near.off[run], sample_error(RunValue(value=1.0, q25=q25, q75=q75, sample_count=count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Results of the bisects of one world."""

    tries: int
    right: int  # named the commit, or a range of unbuildable neighbours with it
    wrong: int
    undecided: int
    stated: float  # mean confidence
    runs: float  # mean
    most_runs: int
    minutes: float  # mean, of the simulated clock
    halving: int  # right ones of git bisect
    halving_runs: float
    every_commit: int  # right ones with one run of every commit
    predictions: tuple[tuple[float, bool], ...]  # before each run: probability of the likeliest, whether it was right


def trial(
    pool: Sequence[Recorded],
    world: World,
    change: float,
    *,
    tries: int,
    seed: int,
    commits: int = 64,
    confidence: float = SearchSettings().confidence,
) -> Tally:
    """Bisect `tries` times with the change at a random commit."""
    fitting = [series for series in pool if world.fastest_s <= series.level <= world.slowest_s]
    right = wrong = halving = every_commit = most = 0
    stated: list[float] = []
    runs: list[int] = []
    minutes: list[float] = []
    halving_runs: list[int] = []
    settings = SearchSettings(confidence=confidence, budget_s=math.inf)
    predictions: list[tuple[float, bool]] = []
    for number in range(tries):
        rng = np.random.default_rng([seed, number])
        bench, culprit = _bench(fitting, world, change, commits, rng)

        def progress(now: object, suspects: Suspects, count: int, culprit: int = culprit) -> None:
            predictions.append((suspects.probability, suspects.first <= culprit <= suspects.last))

        done = search(bench, lambda: np.ones(commits), ExpectedNoise(), settings, clock=lambda: 0.0, progress=progress)
        if (
            done.conclusion in (Conclusion.FOUND, Conclusion.RANGE)
            and done.suspects is not None
            and done.suspects.probability >= confidence
        ):
            hit = done.suspects.first <= culprit <= done.suspects.last
            right, wrong = right + hit, wrong + (not hit)
            stated.append(done.suspects.probability)
        runs.append(len(done.runs))
        minutes.append(bench.seconds / 60)
        again, target = _bench(fitting, world, change, commits, np.random.default_rng([seed, number]))
        (first, last), count = _halved(again, commits)
        halving += first <= target <= last
        halving_runs.append(count)
        again, target = _bench(fitting, world, change, commits, np.random.default_rng([seed, number]))
        first, last = _every_commit(again, commits)
        every_commit += first <= target <= last
        most = max(most, len(done.runs))
    return Tally(
        tries=tries,
        right=right,
        wrong=wrong,
        undecided=tries - right - wrong,
        stated=float(np.mean(stated)) if stated else math.nan,
        runs=float(np.mean(runs)),
        most_runs=most,
        minutes=float(np.mean(minutes)),
        halving=halving,
        halving_runs=float(np.mean(halving_runs)),
        every_commit=every_commit,
        predictions=tuple(predictions),
    )


def _bench(
    pool: Sequence[Recorded], world: World, change: float, commits: int, rng: Generator
) -> tuple[SimulatedBench, int]:
    culprit = world.index or int(rng.integers(1, commits + 1))
    levels = np.zeros(commits + 1)
    levels[culprit:] += math.log1p(change)
    if world.second:
        other = int(rng.choice([index for index in range(1, commits + 1) if index != culprit]))
        levels[other:] += world.second * math.log1p(change)
    broken = frozenset(int(index) for index in range(1, commits) if rng.random() < world.broken)
    return SimulatedBench(pool=pool, levels=levels.tolist(), broken=broken, world=world, rng=rng), culprit


def _halved(bench: SimulatedBench, commits: int, repeats: int = 3) -> tuple[tuple[int, int], int]:
    """git bisect at the middle of the ends' medians: first and last named commit, and number of runs."""
    runs = 0

    def level(index: int) -> float | None:
        nonlocal runs
        values = [run.value for _ in range(repeats) if (run := bench.measure(index)) is not None]
        runs += len(values)
        return float(np.median(values)) if values else None

    good, bad = level(0), level(commits)
    assert good is not None
    assert bad is not None
    middle, up = (good + bad) / 2, bad > good
    low, high, skipped = 0, commits, set[int]()
    while left := [index for index in range(low + 1, high) if index not in skipped]:
        index = left[len(left) // 2]
        value = level(index)
        if value is None:
            skipped.add(index)
        elif (value > middle) == up:
            high = index
        else:
            low = index
    return (low + 1, high), runs


def _every_commit(bench: SimulatedBench, commits: int) -> tuple[int, int]:
    """First and last commit that may have caused the best step of one run of every commit, by least squares."""
    runs = [(index, run.value) for index in range(commits + 1) if (run := bench.measure(index)) is not None]
    values = np.array([value for _, value in runs])
    costs = [
        float(((values[:n] - values[:n].mean()) ** 2).sum() + ((values[n:] - values[n:].mean()) ** 2).sum())
        for n in range(1, len(values))
    ]
    after = 1 + int(np.argmin(costs))
    return runs[after - 1][0] + 1, runs[after][0]


def calibration(predictions: Sequence[tuple[float, bool]]) -> list[tuple[str, int, float, float]]:
    """Name, count, mean probability and share of right predictions, by bin of probability."""
    stated = np.array([probability for probability, _ in predictions])
    was_right = np.array([right for _, right in predictions])
    rows = []
    for low, high in itertools.pairwise(_BINS):
        members = (stated >= low) & ((stated < high) | (high == 1.0))
        if members.any():
            rows.append(
                (
                    f"{low:.1%} to {high:.1%}",
                    int(members.sum()),
                    float(stated[members].mean()),
                    float(was_right[members].mean()),
                )
            )
    return rows


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tries", default=100, show_default=True, help="Bisects of each row and change.")
@click.option("--confidence", default=SearchSettings().confidence, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(files: tuple[Path, ...], tries: int, confidence: float, seed: int) -> None:
    """Simulate bisects with recorded noise, and print their results."""
    pool = recorded(files)
    click.echo(f"{len(pool)} recorded series; 64 commits, {tries} bisects a row, until {confidence:.0%} sure\n")
    changes = " and ".join(f"{change:.0%}" for change in _CHANGES)
    click.echo(f"Each cell: {changes} planted\n")
    click.echo(
        "| noise | right | wrong | undecided | stated | runs | at most | minutes "
        "| git bisect, 3 runs each: right, runs | one run of each commit: right of 65 runs |"
    )
    click.echo("|---|---|---|---|---|---|---|---|---|---|")
    predictions: list[tuple[float, bool]] = []
    for world in WORLDS:
        rows = [trial(pool, world, change, tries=tries, seed=seed, confidence=confidence) for change in _CHANGES]
        predictions += [prediction for row in rows for prediction in row.predictions]
        cells = [
            [f"{row.right}" for row in rows],
            [f"{row.wrong}" for row in rows],
            [f"{row.undecided}" for row in rows],
            [f"{row.stated:.1%}" for row in rows],
            [f"{row.runs:.1f}" for row in rows],
            [f"{row.most_runs}" for row in rows],
            [f"{row.minutes:.0f}" for row in rows],
            [*(f"{row.halving}" for row in rows), f"{rows[0].halving_runs:.0f}"],
            [f"{row.every_commit}" for row in rows],
        ]
        click.echo(" | ".join([f"| {world.name}", *(", ".join(cell) for cell in cells)]) + " |")
    click.echo("\n| stated before a run | how often | mean | right |\n|---|---|---|---|")
    for name, count, mean, share in calibration(predictions):
        click.echo(f"| {name} | {count} | {mean:.1%} | {share:.1%} |")


if __name__ == "__main__":
    main()
