"""How often `warpwatch benchstat` tells a change between runs of one commit, and one that was planted in them.

`python -m warpwatch.dashboard.trials.benchstat_splits RUN RUN RUN...` wants result files of runs of one commit, so
that no change is true. Every way to put some on one side and the rest on the other is compared, as is each run with
each other. Then a change is planted in every tenth case of one side.
"""

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from warpwatch.dashboard.benchstat.compare_sets import Row, compare_sets
from warpwatch.dashboard.benchstat.result_set import NoResultSetError, ResultSet, read_result_set
from warpwatch.dashboard.store.incoming import ResultFile, Value
from warpwatch.dashboard.store.series_ids import plain
from warpwatch.dashboard.verdict import Verdict

PLANTED = (0.02, 0.03, 0.05, 0.10)
_THRESHOLD = 0.02
_TOLD = {Verdict.REGRESSED, Verdict.IMPROVED}
_Name = tuple[str, tuple[str, ...]]  # benchmark, parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Comparisons of several splits: how many, how many were told as changes, how many had an interval within 2 %."""

    compared: int
    told: int
    settled: int


def tally(rows: Sequence[Row]) -> Tally:
    """Counts the rows that were compared."""
    moved = [(row.comparison, row.verdict) for row in rows if row.comparison is not None]
    return Tally(
        compared=len(moved),
        told=sum(verdict in _TOLD for _, verdict in moved),
        settled=sum(max(-comparison.low, comparison.high) < _THRESHOLD for comparison, _ in moved),
    )


def splits(runs: Sequence[ResultFile], sizes: Sequence[int]) -> Iterator[tuple[list[ResultFile], list[ResultFile]]]:
    """Every way to take so many runs for one side, with the rest on the other."""
    for size in sizes:
        for chosen in itertools.combinations(range(len(runs)), size):
            rest = [run for place, run in enumerate(runs) if place not in chosen]
            yield [runs[place] for place in chosen], rest


def compare_runs(a: Sequence[ResultFile], b: Sequence[ResultFile]) -> tuple[Row, ...]:
    """Two sides, as benchstat compares them."""
    sides = (ResultSet(name=name, runs=tuple(runs), listed={}, problems=()) for name, runs in (("A", a), ("B", b)))
    return compare_sets(*sides, threshold=_THRESHOLD).rows


def planted(run: ResultFile, change: float, cases: frozenset[_Name]) -> ResultFile:
    """The run with the levels of these cases changed."""
    factor = 1 + change
    return replace(
        run,
        entries=tuple(
            replace(
                entry,
                values=tuple(
                    _scaled(value, factor) if (entry.benchmark, plain(value.parameters)) in cases else value
                    for value in entry.values
                ),
            )
            for entry in run.entries
        ),
    )


def _scaled(value: Value, factor: float) -> Value:
    levels = (value.value, value.q25, value.q75)
    level, q25, q75 = (None if each is None else each * factor for each in levels)
    return replace(value, value=level, q25=q25, q75=q75)


def _name(row: Row) -> _Name:
    return row.case.benchmark, tuple(value for _, value in row.case.parameters)


def only(run: ResultFile, method: str) -> ResultFile:
    """The run's benchmarks whose method is called so."""
    return replace(run, entries=tuple(entry for entry in run.entries if entry.benchmark.endswith(f".{method}")))


def every_tenth(run: ResultFile) -> frozenset[_Name]:
    """Of the cases that have a number in the run, by name."""
    return frozenset(sorted(_name(row) for row in compare_runs([run], [run]))[::10])


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--method", default="track_latency", show_default=True, help="Only benchmarks whose method is called so.")
def main(files: Sequence[Path], method: str) -> None:
    """Tell how often benchstat is wrong, and how often it finds what is there, on runs of one commit."""
    try:
        runs = [only(run, method) for file in files for run in read_result_set(str(file), io.BytesIO()).runs]
    except NoResultSetError as error:
        raise click.ClickException(str(error)) from error
    commits = len({run.commit for run in runs})
    if commits != 1 or len(runs) < 3:
        raise click.ClickException(f"{len(runs)} runs of {commits} commits; wanted three or more of one")
    singles = [([a], [b]) for a, b in itertools.permutations(runs, 2)]
    halves = list(splits(runs, [len(runs) // 2]))
    every = list(splits(runs, range(1, len(runs) // 2 + 1)))
    _report(f"{len(every)} splits of {len(runs)} runs", [row for a, b in every for row in compare_runs(a, b)])
    _report("one run against one", [row for a, b in singles for row in compare_runs(a, b)])
    cases = every_tenth(runs[0])
    halved = f"{len(halves[0][0])} runs against {len(halves[0][1])}"
    for change, (what, sides) in itertools.product(PLANTED, ((halved, halves), ("one run against one", singles))):
        found = [row for a, b in sides for row in compare_runs(a, [planted(run, change, cases) for run in b])]
        _report(f"+{change:.0%} planted, {what}", [row for row in found if _name(row) in cases])
        _report("    beside it, nothing planted", [row for row in found if _name(row) not in cases])


def _report(what: str, rows: Sequence[Row]) -> None:
    found = tally(rows)
    click.echo(
        f"{what}: {found.told} of {found.compared} told ({found.told / found.compared:.1%}); "
        f"interval within {_THRESHOLD:.0%}: {found.settled / found.compared:.0%}"
    )


if __name__ == "__main__":
    main()
