"""Two result sets, case by case: both levels, the change between them, and whether it can be told from noise.

The statistics are those of `warpwatch check` (`statistics/comparison.py`) with what two sets can tell: no history and
no controls. Where runs were repeated they tell the noise of one, series of the same unit lending each other theirs
(`statistics/rerun_noise.py`); where they were not, the scatter of samples does, and no less than is assumed of runs.
"""

import bisect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from warpwatch.dashboard.benchstat.result_set import ResultSet
from warpwatch.dashboard.metrics import Metric, metric, metric_name, unit_of
from warpwatch.dashboard.naming import natural
from warpwatch.dashboard.statistics.comparison import Comparison, RunValue, compare, compare_exact, judge
from warpwatch.dashboard.statistics.growth import growth
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.rerun_noise import RerunScatter, rerun_noise, rerun_scatter
from warpwatch.dashboard.status_words import no_number
from warpwatch.dashboard.store.incoming import Entry, Listed, ResultFile, Value
from warpwatch.dashboard.store.queries.pairs import BESIDE_MS
from warpwatch.dashboard.store.records import Status
from warpwatch.dashboard.store.series_ids import plain
from warpwatch.dashboard.verdict import Verdict

_PEERS_EACH_WAY = 50  # in level; a set of thousands would else take a square of that


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What both sets may have measured."""

    benchmark: str
    parameters: tuple[tuple[str, str], ...]  # (name, value)
    metric: Metric
    place: tuple[str, str] | None  # machine and environment, where a set has several

    @property
    def title(self) -> str:
        """Benchmark, parameter values and place on one line."""
        values = ", ".join(value for _, value in self.parameters)
        name = f"{self.benchmark}({values})" if values else self.benchmark
        return f"{name} on {self.place[0]}, {self.place[1]}" if self.place else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One set's runs of a case. `margin` is half of the level's 95 % interval, relative; None if nothing tells it."""

    runs: tuple[RunValue, ...]
    missing: str | None  # why there is no number
    margin: float | None = None

    @property
    def level(self) -> float | None:
        """The median over runs."""
        return median(run.value for run in self.runs) if self.runs else None

    @property
    def samples(self) -> int | None:
        """How many samples all runs have together; None where one of them does not say."""
        counts = [run.sample_count for run in self.runs]
        return None if None in counts else sum(count for count in counts if count is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case, compared. INCONCLUSIVE: the change cannot be told from noise. MISSING: nothing can be compared."""

    case: Case
    a: Side
    b: Side
    comparison: Comparison | None
    verdict: Verdict
    runs_tell: bool  # whether repeated runs told the noise; else the samples inside of one run each did


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricMean:
    """Of the levels above zero that both sets have."""

    a: float
    b: float
    cases: int

    @property
    def change(self) -> float:
        """Relative, as of a case."""
        return self.b / self.a - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTable:
    """All cases of one metric, by name."""

    metric: Metric
    rows: tuple[Row, ...]

    @property
    def geometric_mean(self) -> GeometricMean | None:
        """None where the sets share fewer than two levels above zero."""
        both = [(row.a.level, row.b.level) for row in self.rows]
        logs = [(math.log(a), math.log(b)) for a, b in both if a is not None and b is not None and min(a, b) > 0]
        if len(logs) < 2:
            return None
        a, b = (math.exp(fmean(side)) for side in zip(*logs, strict=True))
        return GeometricMean(a=a, b=b, cases=len(logs))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSets:
    """Two result sets beside each other."""

    a: ResultSet
    b: ResultSet
    tables: tuple[MetricTable, ...]
    without_number: int  # cases that have one in neither set
    threshold: float

    @property
    def rows(self) -> tuple[Row, ...]:
        """Those of all tables."""
        return tuple(row for table in self.tables for row in table.rows)


_Measured = tuple[int | None, Value]  # when, what
_Sides = tuple[Sequence[_Measured], Sequence[_Measured]]


def compare_sets(a: ResultSet, b: ResultSet, *, threshold: float, search: str = "") -> ComparedSets:
    """The cases that either set has, a table a metric; only those whose title holds `search`, letter case aside.

    All comparisons are one family (Holm): if nothing changed, the chance that anything is called changed is 1 %.
    `threshold` is the smallest relative change that matters; it decides how many more runs a case is said to need.
    """
    listed = {**b.listed, **a.listed}
    several = any(len({_place(run) for run in each.runs}) > 1 for each in (a, b))
    of_a, of_b = (_cases(each, listed, several) for each in (a, b))
    wanted = [case for case in dict.fromkeys([*of_a, *of_b]) if search.lower() in case.title.lower()]
    sides = {case: (of_a.get(case, ()), of_b.get(case, ())) for case in wanted}
    found = {case: both for case, both in sides.items() if any(map(_numbers, both))}
    noises = _noises(found)
    compared = [_compare(case, both, noises.get(case), threshold) for case, both in found.items()]
    verdicts = judge(compared, [case.metric.better for case in found], threshold=0.0)
    rows = [
        Row(
            case=case, a=_side(both[0], comparison), b=_side(both[1], comparison), comparison=comparison,
            verdict=verdict, runs_tell=_runs_tell(both, noises.get(case)),
        )
        for (case, both), comparison, verdict in zip(found.items(), compared, verdicts, strict=True)
    ]  # fmt: skip
    rows.sort(key=lambda row: natural(row.case.title))
    metrics = dict.fromkeys(case.metric for case in found)
    return ComparedSets(
        a=a, b=b, threshold=threshold, without_number=len(sides) - len(found),
        tables=tuple(MetricTable(metric=m, rows=tuple(row for row in rows if row.case.metric == m)) for m in metrics),
    )  # fmt: skip


def _place(run: ResultFile) -> tuple[str, str]:
    return run.machine or "a machine without a name", run.environment


def _cases(given: ResultSet, listed: Mapping[str, Listed], places: bool) -> dict[Case, list[_Measured]]:
    found: dict[Case, list[_Measured]] = {}
    for run in given.runs:
        place = _place(run) if places else None
        for entry in run.entries:
            known = run.listed.get(entry.benchmark) or listed.get(entry.benchmark) or Listed()
            for case, value in _values(entry, known, place):
                found.setdefault(case, []).append((entry.started_ms, value))
    return found


def _values(entry: Entry, listed: Listed, place: tuple[str, str] | None) -> Iterator[tuple[Case, Value]]:
    kind = metric_name(entry.benchmark, listed.kind)
    for value in entry.values:
        names = listed.parameter_names
        if len(names) != len(value.parameters):
            names = tuple(f"parameter {number}" for number in range(1, len(value.parameters) + 1))
        case = Case(
            benchmark=entry.benchmark,
            parameters=tuple(zip(names, plain(value.parameters), strict=True)),
            metric=metric(kind, unit_of(entry.benchmark, listed.unit, value.parameters)),
            place=place,
        )
        yield case, value


def _noises(found: Mapping[Case, _Sides]) -> dict[Case, Noise]:
    """What the repeated runs of both sets tell of one run, those of its like helping."""
    own: dict[Case, RerunScatter] = {}
    like: dict[tuple[object, ...], list[tuple[float, Case]]] = {}
    for case, sides in found.items():
        scatter = rerun_scatter([[run.value for run in _numbers(side)] for side in sides])
        if scatter is not None:
            own[case] = scatter
            like.setdefault(_like(case), []).append((scatter.level, case))
    for told in like.values():
        told.sort(key=lambda each: each[0])
    noises = {}
    for case, sides in found.items():
        told = like.get(_like(case), [])
        values = [run.value for side in sides for run in _numbers(side)]
        if told and values and min(values) > 0:
            place = bisect.bisect_left(told, median(values), key=lambda each: each[0])
            near = told[max(place - _PEERS_EACH_WAY, 0) : place + _PEERS_EACH_WAY]
            noise = rerun_noise(median(values), own.get(case), [own[other] for _, other in near if other is not case])
            if noise is not None:
                noises[case] = noise
    return noises


def _like(case: Case) -> tuple[object, ...]:
    return case.place, case.metric.unit, case.metric.noise_family


def _numbers(side: Sequence[_Measured]) -> tuple[RunValue, ...]:
    return tuple(
        RunValue(value=value.value, q25=value.q25, q75=value.q75, sample_count=value.sample_count)
        for _, value in side
        if value.status is Status.OK and value.value is not None
    )


def _compare(case: Case, sides: _Sides, noise: Noise | None, threshold: float) -> Comparison | None:
    before, after = map(_numbers, sides)
    if not before or not after:
        return None
    if case.metric.is_exact and (certain := compare_exact(before, after)) is not None:
        return certain
    return compare(
        before, after, history_noise=None, rerun_noise=noise, beside=_beside(sides), threshold=threshold
    )  # fmt: skip


def _runs_tell(sides: _Sides, noise: Noise | None) -> bool:
    return min(len(_numbers(side)) for side in sides) > 1 or (noise is not None and _beside(sides))


def _beside(sides: _Sides) -> bool:
    """Whether each run of either set was taken within two hours of one of the other."""
    times = [[started for started, value in side if value.status is Status.OK] for side in sides]
    return all(
        moment is not None and any(other is not None and abs(moment - other) <= BESIDE_MS for other in others)
        for own, others in (times, times[::-1])
        for moment in own
    )


def _side(measured: Sequence[_Measured], comparison: Comparison | None) -> Side:
    runs = _numbers(measured)
    missing = None
    if not runs:
        without = [value for _, value in measured]
        missing = no_number(without[-1].status, without[-1].reason) if without else "not measured"
    return Side(runs=runs, missing=missing, margin=_margin(comparison, len(runs)) if comparison and runs else None)


def _margin(comparison: Comparison, runs: int) -> float:
    """From the noise of one run and as many standard errors as the change's own interval has."""
    if comparison.noise == 0:
        return 0.0
    error = comparison.noise * math.sqrt(1 / comparison.base_runs + 1 / comparison.head_runs)
    reach = (math.log1p(comparison.high) - math.log1p(comparison.low)) / 2 / error
    return growth(reach * comparison.noise / math.sqrt(runs))
