"""The asv project, machine and series that a bisect measures, and its runs by asv."""

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import json5

from warpwatch.dashboard.model.series import Point, Series, Status
from warpwatch.dashboard.statistics.arrival import SESSION_GAP_S
from warpwatch.dashboard.statistics.comparison import RunValue, sample_error
from warpwatch.dashboard.statistics.session_noise import rerun_scatter
from warpwatch.dashboard.store import Store, queries

from ..asv_checkout import AsvCheckout, AsvRuns, asv_checkout, bench_pattern
from ..host_lock import gpu_lock
from .run_likelihood import ExpectedNoise, Run

_KEY = re.compile(r"[0-9a-f]{16}")
_SHOWN = 12
_ALL = 100_000


class SeriesError(Exception):
    """No series, or several; the message lists them."""


class NoSeriesError(SeriesError):
    """No series has this name."""


def is_key(text: str) -> bool:
    """Whether the text looks like a series key."""
    return bool(_KEY.fullmatch(text))


def which_series(
    store: Store, project: str, text: str, *, machine: str | None = None, metric: str | None = None
) -> Series:
    """The only series of asv with that key, or whose "benchmark(parameters)" matches the regular expression.

    Without `metric` only metrics that get verdicts count. Raises SeriesError.
    """
    matches = [
        series
        for series in queries.find_series(store, project, machine=machine, metric=metric, limit=_ALL).series
        if series.is_from_asv and (series.key == text or (not is_key(text) and _matches(series, text, metric)))
    ]
    if len(matches) == 1:
        return matches[0]
    where = f" on {machine}" if machine else ""
    if not matches:
        raise NoSeriesError(f"{project} has no asv series {text!r}{where}; search for it on the dashboard")
    listed = [f"  {each.key}  {each.title}, {each.metric.name}, {each.machine}" for each in matches[:_SHOWN]]
    if len(matches) > _SHOWN:
        listed.append(f"  and {len(matches) - _SHOWN} more")
    raise SeriesError(f"{len(matches)} series match {text!r}{where}; give the key of one:\n" + "\n".join(listed))


def _matches(series: Series, text: str, metric: str | None) -> bool:
    watched = series.listed and series.is_ours and (metric is not None or series.metric.is_judged)
    return watched and re.search(text, series.title) is not None


_DEFAULT_CACHE, _DEFAULT_BENCHMARKS = 2, "benchmarks"  # asv's


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvTarget:
    """An asv project on this machine."""

    checkout: AsvCheckout
    store: Store
    arguments: tuple[str, ...]  # further arguments of asv run
    cached_builds: int  # commits whose builds asv keeps
    benchmarks: str  # folder of the benchmarks, as asv.conf.json names it

    def runs(self, patterns: Sequence[str]) -> AsvRuns:
        """An asv runner for the benchmarks that match these expressions."""
        return AsvRuns(
            folder=self.checkout.folder,
            store=self.store,
            project=self.checkout.project,
            patterns=patterns,
            arguments=self.arguments,
        )

    def series_of_key(self, key: str, metric: str | None = None) -> Series:
        """The series of that key, if this machine measures it. Raises SeriesError."""
        series = which_series(self.store, self.checkout.project, key, metric=metric)
        if series.machine != self.checkout.machine:
            raise SeriesError(
                f"{series.title} was measured on {series.machine}, but this is {self.checkout.machine}: bisect it there"
            )
        return series

    def series(self, text: str, metric: str | None, *, measure_at: str, say: Callable[[str], None]) -> Series:
        """The series with a key, or that matches a regular expression.

        A series without results on this machine is measured at `measure_at` first. Raises SeriesError and GateError.
        """
        if is_key(text):
            return self.series_of_key(text, metric)
        try:
            re.compile(text)
        except re.error as error:
            raise SeriesError(f"{text!r} is neither a series' key nor a regular expression: {error}") from error
        try:
            return which_series(self.store, self.checkout.project, text, machine=self.checkout.machine, metric=metric)
        except NoSeriesError:
            say(f"{text} has no results on {self.checkout.machine}: measuring {measure_at[:8]} first")
        with gpu_lock(say=say) as lock:
            replace(self.runs((text,)), lock_descriptors=lock.descriptors).run(measure_at)
        return which_series(self.store, self.checkout.project, text, machine=self.checkout.machine, metric=metric)


def asv_target(folder: Path, project: str | None, store: Store, arguments: Sequence[str]) -> AsvTarget:
    """The project in a folder with asv.conf.json. Raises CannotTellError."""
    checkout = asv_checkout(folder, project, arguments)
    conf = json5.loads((folder / "asv.conf.json").read_text(encoding="utf-8"))
    return AsvTarget(
        checkout=checkout,
        store=store,
        arguments=tuple(arguments),
        cached_builds=int(conf.get("build_cache_size", _DEFAULT_CACHE)),
        benchmarks=str(conf.get("benchmark_dir", _DEFAULT_BENCHMARKS)),
    )


_ATTEMPTS = 3  # of a run on a throttled or disturbed machine
_USUAL_BUILD_S, _USUAL_RUN_S = 60.0, 30.0  # until measured
_MAX_PRIOR_DF = 6.0
_RECENT_S = 7 * 24 * 3600.0  # age of runs of earlier calls that are reused
_BROKEN = {Status.FAILED, Status.WRONG}
_RETRY_FAILED_S = 24 * 3600.0  # age from which a failed commit is retried


class BenchError(Exception):
    """The runs cannot be compared; the message gives the reason and the fix."""


class AsvBench:
    """Measures commits for a search, and holds the GPU's lock during each run only."""

    def __init__(
        self,
        runs: AsvRuns,
        series: Series,
        commits: Sequence[str],
        *,
        cached_builds: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`commits` are full hashes, the good one first; asv caches the builds of `cached_builds` commits."""
        self._asv, self._series, self._commits, self._say = runs, series, tuple(commits), say
        self._index_of = {commit: index for index, commit in enumerate(commits)}
        self._controls = controls_of(runs.store, series)
        self._gpu: str | None = None
        self._built: OrderedDict[int, None] = OrderedDict()
        self._cached_builds = max(cached_builds, 1)
        self._seconds: dict[bool, list[float]] = {True: [], False: []}  # by whether the run includes a build
        self.asv_output = ""  # of a failed run

    def measure(self, index: int) -> Run | None:
        """Builds and measures a commit once; None if its build or its benchmark fails.

        Raises BenchError if the GPU changed, and GateError if asv itself fails, as it would at any commit.
        """
        commit = self._commits[index]
        for _ in range(_ATTEMPTS):
            known = {point.run for point in self._points() if point.commit.hash == commit}
            started = time.monotonic()
            with gpu_lock(say=self._say) as lock:
                replace(self._asv, lock_descriptors=lock.descriptors).run(commit)
            self._seconds[index not in self._built].append(time.monotonic() - started)
            new = [point for point in self._points() if point.commit.hash == commit and point.run not in known]
            if new and new[-1].status is Status.OK:
                self._note_build(index)
                self._check_gpu(new[-1])
                return self._run(new[-1])
            self.asv_output = (new[-1].reason if new else None) or f"{commit[:8]} has no results"
            if not new or new[-1].status is not Status.INVALID:
                return None
            self._say(f"{commit[:8]} again: {self.asv_output}")
        return None

    def cost_s(self, index: int) -> float:
        """Expected seconds, from the builds and runs so far."""
        measured, usual = self._seconds[index not in self._built], _USUAL_RUN_S
        if index not in self._built:
            usual += _USUAL_BUILD_S
        return fmean(measured) if measured else max(usual, *(self._seconds[False] or [0.0]))

    def earlier(self, now: float | None = None) -> tuple[tuple[Run, ...], frozenset[int]]:
        """Runs of the range within the last week on the GPU of the newest run, and the commits that failed.

        Earlier sessions with only one commit are left out, as they show no differences.
        """
        now = time.time() if now is None else now
        points = [p for p in self._points() if p.commit.hash in self._index_of and _at_s(p) >= now - _RECENT_S]
        valid = sorted((p for p in points if p.status is Status.OK), key=_at_s)
        self._gpu = valid[-1].gpu if valid else None
        valid = [point for point in valid if point.gpu == self._gpu]
        edges = [n for n, (old, new) in enumerate(pairwise(valid), 1) if _at_s(new) - _at_s(old) > SESSION_GAP_S]
        sessions = [valid[a:b] for a, b in pairwise([0, *edges, len(valid)])]
        usable = [
            point
            for session in sessions
            if session and (len({p.commit.hash for p in session}) > 1 or now - _at_s(session[-1]) < SESSION_GAP_S)
            for point in session
        ]
        failed = {p.commit.hash for p in points if p.status in _BROKEN and now - _at_s(p) < _RETRY_FAILED_S}
        failed -= {point.commit.hash for point in points if point.status is Status.OK}
        return tuple(map(self._run, usable)), frozenset(self._index_of[commit] for commit in failed)

    def noise(self) -> ExpectedNoise:
        """The noise of this series from its re-runs at any commit."""
        groups: dict[tuple[str, str | None], list[list[Point]]] = {}
        for point in sorted(self._points(), key=_at_s):
            if point.status is Status.OK and point.commit.hash not in self._index_of:
                sessions = groups.setdefault((point.commit.hash, point.gpu), [[]])
                if sessions[-1] and _at_s(point) - _at_s(sessions[-1][-1]) > SESSION_GAP_S:
                    sessions.append([])
                sessions[-1].append(point)
        scatter = rerun_scatter([[_number(p) for p in runs] for sessions in groups.values() for runs in sessions])
        if scatter is None:
            return ExpectedNoise()
        return ExpectedNoise(sigma=math.sqrt(scatter.variance), df=min(scatter.df, _MAX_PRIOR_DF))

    def _points(self) -> tuple[Point, ...]:
        return queries.series_points(self._asv.store, self._series.key)

    def _note_build(self, index: int) -> None:
        self._built[index] = None
        self._built.move_to_end(index)
        while len(self._built) > self._cached_builds:
            self._built.popitem(last=False)

    def _check_gpu(self, point: Point) -> None:
        if self._gpu is None:
            self._gpu = point.gpu
        if point.gpu != self._gpu:
            raise BenchError(
                f"runs used two GPUs, {self._gpu} and {point.gpu}: set CUDA_VISIBLE_DEVICES to one of them"
            )

    def _run(self, point: Point) -> Run:
        value = _number(point)
        if value <= 0:
            raise BenchError(f"{self._series.title} is {value} at {point.commit.hash[:8]}: zero has no relative change")
        own = RunValue(value=value, q25=point.q25, q75=point.q75, sample_count=point.sample_count)
        controls = []
        for control in self._controls:
            points = [p for p in queries.series_points(self._asv.store, control.key) if p.run == point.run]
            controls.append(math.log(points[-1].value) if points and points[-1].value else math.nan)
        return Run(
            index=self._index_of[point.commit.hash],
            value=math.log(value),
            error=sample_error(own),
            at_s=_at_s(point),
            controls=tuple(controls),
        )


def controls_of(store: Store, series: Series) -> tuple[Series, ...]:
    """Controls of a latency: canaries of its machine and environment, and baselines of its workload."""
    if not series.metric.follows_machine:
        return ()
    series_of_metric = queries.find_series(
        store, series.project, machine=series.machine, metric=series.metric.name, listed=True, limit=100_000
    ).series
    related = [each for each in series_of_metric if each.environment == series.environment]
    canaries = [each for each in related if each.is_control and each.metric.is_latency]
    baselines = [e for e in related if e.is_baseline and (e.suite, e.case) == (series.suite, series.case)]
    return (*canaries, *baselines)


def patterns(store: Store, series: Series) -> tuple[str, ...]:
    """Patterns for asv's --bench: the series and its controls."""
    if series.implementation is not None:
        own = bench_pattern(series.suite, series.parameters)  # baselines of the same workload
    else:
        values = ", ".join(f".?{re.escape(value)}.?" for _, value in series.parameters)
        own = f"^{re.escape(series.benchmark)}" + (rf"\({values}\)$" if values else "$")
    canaries = {bench_pattern(each.suite, each.parameters) for each in controls_of(store, series) if each.is_control}
    return (own, *sorted(canaries))


def _at_s(point: Point) -> float:
    return point.run_time.timestamp() if point.run_time is not None else 0.0


def _number(point: Point) -> float:
    """The value of a valid point."""
    assert point.value is not None
    return point.value
