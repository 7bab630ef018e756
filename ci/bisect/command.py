"""`warpwatch bisect`: which commit brought this change? Built and measured here, until that is sure."""

import math
import sys
from pathlib import Path

import click

from warpwatch.ci.bisect.asv_bench import BenchError
from warpwatch.ci.bisect.asv_place import AsvPlace, asv_place
from warpwatch.ci.bisect.bisecting import bisect_series, record
from warpwatch.ci.bisect.commit_range import RangeCommit, RangeError, commit_range
from warpwatch.ci.bisect.next_alert import next_alert
from warpwatch.ci.bisect.report import as_json, as_markdown, as_table
from warpwatch.ci.bisect.search import Wanted
from warpwatch.ci.bisect.state import End
from warpwatch.ci.bisect.which_series import SeriesError
from warpwatch.ci.gate.asv_runs import GateError
from warpwatch.ci.host_lock import HostLockError
from warpwatch.ci.uncommitted import uncommitted_warnings
from warpwatch.dashboard.analysis import analyse
from warpwatch.dashboard.opening import CannotTellError, open_or_create_store, read_settings
from warpwatch.dashboard.output import OutputFile, write
from warpwatch.dashboard.store.records import Series

_WRITERS = {"table": as_table, "json": as_json, "markdown": as_markdown}
_NOT_REPRODUCED, _COULD_NOT_TELL = 1, 2


@click.command()
@click.argument("series", required=False)
@click.argument("good", required=False)
@click.argument("bad", required=False)
@click.option("--next", "is_next", is_flag=True,
              help="In place of SERIES GOOD BAD: this machine's worst alert that spans several commits.")  # fmt: skip
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
              help="Of asv.conf.json; default: here.")  # fmt: skip
@click.option("--project", metavar="NAME", help="In the store; default: asv.conf.json's.")
@click.option("--metric", metavar="NAME", help="Where a benchmark's name leaves several: latency, time, peak memory.")
@click.option("--path", "paths", multiple=True, metavar="GLOB",
              help="What the series is made of: who changed other files is hardly suspected.")  # fmt: skip
@click.option("--asv", "arguments", multiple=True, metavar="ARGUMENT", help="A further argument of asv run.")
@click.option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=Wanted().confidence,
              show_default=True, help="How sure it must be of a commit.")  # fmt: skip
@click.option("--smallest", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="SHARE",
              help="Ends that differ by less are not searched; default: half of a check's threshold.")  # fmt: skip
@click.option("--budget", type=click.FloatRange(0, min_open=True), default=60, show_default=True, metavar="MINUTES",
              help="No run begins that would end later; the first two of each end are always made.")  # fmt: skip
@click.option("--format", "layout", type=click.Choice(list(_WRITERS)), default="table", show_default=True)
@click.option("--output", type=OutputFile(), help="Write there instead of printing.")
@click.option("--no-record", is_flag=True, help="Leave no note on the commit and none in alerts.")
@click.option("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; else WARPWATCH_DATABASE.")
def bisect(
    series: str | None, good: str | None, bad: str | None, is_next: bool, folder: Path, project: str | None,
    metric: str | None, paths: tuple[str, ...], arguments: tuple[str, ...], confidence: float, smallest: float | None,
    budget: float, layout: str, output: Path | None, no_record: bool, database: str | None,
) -> None:  # fmt: skip
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
    wanted = Wanted(
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
