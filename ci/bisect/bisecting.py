"""One bisect from its range to what is recorded of it."""

import time
from collections.abc import Callable, Sequence

from warpwatch.ci.bisect.asv_bench import AsvBench, patterns
from warpwatch.ci.bisect.asv_place import AsvPlace
from warpwatch.ci.bisect.commit_range import RangeCommit
from warpwatch.ci.bisect.posterior import Posterior
from warpwatch.ci.bisect.report import BisectReport, headline, sure
from warpwatch.ci.bisect.runs import Floats
from warpwatch.ci.bisect.search import Wanted, search
from warpwatch.ci.bisect.state import End, Suspects
from warpwatch.ci.bisect.suspicion import suspicion
from warpwatch.dashboard.store import queries
from warpwatch.dashboard.store.bisected import Bisected, Culprit, record_bisect
from warpwatch.dashboard.store.records import Series

_ENOUGH_BUILDS = 8  # kept by asv: both ends, and the commits around a step


def bisect_series(
    place: AsvPlace, series: Series, commits: Sequence[RangeCommit], paths: Sequence[str], wanted: Wanted,
    say: Callable[[str], None],
) -> BisectReport:  # fmt: skip
    """Measures until a commit is named; `paths` are what the series is made of. Raises BenchError, GateError."""
    hashes = [commit.hash for commit in commits]
    bench = AsvBench(
        place.runs(patterns(place.store, series)), series, hashes, built_kept=place.wheels_kept, say=say
    )  # fmt: skip
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
    return BisectReport(series=series, commits=tuple(commits), search=done, last_words=bench.last_words)


def record(place: AsvPlace, report: BisectReport) -> None:
    """Leaves in the store what it came to, unless it is to go on."""
    if report.search.end is End.SPENT:
        return
    culprit, its = None, report.search.suspects
    if report.is_named and its is not None and report.first_bad is not None and report.last_good is not None:
        culprit = Culprit(
            commit=report.first_bad.hash, previous=report.last_good.hash, confidence=sure(its.chance)
        )  # fmt: skip
    bisected = Bisected(
        series=report.series.key, good=report.commits[0].hash, bad=report.commits[-1].hash, says=headline(report),
        culprit=culprit,
    )  # fmt: skip
    record_bisect(place.store, place.project, bisected, now_ms=time.time_ns() // 1_000_000)
