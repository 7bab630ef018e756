"""`warpbench repeatability FILE...`: how well separate runs of one commit agree, as a table.

What a detector of changes has to see through is not the scatter within a run but that between runs: the sample standard
deviation (ddof 1) of the runs' values over their mean, one for each workload × implementation.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHORT_S = 10e-6
_LIMIT, _SHORT_LIMIT = 0.005, 0.015  # what this suite sets itself
_WORST = 5


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's options."""
    command = commands.add_parser("repeatability", help="how well asv result files of one commit agree")
    command.add_argument("files", nargs="+", type=Path, metavar="FILE", help="asv's result files, plain or .gz")
    command.add_argument("--metric", default="latency", help="of track_<metric>; default: %(default)s")
    command.set_defaults(run=run, parser=command)


def run(arguments: argparse.Namespace) -> None:
    """Print the table as Markdown."""
    try:
        print(table([read_run(file, f"track_{arguments.metric}") for file in arguments.files]))
    except ValueError as error:
        arguments.parser.error(str(error))


def table(runs: Sequence[Mapping[Series, float]]) -> str:
    """Rows of long and short calls, then the least repeatable ones, then those left out because a run lacks them."""
    found = agreements(runs)
    long = [agreement for agreement in found if agreement.mean > _SHORT_S]
    short = [agreement for agreement in found if agreement.mean <= _SHORT_S]
    lines = [
        f"| {len(runs)} runs | combinations | median | 95 % of them within | largest | share within the limit |",
        "|---|---|---|---|---|---|",
        _row("above 10 µs", long, _LIMIT),
        _row("10 µs and below", short, _SHORT_LIMIT),
        "",
        "The least repeatable:",
        "",
        "| workload | implementation | mean | variation |",
        "|---|---|---|---|",
    ]
    for agreement in found[:_WORST]:
        series = agreement.series
        lines.append(
            f"| {series.workload} | {series.implementation} | {agreement.mean * 1e6:.2f} µs "
            f"| {agreement.variation:.2%} |"
        )
    return "\n".join([*lines, *_left_out(runs)])


def _left_out(runs: Sequence[Mapping[Series, float]]) -> list[str]:
    found = absences(runs)
    if not found:
        return []
    lines = ["", "Left out:", "", "| workload | implementation | has no number in run |", "|---|---|---|"]
    return lines + [
        f"| {series.workload} | {series.implementation} | {', '.join(str(place + 1) for place in places)} |"
        for series, places in found.items()
    ]


def _row(name: str, found: list[Agreement], limit: float) -> str:
    if not found:
        return f"| {name} | 0 | | | | |"
    variations = sorted(agreement.variation for agreement in found)
    most = variations[max(0, -(-len(variations) * 95 // 100) - 1)]
    within = share_within(found, limit)
    return (
        f"| {name} | {len(found)} | {statistics.median(variations):.2%} | {most:.2%} | {variations[-1]:.2%} "
        f"| {within:.1%} within {limit:.1%} |"
    )


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
