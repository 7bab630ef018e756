"""`warpwatch bisect`: finds the commit that changed a series, and records the result."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.output import OutputFile, write
from warpwatch.dashboard.cli.store_access import CannotTellError, open_or_create_store, read_settings
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.triage_item import TriageFilter, TriageOrder, TriageState
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.bisect_results import BisectResult, Culprit, bisected_alerts, record_bisect

from ..asv_checkout import uncommitted_warnings
from ..gate.asv_runner import GateError
from ..host_lock import HostLockError
from .asv_bench import AsvBench, BenchError, patterns
from .asv_target import AsvPlace, SeriesError, asv_place
from .bisect_loop import End, SearchSettings, Suspects, search
from .bisect_report import BisectReport, as_json, as_markdown, as_table, headline, sure
from .commit_range import RangeCommit, RangeError, commit_range, suspicion
from .measured_runs import Floats
from .posterior import Posterior

_ENOUGH_BUILDS = 8  # kept by asv: both ends, and the commits around a step


def bisect_series(
    place: AsvPlace,
    series: Series,
    commits: Sequence[RangeCommit],
    paths: Sequence[str],
    wanted: SearchSettings,
    say: Callable[[str], None],
) -> BisectReport:
    """Measures until a commit is found; `paths` are the sources of the series. Raises BenchError, GateError."""
    hashes = [commit.hash for commit in commits]
    bench = AsvBench(place.runs(patterns(place.store, series)), series, hashes, built_kept=place.wheels_kept, say=say)
    known, skipped = bench.earlier()
    say(f"{series.title}, {series.metric.name}, on {series.machine}: {len(commits) - 1} commits are suspected")
    if known:
        say(f"{len(known)} runs of the last week count too")
    if place.wheels_kept < _ENOUGH_BUILDS:
        say(
            f'asv keeps the builds of {place.wheels_kept} commits: with "build_cache_size": {_ENOUGH_BUILDS} in '
            "asv.conf.json nothing is built twice"
        )
    began = time.monotonic()

    def prior() -> Floats:
        codes = queries.ran_codes(place.store, series.key, hashes)
        return suspicion(commits, wanted_paths=paths, carried=place.benchmarks, codes=codes)

    def watch(now: Posterior, suspects: Suspects, count: int) -> None:
        say(
            f"{count} runs of {len(now.measured)} commits, {(time.monotonic() - began) / 60:.1f} min: "
            f"{commits[suspects.last].hash[:8]}, {sure(suspects.chance)}"
        )

    done = search(bench, prior, bench.noise(), wanted, runs=known, skipped=skipped, watch=watch)
    return BisectReport(series=series, commits=tuple(commits), search=done, asv_output=bench.asv_output)


def record(place: AsvPlace, report: BisectReport) -> None:
    """Records a final result in the store."""
    if report.search.end is End.SPENT:
        return
    culprit, its = None, report.search.suspects
    if report.is_named and its is not None and report.first_bad is not None and report.last_good is not None:
        culprit = Culprit(commit=report.first_bad.hash, previous=report.last_good.hash, confidence=sure(its.chance))
    bisected = BisectResult(
        series=report.series.key,
        good=report.commits[0].hash,
        bad=report.commits[-1].hash,
        summary=headline(report),
        culprit=culprit,
    )
    record_bisect(place.store, place.project, bisected, now_ms=time.time_ns() // 1_000_000)


_MOST = 1000  # alerts that are considered


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The worst series of an alert, and its commit range."""

    alert: int
    series: Series
    good: str  # full hashes
    bad: str


def next_alert(store: Store, project: str, machine: str, repository: Path) -> Waiting | None:
    """The worst alert of the machine to bisect; None without any that spans several commits."""
    return next(_waiting(store, project, machine, repository), None)


def _waiting(store: Store, project: str, machine: str, repository: Path) -> Iterator[Waiting]:
    """Open and acknowledged alerts of asv's series with commits in git and no bisect yet, worst first."""
    wanted = TriageFilter(states=(TriageState.OPEN, TriageState.ACKNOWLEDGED), machine=machine, order=TriageOrder.WORST)
    found = queries.triage_items(store, project, wanted, limit=_MOST, rows=1).items
    done = bisected_alerts(store, [card.alert.id for card in found if card.alert is not None])
    for card in found:
        if card.alert is None or card.alert.id in done or card.alert.stated is not None or not card.regressions:
            continue
        worst = card.regressions[0]
        good, bad = worst.change.range_start.hash, worst.change.range_end.hash
        try:
            count = len(commit_range(repository, good, bad))
        except RangeError:
            continue
        if worst.series.is_from_asv and count > 2:
            yield Waiting(alert=card.alert.id, series=worst.series, good=good, bad=bad)


_WRITERS = {"table": as_table, "json": as_json, "markdown": as_markdown}
_NOT_REPRODUCED, _COULD_NOT_TELL = 1, 2


@click.command()
@click.argument("series", required=False)
@click.argument("good", required=False)
@click.argument("bad", required=False)
@click.option(
    "--next",
    "is_next",
    is_flag=True,
    help="In place of SERIES GOOD BAD: this machine's worst alert that spans several commits.",
)
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Of asv.conf.json; default: here.",
)
@click.option("--project", metavar="NAME", help="In the store; default: asv.conf.json's.")
@click.option("--metric", metavar="NAME", help="Where a benchmark's name leaves several: latency, time, peak memory.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="What the series is made of: who changed other files is hardly suspected.",
)
@click.option("--asv", "arguments", multiple=True, metavar="ARGUMENT", help="A further argument of asv run.")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=SearchSettings().confidence,
    show_default=True,
    help="How sure it must be of a commit.",
)
@click.option(
    "--smallest",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Ends that differ by less are not searched; default: half of a check's threshold.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    metavar="MINUTES",
    help="No run begins that would end later; the first two of each end are always made.",
)
@click.option("--format", "layout", type=click.Choice(list(_WRITERS)), default="table", show_default=True)
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
@click.option("--no-record", is_flag=True, help="Leave no note on the commit and none in alerts.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def bisect(
    series: str | None,
    good: str | None,
    bad: str | None,
    is_next: bool,
    folder: Path,
    project: str | None,
    metric: str | None,
    paths: tuple[str, ...],
    arguments: tuple[str, ...],
    confidence: float,
    smallest: float | None,
    budget: float,
    layout: str,
    output: Path | None,
    no_record: bool,
    database: str | None,
) -> None:
    """Find the commit that changed SERIES between GOOD and BAD, by building and measuring on this machine.

    SERIES is its key on the dashboard, or a regular expression that finds one "benchmark(parameters)". GOOD and BAD are
    hashes, branches or tags. Both ends are measured first; then whichever commit tells most, again and again, until one
    is named with the confidence wanted. Killed or out of time, the same command goes on with what was measured. Exit
    status: 0 a commit is named, or neighbours of which all but one do not build, or --next finds no alert to bisect; 1
    the change does not reproduce here; 2 could not tell.
    """
    if is_next == (bad is not None) or is_next == (series is not None):
        raise click.UsageError("a bisect takes SERIES GOOD BAD, or --next and none of them")
    settings = read_settings()
    wanted = SearchSettings(
        confidence=confidence, smallest=math.log1p(smallest or settings.threshold / 2), budget_s=60 * budget
    )
    store = open_or_create_store(database)
    try:
        place = asv_place(folder, project, store, arguments)
        for warning in uncommitted_warnings(place.repository, folder / place.benchmarks):
            _say(warning)
        if series is None or good is None or bad is None:
            chosen = _next(place)
            if chosen is None:
                click.echo(f"no open alert of {place.machine} waits for a bisect")
                return
            its, commits = chosen
        else:
            commits = commit_range(place.repository, place.commit(good), place.commit(bad))
            its = place.series(series, metric, measure_at=commits[-1].hash, say=_say)
        report = bisect_series(place, its, commits, paths, wanted, _say)
        analyse(store)
        if not no_record:
            record(place, report)
    except (RangeError, SeriesError, BenchError, GateError, HostLockError) as error:
        raise CannotTellError(str(error)) from error
    except KeyboardInterrupt:
        _say("Finished runs are kept: the same command continues with them.")
        raise
    finally:
        store.close()
    text = _WRITERS[layout](report)
    write(text, output)
    if not report.is_named:
        sys.exit(_NOT_REPRODUCED if report.search.end is End.NOT_REPRODUCED else _COULD_NOT_TELL)


def _next(place: AsvPlace) -> tuple[Series, tuple[RangeCommit, ...]] | None:
    waiting = next_alert(place.store, place.project, place.machine, place.repository)
    if waiting is None:
        return None
    _say(f"alert {waiting.alert}: {waiting.good[:8]} to {waiting.bad[:8]}")
    return place.series_of_key(waiting.series.key), commit_range(place.repository, waiting.good, waiting.bad)


def _say(line: str) -> None:
    click.echo(line, err=True)
