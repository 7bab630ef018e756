"""`warpwatch bisect`: finds the commit that changed a series, and records the result."""

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.cli.output import database_option, output_option, say, write
from warpwatch.dashboard.cli.store_access import CannotTellError, open_or_create_store, read_settings
from warpwatch.dashboard.model.alert import TriageFilter, TriageOrder, TriageState
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.store.bisect_results import BisectResult, Culprit, bisected_alerts, record_bisect

from ..asv_checkout import GateError, uncommitted_warnings
from ..host_lock import HostLockError
from ..options import asv_arguments_option, asv_project_option, folder_option
from .asv_target import AsvBench, AsvTarget, BenchError, SeriesError, asv_target, patterns
from .bisect_loop import Conclusion, SearchSettings, Suspects, search
from .bisect_report import BisectReport, as_json, as_table, headline, percent
from .commit_range import RangeCommit, RangeError, commit_range, prior_weights
from .posterior import Posterior
from .run_likelihood import Floats

_ENOUGH_BUILDS = 8  # cached by asv: both ends, and the commits around a step


def bisect_series(
    target: AsvTarget,
    series: Series,
    commits: Sequence[RangeCommit],
    paths: Sequence[str],
    settings: SearchSettings,
    say: Callable[[str], None],
) -> BisectReport:
    """Measures until a commit is found. `paths` are globs of the series' sources. Raises BenchError, GateError."""
    hashes = [commit.hash for commit in commits]
    bench = AsvBench(
        target.runs(patterns(target.store, series)), series, hashes, cached_builds=target.cached_builds, say=say
    )
    known, skipped = bench.earlier()
    say(f"{series.title}, {series.metric.name}, on {series.machine}: {len(commits) - 1} suspected commits")
    if known:
        say(f"{len(known)} runs of the last week count too")
    if target.cached_builds < _ENOUGH_BUILDS:
        say(
            f'asv caches the builds of {target.cached_builds} commits: with "build_cache_size": {_ENOUGH_BUILDS} in '
            "asv.conf.json no commit is built twice"
        )
    started = time.monotonic()

    def prior() -> Floats:
        code_hashes = queries.ran_codes(target.store, series.key, hashes)
        return prior_weights(commits, source_paths=paths, benchmarks_folder=target.benchmarks, code_hashes=code_hashes)

    def progress(posterior: Posterior, suspects: Suspects, count: int) -> None:
        say(
            f"{count} runs of {len(posterior.measured)} commits, {(time.monotonic() - started) / 60:.1f} min: "
            f"{commits[suspects.last].hash[:8]}, probability {percent(suspects.probability)}"
        )

    done = search(bench, prior, bench.noise(), settings, runs=known, skipped=skipped, progress=progress)
    return BisectReport(series=series, commits=tuple(commits), search=done, asv_output=bench.asv_output)


def record(target: AsvTarget, report: BisectReport) -> None:
    """Records a final result in the store."""
    if report.search.conclusion is Conclusion.BUDGET:
        return
    culprit, suspects = None, report.search.suspects
    if report.is_named and suspects is not None and report.first_bad is not None and report.last_good is not None:
        culprit = Culprit(
            commit=report.first_bad.hash, previous=report.last_good.hash, confidence=percent(suspects.probability)
        )
    bisected = BisectResult(
        series=report.series.key,
        good=report.commits[0].hash,
        bad=report.commits[-1].hash,
        summary=headline(report),
        culprit=culprit,
    )
    record_bisect(target.store, target.checkout.project, bisected, now_ms=time.time_ns() // 1_000_000)


_MOST = 1000  # alerts considered


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlert:
    """An alert without a bisect: its worst series and commit range."""

    alert: int
    series: Series
    good: str  # full hashes
    bad: str


def next_alert(store: Store, project: str, machine: str, repository: Path) -> OpenAlert | None:
    """The machine's worst alert without a bisect that spans several commits; None if there is none."""
    return next(_open_alerts(store, project, machine, repository), None)


def _open_alerts(store: Store, project: str, machine: str, repository: Path) -> Iterator[OpenAlert]:
    """Open and acknowledged alerts of asv series with commits in git and without a bisect, worst first."""
    filter_ = TriageFilter(
        states=(TriageState.OPEN, TriageState.ACKNOWLEDGED), machine=machine, order=TriageOrder.WORST
    )
    items = queries.triage_items(store, project, filter_, limit=_MOST, rows=1).items
    done = bisected_alerts(store, [item.alert.id for item in items if item.alert is not None])
    for item in items:
        if item.alert is None or item.alert.id in done or item.alert.stated is not None or not item.regressions:
            continue
        worst = item.regressions[0]
        good, bad = worst.change.range_start.hash, worst.change.range_end.hash
        try:
            count = len(commit_range(repository, good, bad))
        except RangeError:
            continue
        if worst.series.is_from_asv and count > 2:
            yield OpenAlert(alert=item.alert.id, series=worst.series, good=good, bad=bad)


_WRITERS = {"table": as_table, "json": as_json}
_NOT_REPRODUCED, _INCONCLUSIVE = 1, 2


@click.command()
@click.argument("series", required=False)
@click.argument("good", required=False)
@click.argument("bad", required=False)
@click.option(
    "--next",
    "is_next",
    is_flag=True,
    help="Instead of SERIES GOOD BAD: bisect this machine's worst alert that spans several commits.",
)
@folder_option
@asv_project_option
@click.option("--metric", metavar="NAME", help="If SERIES matches several metrics: latency, time, peak memory.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="GLOB",
    help="Sources of the series: commits that change none of them get a low prior.",
)
@asv_arguments_option
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, max_open=True),
    default=SearchSettings().confidence,
    show_default=True,
    help="Required posterior probability of a commit.",
)
@click.option(
    "--smallest",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Smallest change to search for; default: half of a check's threshold.",
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=60,
    show_default=True,
    metavar="MINUTES",
    help="No run starts that would end later, except the first two of each end.",
)
@click.option("--format", "layout", type=click.Choice(list(_WRITERS)), default="table", show_default=True)
@output_option
@click.option("--no-record", is_flag=True, help="Write no note on the commit and none in alerts.")
@database_option
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

    SERIES is its key on the dashboard, or a regular expression that matches one "benchmark(parameters)". GOOD and BAD
    are hashes, branches or tags. Both ends are measured first, then the commits with the most expected information,
    until one reaches the required confidence. After a kill or a spent budget, the same command continues. Exit status:
    0 a commit is found, or neighbours of which only one builds, or --next finds no alert; 1 the change does not
    reproduce here; 2 inconclusive.
    """
    if is_next == (bad is not None) or is_next == (series is not None):
        raise click.UsageError("a bisect takes SERIES GOOD BAD, or only --next")
    smallest = smallest or read_settings().threshold / 2
    settings = SearchSettings(confidence=confidence, smallest=math.log1p(smallest), budget_s=60 * budget)
    store = open_or_create_store(database)
    try:
        target = asv_target(folder, project, store, arguments)
        for warning in uncommitted_warnings(target.checkout.repository, target.checkout.benchmarks):
            say(warning)
        if series is None or good is None or bad is None:
            chosen = _next(target)
            if chosen is None:
                click.echo(f"{target.checkout.machine} has no open alert to bisect")
                return
            bisected, commits = chosen
        else:
            commits = commit_range(
                target.checkout.repository, target.checkout.commit(good), target.checkout.commit(bad)
            )
            bisected = target.series(series, metric, measure_at=commits[-1].hash, say=say)
        report = bisect_series(target, bisected, commits, paths, settings, say)
        analyse(store)
        if not no_record:
            record(target, report)
    except (RangeError, SeriesError, BenchError, GateError, HostLockError) as error:
        raise CannotTellError(str(error)) from error
    except KeyboardInterrupt:
        say("Finished runs are stored: the same command continues with them.")
        raise
    finally:
        store.close()
    text = _WRITERS[layout](report)
    write(text, output)
    if not report.is_named:
        sys.exit(_NOT_REPRODUCED if report.search.conclusion is Conclusion.NOT_REPRODUCED else _INCONCLUSIVE)


def _next(target: AsvTarget) -> tuple[Series, tuple[RangeCommit, ...]] | None:
    alert = next_alert(target.store, target.checkout.project, target.checkout.machine, target.checkout.repository)
    if alert is None:
        return None
    say(f"alert {alert.alert}: {alert.good[:8]} to {alert.bad[:8]}")
    return target.series_of_key(alert.series.key), commit_range(target.checkout.repository, alert.good, alert.bad)
