"""Runs of one series at the commits of a range: built and measured by asv, read back from the store."""

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from warpwatch.dashboard.model.series import Point, Series, Status
from warpwatch.dashboard.statistics.comparison import RunValue, sample_error
from warpwatch.dashboard.statistics.session_noise import rerun_scatter
from warpwatch.dashboard.store import Store, queries

from ..gate.asv_runner import AsvRuns, bench_pattern
from ..host_lock import gpu_lock
from .drift_model import PAUSE_S
from .measured_runs import ExpectedNoise, Run

_TRIES = 3  # for a run on a throttled or disturbed machine
_USUAL_BUILD_S, _USUAL_RUN_S = 60.0, 30.0  # before the first are measured
_MAX_PRIOR_DF = 6.0
_RECENT_S = 7 * 24 * 3600.0  # age of runs of earlier calls that are reused
_BROKEN = {Status.FAILED, Status.WRONG}
_STILL_BROKEN_S = 24 * 3600.0  # age of a failure that is not retried


class BenchError(Exception):
    """The runs cannot be compared; the message gives the reason and the remedy."""


class AsvBench:
    """Measures commits for a search. Other measurements may take the GPU between its runs."""

    def __init__(
        self,
        runs: AsvRuns,
        series: Series,
        commits: Sequence[str],
        *,
        built_kept: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`commits` are full hashes, the good one first; asv keeps the wheels of `built_kept` commits."""
        self._asv, self._series, self._commits, self._say = runs, series, tuple(commits), say
        self._place_of = {commit: place for place, commit in enumerate(commits)}
        self._controls = controls_of(runs.store, series)
        self._card: str | None = None
        self._built: OrderedDict[int, None] = OrderedDict()
        self._built_kept = max(built_kept, 1)
        self._seconds: dict[bool, list[float]] = {True: [], False: []}  # of runs with a build, and without
        self.asv_output = ""  # of a failed run

    def measure(self, place: int) -> Run | None:
        """Builds and measures a commit once; None if its build or its benchmark fails.

        Raises BenchError if that happened on another card than the last, and GateError where asv itself gave up: the
        next commit would fare no better.
        """
        commit = self._commits[place]
        for _ in range(_TRIES):
            known = {point.run for point in self._points() if point.commit.hash == commit}
            began = time.monotonic()
            with gpu_lock(say=self._say) as lock:
                replace(self._asv, lock_descriptors=lock.descriptors).run(commit)
            self._seconds[place not in self._built].append(time.monotonic() - began)
            fresh = [each for each in self._points() if each.commit.hash == commit and each.run not in known]
            if fresh and fresh[-1].status is Status.OK:
                self._keep(place)
                self._same_card(fresh[-1])
                return self._run(fresh[-1])
            self.asv_output = (fresh[-1].reason if fresh else None) or f"asv recorded nothing at {commit[:8]}"
            if not fresh or fresh[-1].status is not Status.INVALID:
                return None
            self._say(f"{commit[:8]} again: {self.asv_output}")
        return None

    def cost_s(self, place: int) -> float:
        """Expected seconds, from the builds and runs so far."""
        told, usual = self._seconds[place not in self._built], _USUAL_RUN_S
        if place not in self._built:
            usual += _USUAL_BUILD_S
        return fmean(told) if told else max(usual, *(self._seconds[False] or [0.0]))

    def earlier(self, now: float | None = None) -> tuple[tuple[Run, ...], frozenset[int]]:
        """What was measured of the range within a week before now, on the card of the newest run, and which commits
        could not be.

        Earlier sittings with one commit alone are left out: they tell nothing of differences.
        """
        now = time.time() if now is None else now
        points = [p for p in self._points() if p.commit.hash in self._place_of and _at_s(p) >= now - _RECENT_S]
        numbers = sorted((p for p in points if p.status is Status.OK), key=_at_s)
        self._card = numbers[-1].gpu if numbers else None
        numbers = [point for point in numbers if point.gpu == self._card]
        edges = [n for n, (old, new) in enumerate(pairwise(numbers), 1) if _at_s(new) - _at_s(old) > PAUSE_S]
        sittings = [numbers[a:b] for a, b in pairwise([0, *edges, len(numbers)])]
        kept = [
            point
            for its in sittings
            if its and (len({p.commit.hash for p in its}) > 1 or now - _at_s(its[-1]) < PAUSE_S)
            for point in its
        ]
        failed = {p.commit.hash for p in points if p.status in _BROKEN and now - _at_s(p) < _STILL_BROKEN_S}
        failed -= {point.commit.hash for point in points if point.status is Status.OK}
        return tuple(map(self._run, kept)), frozenset(self._place_of[commit] for commit in failed)

    def noise(self) -> ExpectedNoise:
        """The noise of this series from its re-runs at any commit."""
        groups: dict[tuple[str, str | None], list[list[Point]]] = {}
        for point in sorted(self._points(), key=_at_s):
            if point.status is Status.OK and point.commit.hash not in self._place_of:
                sittings = groups.setdefault((point.commit.hash, point.gpu), [[]])
                if sittings[-1] and _at_s(point) - _at_s(sittings[-1][-1]) > PAUSE_S:
                    sittings.append([])
                sittings[-1].append(point)
        told = rerun_scatter([[_number(p) for p in its] for all_its in groups.values() for its in all_its])
        if told is None:
            return ExpectedNoise()
        return ExpectedNoise(scale=math.sqrt(told.variance), df=min(told.df, _MAX_PRIOR_DF))

    def _points(self) -> tuple[Point, ...]:
        return queries.series_points(self._asv.store, self._series.key)

    def _keep(self, place: int) -> None:
        self._built[place] = None
        self._built.move_to_end(place)
        while len(self._built) > self._built_kept:
            self._built.popitem(last=False)

    def _same_card(self, point: Point) -> None:
        if self._card is None:
            self._card = point.gpu
        if point.gpu != self._card:
            raise BenchError(
                f"runs go to different cards, {self._card} and {point.gpu}: set CUDA_VISIBLE_DEVICES to one of them"
            )

    def _run(self, point: Point) -> Run:
        value = _number(point)
        if value <= 0:
            raise BenchError(f"{self._series.title} is {value} at {point.commit.hash[:8]}: zero has no relative change")
        own = RunValue(value=value, q25=point.q25, q75=point.q75, sample_count=point.sample_count)
        controls = []
        for control in self._controls:
            its = [each for each in queries.series_points(self._asv.store, control.key) if each.run == point.run]
            controls.append(math.log(its[-1].value) if its and its[-1].value else math.nan)
        return Run(
            place=self._place_of[point.commit.hash],
            value=math.log(value),
            error=sample_error(own),
            at_s=_at_s(point),
            controls=tuple(controls),
        )


def controls_of(store: Store, series: Series) -> tuple[Series, ...]:
    """Controls of a latency: canaries of its machine and environment, and baselines of its workload."""
    if not series.metric.follows_machine:
        return ()
    found = queries.find_series(
        store, series.project, machine=series.machine, metric=series.metric.name, listed=True, limit=100_000
    ).series
    near = [each for each in found if each.environment == series.environment]
    rivals = [e for e in near if e.is_baseline and (e.suite, e.case) == (series.suite, series.case)]
    return tuple([each for each in near if each.is_control and each.metric.is_latency] + rivals)


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
    """Of a point that has one."""
    assert point.value is not None
    return point.value
