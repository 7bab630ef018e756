"""False alarms and power of the gate, with recorded noise.

`python -m tools.gate_trial perf_suite/trials/repeatability-h200/*.json.gz` simulates pull requests of 100 series each.
The deviation and the quartiles of each run are those of a run drawn from the 21 recorded series of the most similar
latency. So heavy tails, and the larger scatter of short launches, are as recorded; common wandering of the runs of a
machine is not. First the pull requests change nothing, then every tenth series is slower. There are no baselines,
canaries or history; the decision is `check`'s own. With `--loud 0.1` a tenth of the series, none of the slower ones,
scatter fifty times as much, which no number of runs decides. With `--disturbed` the trial is repeated with further
noise, shared by all series of a run or of each series alone: a machine that drifts (AR(1), rho 0.9, 1 %), one with two
states 3 % apart that last 3 to 10 runs, and 1 % of the runs 20 % slower.
"""

import gzip
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from warpwatch.ci.gate.gate_loop import InterimAnalysis, analysis_schedule, run_gate
from warpwatch.dashboard.analysis.compare_commits import commit_comparison, compare_pairs
from warpwatch.dashboard.importers.asv import read_result
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.schema import SeriesSchema
from warpwatch.dashboard.model.series import Commit, Series, Status
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.store.queries.comparison_pairs import Pair, Side

_ALIKE = 20  # series of the most similar latency, from which the scatter is drawn
_METHOD = "track_latency"
_LOUDER = 50.0  # times the scatter, of a loud series
_DRIFT_RHO, _DRIFT_SD = 0.9, 0.01  # of the AR(1) process, from run to run; its stationary standard deviation
_STATES_APART = 0.03  # of the slow state from the fast one, on logarithms
_SHORTEST_STAY, _LONGEST_STAY = 3, 10  # runs of either commit in one state
_OUTLIER_SHARE, _OUTLIER = 0.01, math.log(1.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Noise added to the recorded one."""

    drift: bool = False  # an AR(1) process
    states: bool = False  # such as two clock rates
    outliers: bool = False  # 1 % of the runs 20 % slower
    is_shared: bool = False

    @property
    def name(self) -> str:
        """Name in the table."""
        kinds = [word for word in ("drift", "states", "outliers") if getattr(self, word)]
        scope = "shared by all series" if self.is_shared else "of each series alone"
        return f"{' + '.join(kinds)}, {scope}" if kinds else "none"


DISTURBANCES = (
    Disturbance(),
    *(
        Disturbance(is_shared=is_shared, **dict.fromkeys(kinds, True))
        for kinds in (("drift",), ("states",), ("outliers",), ("drift", "states", "outliers"))
        for is_shared in (True, False)
    ),
)


class _Disturbed:
    """State of a disturbance from run to run."""

    def __init__(self, disturbance: Disturbance, series: int, rng: Generator) -> None:
        self._kinds, self._rng = disturbance, rng
        self._series, self._wide = series, 1 if disturbance.is_shared else series
        self._drift = rng.normal(0, _DRIFT_SD, self._wide)
        self._state = rng.integers(0, 2, self._wide)
        self._stays = rng.integers(1, _LONGEST_STAY + 1, self._wide)  # begun before the gate

    def next_run(self) -> NDArray[np.float64]:
        """Log deviation of the next run of each series."""
        rng, wide = self._rng, self._wide
        self._drift = _DRIFT_RHO * self._drift + rng.normal(0, _DRIFT_SD * math.sqrt(1 - _DRIFT_RHO**2), wide)
        over = self._stays == 0
        self._state = np.where(over, 1 - self._state, self._state)
        self._stays = np.where(over, rng.integers(_SHORTEST_STAY, _LONGEST_STAY + 1, wide), self._stays) - 1
        is_outlier = rng.random(wide) < _OUTLIER_SHARE
        off = (
            self._kinds.drift * self._drift
            + self._kinds.states * _STATES_APART * self._state
            + self._kinds.outliers * _OUTLIER * is_outlier
        )
        return np.broadcast_to(off, (self._series,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A series with several runs of one code: level, and deviation and quartiles of each run."""

    level: float
    off: tuple[float, ...]  # log deviations, corrected for the degree of freedom of the mean
    spread: tuple[tuple[float, float, int], ...]  # quartiles over the run's value, number of samples


def recorded(files: Sequence[Path]) -> tuple[Recorded, ...]:
    """The latencies that all files have, the fastest first. Raises ValueError for fewer than two files."""
    runs = [read_result(gzip.decompress(file.read_bytes()), file.name) for file in files]
    if len(runs) < 2:
        raise ValueError(f"{len(runs)} result files; the scatter needs at least two runs")
    values: dict[tuple[str, tuple[str, ...]], list[RunValue]] = {}
    for run in runs:
        for entry in run.entries:
            if entry.benchmark.endswith(f".{_METHOD}"):
                for value in entry.values:
                    if value.value:
                        run_value = RunValue(
                            value=value.value, q25=value.q25, q75=value.q75, sample_count=value.sample_count
                        )
                        values.setdefault((entry.benchmark, value.parameters), []).append(run_value)
    series = [_series(own) for own in values.values() if len(own) == len(runs)]
    return tuple(sorted(series, key=lambda one: one.level))


def _series(runs: Sequence[RunValue]) -> Recorded:
    logs = np.log([run.value for run in runs])
    off = (logs - logs.mean()) * math.sqrt(len(runs) / (len(runs) - 1))
    spread = tuple(
        ((run.q25 or run.value) / run.value, (run.q75 or run.value) / run.value, run.sample_count or 1) for run in runs
    )
    return Recorded(level=math.exp(float(logs.mean())), off=tuple(map(float, off)), spread=spread)


class PullRequest:
    """Simulated runs of base and head; the series of `slower` are so by `change`; `loud` is a share of all."""

    def __init__(
        self,
        pool: Sequence[Recorded],
        series: int,
        slower: Collection[int],
        change: float,
        rng: Generator,
        loud: float = 0.0,
        disturbance: Disturbance = DISTURBANCES[0],
    ) -> None:
        self._pool = pool
        self._rng = rng
        self._disturbed = _Disturbed(disturbance, series, rng.spawn(1)[0])
        self._indices = [int(index) for index in rng.integers(len(pool), size=series)]
        self._factor = [1 + change if number in slower else 1.0 for number in range(series)]
        self._scatter = [
            _LOUDER if number >= series * (1 - loud) and number not in slower else 1.0 for number in range(series)
        ]
        self.series = tuple(_named(number) for number in range(series))
        self._runs: tuple[dict[str, list[RunValue]], ...] = tuple(
            {one.key: [] for one in self.series} for _ in range(2)
        )

    def measure(self, is_head: bool, selected: Collection[SeriesSchema] | None) -> None:
        """Simulate one run of the selected series, or of all."""
        keys = {series.key for series in selected or self.series}
        for number, (series, off) in enumerate(zip(self.series, self._disturbed.next_run(), strict=True)):
            if series.key in keys:
                self._runs[is_head][series.key].append(self._draw(number, is_head, float(off)))

    def _draw(self, number: int, is_head: bool, off: float) -> RunValue:
        index = self._indices[number]
        first = min(max(index - _ALIKE // 2, 0), max(len(self._pool) - _ALIKE - 1, 0))
        near = self._pool[int(self._rng.integers(first, min(first + _ALIKE + 1, len(self._pool))))]
        run = int(self._rng.integers(len(near.off)))
        value = (
            self._pool[index].level
            * math.exp(near.off[run] * self._scatter[number] + off)
            * (self._factor[number] if is_head else 1.0)
        )
        q25, q75, count = near.spread[run]
        return RunValue(value=value, q25=value * q25, q75=value * q75, sample_count=count)

    @property
    def runs_a_series(self) -> float:
        """Mean number of runs of each commit, over the series."""
        return float(np.mean([len(runs) for runs in self._runs[False].values()]))

    def check(self, threshold: float, family_error: float) -> Comparison:
        """The comparison of `warpwatch check` for runs of one session."""
        rows, drifts = compare_pairs(
            [self._pair(series) for series in self.series], threshold=threshold, workloads={}, family_error=family_error
        )
        return commit_comparison("trial", _commit(0), _commit(1), rows, drifts, threshold=threshold)

    def _pair(self, series: Series) -> Pair:
        sides = [tuple(side[series.key]) for side in self._runs]
        values = [[run.value for run in side] for side in sides]
        return Pair(
            series=series,
            base=Side(runs=sides[0], status=Status.OK, reason=None),
            head=Side(runs=sides[1], status=Status.OK, reason=None),
            levels=np.array([np.median(side) for side in values]),
            commits=np.array([0, 1]),
            sides=(0, 1),
            is_one_measurement=False,
            other_gpus=None,
            same_session=True,
            reruns=tuple(tuple(side) for side in values),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Results of the gates of many pull requests."""

    pull_requests: int
    false_alarms: int  # pull requests with an unchanged series called changed
    planted: int
    found: int  # of the planted, called regressed
    called_unchanged: int  # of the planted
    open: int  # inconclusive series
    series: int
    runs: float  # of a commit, mean
    runs_a_series: float  # of a commit and series, mean


def trial(
    pool: Sequence[Recorded],
    schedule: Sequence[InterimAnalysis],
    *,
    pull_requests: int,
    series: int,
    change: float,
    threshold: float,
    seed: int,
    loud: float = 0.0,
    disturbance: Disturbance = DISTURBANCES[0],
) -> Tally:
    """Gate `pull_requests`; a `change` is in every tenth series."""
    rng = np.random.default_rng(seed)
    slower = range(0, series, 10) if change else range(0)
    names = {_named(number).key for number in slower}
    wrong = found = missed = still_open = 0
    runs: list[int] = []
    own: list[float] = []
    for _ in range(pull_requests):
        request = PullRequest(pool, series, slower, change, rng, loud, disturbance)
        done = run_gate(schedule, request.measure, partial(request.check, threshold), budget_s=math.inf)
        verdicts = {row.series.key: row.verdict for row in done.comparison.rows}
        wrong += any(v in (Verdict.REGRESSED, Verdict.IMPROVED) and key not in names for key, v in verdicts.items())
        wrong += any(verdicts[key] is Verdict.IMPROVED for key in names)
        found += sum(verdicts[key] is Verdict.REGRESSED for key in names)
        still_open += sum(verdict is Verdict.INCONCLUSIVE for verdict in verdicts.values())
        missed += sum(verdicts[key] is Verdict.UNCHANGED for key in names)
        runs.append(done.runs)
        own.append(request.runs_a_series)
    return Tally(
        pull_requests=pull_requests,
        false_alarms=wrong,
        planted=len(names) * pull_requests,
        found=found,
        called_unchanged=missed,
        open=still_open,
        series=series * pull_requests,
        runs=float(np.mean(runs)),
        runs_a_series=float(np.mean(own)),
    )


def _named(number: int) -> Series:
    return Series(
        key=f"{number:016x}",
        project="trial",
        benchmark=f"trial.Series{number}.{_METHOD}",
        parameters=(),
        metric=metric("latency", "seconds"),
        machine="recorded",
        environment="",
        workload=None,
        implementation=None,
        is_baseline=False,
        listed=True,
    )


def _commit(position: int) -> Commit:
    return Commit(
        hash=f"{position:040x}",
        date=datetime(2026, 1, 1, tzinfo=UTC),
        subject=None,
        author=None,
        position=position,
        unmeasured_before=None,
    )


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--pull-requests", default=200, show_default=True)
@click.option("--series", default=100, show_default=True, help="Of a pull request.")
@click.option("--runs", default=12, show_default=True, help="Of each commit, at most.")
@click.option("--threshold", default=0.02, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--loud", default=0.0, show_default=True, help="Share of the series that scatter fifty times as much.")
@click.option("--disturbed", is_flag=True, help="Also with each kind of noise that the recording does not have.")
def main(
    files: tuple[Path, ...],
    pull_requests: int,
    series: int,
    runs: int,
    threshold: float,
    seed: int,
    loud: float,
    disturbed: bool,
) -> None:
    """Simulate gates with recorded noise, and print their results."""
    pool = recorded(files)
    click.echo(
        f"{len(pool)} recorded series; {pull_requests} pull requests of {series} series, threshold {threshold:.0%}"
    )
    click.echo(
        "| noise added | planted | pull requests with a false alarm | found | called unchanged | still open "
        "| runs of each commit | of a series |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    for disturbance in DISTURBANCES if disturbed else DISTURBANCES[:1]:
        for change in (0.0, 0.03, 0.05):
            tally = trial(
                pool,
                analysis_schedule(runs),
                pull_requests=pull_requests,
                series=series,
                change=change,
                threshold=threshold,
                seed=seed,
                loud=loud,
                disturbance=disturbance,
            )
            planted = f"{change:.0%} in every tenth" if change else "nothing"
            cells = (
                disturbance.name,
                planted,
                f"{tally.false_alarms} of {tally.pull_requests}",
                _share(tally.found, tally),
                _share(tally.called_unchanged, tally),
                f"{tally.open / tally.series:.2%}",
                f"{tally.runs:.1f}",
                f"{tally.runs_a_series:.1f}",
            )
            click.echo(f"| {' | '.join(cells)} |")


def _share(count: int, tally: Tally) -> str:
    return f"{count} of {tally.planted} ({count / tally.planted:.1%})" if tally.planted else ""


if __name__ == "__main__":
    main()
