"""Noise estimated from re-runs: the fit, false alarms and power, five real runs of one commit, and a check's use."""

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import polygamma

from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.comparison import Comparison, Estimate
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict
from warpwatch.dashboard.statistics.comparison import RunValue, compare, family_verdicts
from warpwatch.dashboard.statistics.noise import Noise
from warpwatch.dashboard.statistics.session_noise import RerunScatter, rerun_noise, rerun_scatter, variance_prior
from warpwatch.dashboard.store import Store, queries

REPEATED = Path(__file__).parents[2] / "perf_suite" / "trials" / "repeatability-h200"
CHANGED = {Verdict.REGRESSED, Verdict.IMPROVED}
OTHERS = tuple(f"w{number}" for number in range(8))
seeds = st.integers(0, 2**32 - 1)


def _judged(base: NDArray[np.float64], head: NDArray[np.float64], again: NDArray[np.float64], threshold: float) -> Any:
    """The verdicts of series (rows) whose runs (columns) are base, head, and others of one commit, in one sitting."""
    scatter = [rerun_scatter([b, h, a]) for b, h, a in zip(base, head, again, strict=True)]
    found = []
    for number, own in enumerate(scatter):
        others = [each for each in scatter[:number] + scatter[number + 1 :] if each is not None]
        noise = rerun_noise(float(base[number, 0]), own, others)
        sides = [[RunValue(value=float(value)) for value in side[number]] for side in (base, head)]
        found.append(compare(*sides, history_noise=None, threshold=threshold, rerun_noise=noise, same_session=True))
    return family_verdicts(found, [Better.LOWER] * len(found), threshold=threshold)


def _machine(rng: np.random.Generator, tails: str, changes: NDArray[np.float64], runs: int, again: int) -> Any:
    """Runs of base and head and others, of series that scatter by 0.15 to 0.5 %."""
    count = len(changes)
    level = np.exp(rng.uniform(math.log(1e-5), math.log(1e-3), (count, 1)))
    scale = np.exp(rng.uniform(math.log(0.0015), math.log(0.005), (count, 1)))
    size = (count, 2 * runs + again)
    noise = rng.standard_normal(size) if tails == "normal" else rng.standard_t(3, size) / math.sqrt(3)
    values = level * np.exp(scale * noise)
    return values[:, :runs], values[:, runs : 2 * runs] * (1 + changes[:, None]), values[:, 2 * runs :]


def test_the_prior_is_that_of_the_variances_it_was_fitted_to() -> None:
    """1,000 variances that scatter as an inverse chi-square of four degrees of freedom around 0.3 %, seen in four."""
    rng = np.random.default_rng(1)
    true = 4 * 0.003**2 / rng.chisquare(4, 1000)
    seen = [RerunScatter(level=1e-4, variance=v * rng.chisquare(4) / 4, df=4) for v in true]
    lent = rerun_noise(1e-4, None, seen)
    assert lent is not None
    assert lent.df in {3, 4}
    assert lent.scale == pytest.approx(0.003, rel=0.1)
    own = rerun_noise(1e-4, RerunScatter(level=1e-4, variance=0.01**2, df=40), seen)
    assert own is not None
    assert 0.009 < own.scale < 0.01


@pytest.mark.parametrize("away", [0.7, 1.0, 3.0, 10.0])
def test_the_prior_s_degrees_of_freedom_are_those_of_the_variances_spread(away: float) -> None:
    # Twenty variances, each known exactly, whose logarithms lie this far from their mean. Its error counts as spread.
    others = [RerunScatter(level=1e-3, variance=1e-6 * math.exp(sign * away), df=10**12) for sign in (-1, 1)] * 10
    prior = variance_prior(1e-3, others)
    assert prior is not None
    assert polygamma(1, prior.df / 2) == pytest.approx(away**2 * (1 + 1 / 20), rel=1e-9)


def test_a_launch_of_microseconds_is_lent_more_noise_than_one_of_a_millisecond() -> None:
    rng = np.random.default_rng(2)
    levels = np.exp(rng.uniform(math.log(4e-6), math.log(1e-3), 60))
    seen = [RerunScatter(level=float(x), variance=0.002**2 * (1e-4 / x) * rng.chisquare(4) / 4, df=4) for x in levels]
    short, long = rerun_noise(4e-6, None, seen), rerun_noise(1e-3, None, seen)
    assert short is not None
    assert long is not None
    assert short.scale == pytest.approx(0.01, rel=0.4)
    assert long.scale == pytest.approx(0.00063, rel=0.4)


@given(seeds, st.integers(5, 30), st.sampled_from([2.0**-20, 2.0**10]))
@settings(max_examples=25)
def test_the_unit_does_not_matter_and_a_noisier_series_has_more_noise(seed: int, count: int, factor: float) -> None:
    values = 1e-4 * np.exp(0.003 * np.random.default_rng(seed).standard_normal((count + 1, 4)))
    one, other = ([rerun_scatter([row]) for row in scale * values] for scale in (1.0, factor))
    noises = [
        rerun_noise(1e-4 * scale, each[0], [x for x in each[1:] if x is not None])
        for scale, each in ((1.0, one), (factor, other))
    ]
    assert noises[0] is not None
    assert noises[1] is not None
    assert (noises[1].scale, noises[1].df) == (pytest.approx(noises[0].scale), noises[0].df)
    wide = rerun_scatter([1e-4 * (values[0] / 1e-4) ** 3])
    louder = rerun_noise(1e-4, wide, [x for x in one[1:] if x is not None])
    assert louder is not None
    assert louder.scale > noises[0].scale


def test_too_few_re_runs_give_no_noise() -> None:
    assert rerun_scatter([[1.0], [1.1]]) is None
    own = rerun_scatter([[1.0, 1.01, 1.02]])
    assert own is not None
    assert (own.df, rerun_noise(1.0, own, [own] * 4)) == (2, None)
    assert rerun_noise(1.0, rerun_scatter([[1.0, 1.01], [2.0, 2.02, 2.04]]), []) == Noise(
        scale=pytest.approx(0.0086, abs=0.001), source=NoiseSource.RERUNS, df=3
    )


@pytest.mark.parametrize(("tails", "runs", "again"), [("normal", 1, 5), ("normal", 3, 0), ("t3", 3, 0)])
def test_a_family_that_did_not_change_raises_no_alarm(tails: str, runs: int, again: int) -> None:
    """40 families of 50 series. Single runs with the tails of t3 do in 3 % of the families (README.md)."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(40):
        verdicts = _judged(*_machine(rng, tails, np.zeros(50), runs, again), 0.01)
        alarms += bool(CHANGED & set(verdicts))
    assert alarms == 0


def test_three_runs_of_each_resolve_two_per_cent_and_that_nothing_changed() -> None:
    rng = np.random.default_rng(4)
    changes = np.array([0.02] * 20 + [0.0] * 180)
    verdicts = _judged(*_machine(rng, "normal", changes, 3, 0), 0.01)
    assert verdicts[:20].count(Verdict.REGRESSED) >= 12
    assert verdicts[20:].count(Verdict.UNCHANGED) >= 170
    assert not CHANGED & set(verdicts[20:])


def _five_runs() -> NDArray[np.float64]:
    """Latencies of 217 workloads x implementations in five runs of one commit on one H200."""
    runs = []
    for path in sorted(REPEATED.glob("run-*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        latencies = {
            (name, case): value
            for name, row in data["results"].items()
            if name.endswith(".track_latency")
            for case, value in zip(itertools.product(*row[1]), row[0], strict=True)
            if isinstance(value, float) and math.isfinite(value)
        }
        runs.append(latencies)
    every = sorted(set.intersection(*map(set, runs)))
    return np.array([[run[key] for run in runs] for key in every])


@pytest.mark.parametrize(("threshold", "unchanged"), [(0.01, 0.84), (0.02, 0.99)])
def test_of_five_runs_of_one_commit_no_two_differ_significantly(threshold: float, unchanged: float) -> None:
    """Each two as two commits, the other three as re-runs; rivals are judged as if they were ours."""
    values = _five_runs()
    assert values.shape == (217, 5)
    verdicts: list[Verdict] = []
    for base, head in itertools.combinations(range(5), 2):
        again = [number for number in range(5) if number not in {base, head}]
        verdicts += _judged(values[:, [base]], values[:, [head]], values[:, again], threshold)
    assert not CHANGED & set(verdicts)
    assert verdicts.count(Verdict.UNCHANGED) >= unchanged * len(verdicts)


@pytest.mark.parametrize("planted", [1.0, 1.02])
def test_a_change_planted_in_real_runs_is_the_only_one_reported(planted: float) -> None:
    """Three runs against two of one commit, a few calm series made 2 % slower."""
    values = _five_runs()
    calm = np.flatnonzero((values[:, 0] > 5e-5) & (values.std(axis=1) < 0.001 * values.mean(axis=1)))[::10]
    assert len(calm) > 3
    head = values[:, 3:].copy()
    head[calm] *= planted
    verdicts = _judged(values[:, :3], head, values[:, :0], 0.01)
    moved = {number for number, verdict in enumerate(verdicts) if verdict in CHANGED}
    assert moved == (set() if planted == 1.0 else moved & set(calm))
    assert len(moved) >= (0 if planted == 1.0 else len(calm) / 2)


# What a check makes of it: commit 0 is run again, then commits 1 and 2 once each.


def _store(store: Store, asv: Any, change: float, *, later: int = 0, again: int = 5) -> Comparison:
    levels = {"warpwatch": 1e-4, "eager": 1e-2, TRIAD: 1e-4, MATMUL: 2e-4}  # baselines too slow to inform about ours
    history = Suite(asv, workloads=OTHERS, levels=levels, scatter=0.0)
    for run in range(again):
        history.commit(0, {"warpwatch": 1 + 0.001 * (run % 3)}, code="a" * 64, hour=run)
        asv.load(store)
    history.commit(1, code="b" * 64)
    history.commit(2 + later, {"warpwatch": change}, code="c" * 64)
    asv.load(store)
    base, head = (queries.find_commit(store, "demo", f"{number:08x}") for number in (1, 2 + later))
    assert base is not None
    assert head is not None
    return check(store, "demo", base, head, threshold=0.01)


def _only(found: Comparison) -> tuple[set[Verdict], set[NoiseSource]]:
    comparisons: list[Estimate] = [row.estimate for row in found.rows if row.estimate is not None]
    return {row.verdict for row in found.rows}, {comparison.noise_source for comparison in comparisons}


@pytest.mark.parametrize(("change", "verdict"), [(1.03, Verdict.REGRESSED), (1.001, Verdict.UNCHANGED)])
def test_re_runs_of_another_commit_give_the_noise_of_two_runs(
    sqlite_store: Store, asv: Any, change: float, verdict: Verdict
) -> None:
    assert _only(_store(sqlite_store, asv, change)) == ({verdict}, {NoiseSource.RERUNS})


def test_without_re_runs_the_noise_is_assumed(sqlite_store: Store, asv: Any) -> None:
    assert _only(_store(sqlite_store, asv, 1.03, again=1)) == ({Verdict.INCONCLUSIVE}, {NoiseSource.ASSUMED})


def test_re_runs_do_not_give_the_noise_between_days(sqlite_store: Store, asv: Any) -> None:
    assert _only(_store(sqlite_store, asv, 1.03, later=24)) == ({Verdict.INCONCLUSIVE}, {NoiseSource.ASSUMED})


def test_of_runs_on_two_days_those_of_one_session_are_compared(sqlite_store: Store, asv: Any) -> None:
    """Base was measured a day before, 5 % off; the gate measures it again in head's session."""
    history = Suite(asv, workloads=OTHERS, scatter=0.0)
    history.commit(0, {"warpwatch": 1.05})
    asv.load(sqlite_store)
    history.commit(0, hour=24 * 60)
    history.commit(24)
    asv.load(sqlite_store)
    base, head = (queries.find_commit(sqlite_store, "demo", f"{number:08x}") for number in (0, 24))
    assert base is not None
    assert head is not None
    found = check(sqlite_store, "demo", base, head, threshold=0.01)
    assert {(row.base, row.estimate and row.estimate.base_runs) for row in found.rows} == {(1e-4, 1)}


def test_runs_of_equal_code_are_re_runs_unless_they_are_compared(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=OTHERS, scatter=0.0)
    for number in range(4):
        history.commit(number, {"warpwatch": 1 + 0.01 * number}, code="a" * 64)
    asv.load(sqlite_store)
    hashes = [f"{number:08x}" + "c" * 32 for number in range(4)]
    pairs = [pair for pair in queries.pairs(sqlite_store, "demo", hashes[2], hashes[3]) if pair.series.is_ours]
    assert [pair.reruns for pair in pairs] == [((pytest.approx(1e-4), pytest.approx(1.01e-4)),)] * len(OTHERS)
