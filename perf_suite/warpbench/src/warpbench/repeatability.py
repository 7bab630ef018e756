"""How well separate runs of one commit agree: the coefficient of variation between runs. No torch here.

What a detector of changes has to see through is not the scatter within a run but that between runs. It is the sample
standard deviation (ddof 1) of the runs' values over their mean, one for each workload × implementation.
"""

import gzip
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Series:
    """What asv calls one benchmark at one combination of parameters."""

    benchmark: str
    workload: str
    implementation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One series over several runs."""

    series: Series
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return statistics.fmean(self.values)

    @property
    def variation(self) -> float:
        """Coefficient of variation: 0.005 is half a per cent."""
        return statistics.stdev(self.values) / self.mean


def agreements(runs: Sequence[Mapping[Series, float]]) -> list[Agreement]:
    """The series that all runs have, the least repeatable first. Raises ValueError for fewer than two runs."""
    if len(runs) < 2:
        raise ValueError(f"repeatability wants two runs at least, of the same commit; there are {len(runs)}")
    shared = [series for series in runs[0] if all(series in run for run in runs)]
    found = [Agreement(series=series, values=tuple(run[series] for run in runs)) for series in shared]
    return sorted(found, key=lambda agreement: -agreement.variation)


def absences(runs: Sequence[Mapping[Series, float]]) -> dict[Series, tuple[int, ...]]:
    """The series that only some runs have, each with the places in `runs` of those that lack it."""
    known = dict.fromkeys(series for run in runs for series in run)
    lacking = {series: tuple(place for place, run in enumerate(runs) if series not in run) for series in known}
    return {series: places for series, places in lacking.items() if places}


def share_within(agreements: Iterable[Agreement], limit: float) -> float:
    """The share of series whose variation is no larger than `limit`; NaN for none."""
    within = [agreement.variation <= limit for agreement in agreements]
    return sum(within) / len(within) if within else math.nan


def read_run(file: Path, method: str) -> dict[Series, float]:
    """The numbers of one asv result file, plain or gzipped, of all benchmarks whose method is called `method`.

    Raises ValueError, naming the file, if asv did not write it.
    """
    try:
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        result = json.loads(text)
        columns, rows = result["result_columns"], result["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is no result file of asv ({error})") from error
    found = {}
    for benchmark, row in rows.items():
        if benchmark.rpartition(".")[2] != method:
            continue
        cells = dict(zip(columns, row, strict=False))
        for parameters, value in zip(itertools.product(*cells["params"]), cells["result"] or (), strict=False):
            if len(parameters) == 2 and value is not None and not math.isnan(value):
                workload, implementation = (parameter.strip("'") for parameter in parameters)
                found[Series(benchmark, workload, implementation)] = value
    return found
