"""A short history's noise, with its machine's help: what it must not depend on, false alarms, and our own results."""

import itertools
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored import stored_history
from warpwatch.dashboard.analysis.compare_commits import _estimate, check
from warpwatch.dashboard.analysis.noise import HistoryNoises
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.comparison import Comparison
from warpwatch.dashboard.model.metric import Better, metric
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict
from warpwatch.dashboard.statistics.comparison import RunValue, compare, family_verdicts
from warpwatch.dashboard.statistics.detection import detect
from warpwatch.dashboard.statistics.machine_noise import Peer, Peers, history_noise, peer
from warpwatch.dashboard.statistics.noise import Noise, noise_scale
from warpwatch.dashboard.store import Store, queries

ROOT = Path(__file__).parents[2]
COMMITS = ("5307edd5", "76dec9ab", "5c3ff8ee", "693d3db8", "27c0a241", "4d95a140", "169cdf93")
TIME = metric("latency", "seconds")
CERTAIN = {Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED}
seeds = st.integers(0, 2**32 - 1)


def _histories(rng: np.random.Generator, count: int, commits: int, scale: float = 0.005) -> list[list[float]]:
    """Unchanged series of one machine; some are twice as noisy as others."""
    scales = scale * np.exp(0.4 * rng.standard_normal(count))
    return [[float(2e-5 * np.exp(s * x)) for x in rng.standard_normal(commits)] for s in scales]


def _control(levels: list[float]) -> Peer:
    return peer(levels, is_control=True, change=math.log(levels[-1] / levels[-2]))


def machine_scale(level: float, peers: list[Peer]) -> float | None:
    return Peers(dict(enumerate(peers))).scale(-1, level)


def _noise(levels: list[float], peers: list[Peer], span: tuple[int, int] | None = None) -> Noise | None:
    return history_noise(levels, machine_scale(median(levels), peers), span)


def _verdict(levels: list[float], noise: Noise | None) -> Verdict:
    base, head = (RunValue(value=level) for level in levels[-2:])
    return family_verdicts(
        [compare([base], [head], history_noise=noise, threshold=0.02)], [Better.LOWER], threshold=0.02
    )[0]


@given(seeds, st.integers(2, 14), st.sampled_from([2.0**-20, 2.0**10]))
def test_the_unit_does_not_matter(seed: int, commits: int, factor: float) -> None:
    own, *others = _histories(np.random.default_rng(seed), 8, commits)
    one = _noise(own, [_control(levels) for levels in others], (commits - 2, commits - 1))
    scaled = [[factor * level for level in levels] for levels in (own, *others)]
    other = _noise(scaled[0], [_control(levels) for levels in scaled[1:]], (commits - 2, commits - 1))
    assert one is not None
    assert other is not None
    assert (other.scale, other.df, other.source) == (pytest.approx(one.scale), one.df, one.source)


@given(seeds, st.integers(2, 14), st.floats(0.9, 1.1), st.floats(1.0, 20.0), st.integers(0, 7))
@settings(max_examples=200)
def test_controls_that_scatter_more_never_make_a_verdict_more_certain(
    seed: int, commits: int, step: float, wider: float, which: int
) -> None:
    own, *others = _histories(np.random.default_rng(seed), 9, commits)
    own[-1] = own[-2] * step
    span = (commits - 2, commits - 1)
    controls = [_control(levels) for levels in others]
    loud = [
        calm
        if number < which
        else Peer(
            level=calm.level,
            scale=calm.scale and wider * calm.scale,
            is_control=True,
            change=wider * calm.change,
        )
        for number, calm in enumerate(controls)
    ]
    calm_noise, loud_noise = _noise(own, controls, span), _noise(own, loud, span)
    assert calm_noise is not None
    assert loud_noise is not None
    assert loud_noise.scale >= calm_noise.scale
    verdict = _verdict(own, loud_noise)
    assert verdict not in CERTAIN or verdict is _verdict(own, calm_noise)


@given(seeds, st.integers(3, 15), st.floats(0.5, 2.0))
def test_the_compared_change_is_not_its_own_noise(seed: int, commits: int, step: float) -> None:
    own, *others = _histories(np.random.default_rng(seed), 8, commits)
    peers, span = [_control(levels) for levels in others], (commits - 2, commits - 1)
    flat = _noise([*own[:-1], own[-2]], peers, span)
    moved = _noise([*own[:-1], own[-2] * step], peers, span)
    assert flat is not None
    assert moved is not None
    assert moved.scale == pytest.approx(flat.scale)


def test_a_long_history_counts_alone_and_the_machine_fades_before() -> None:
    rng = np.random.default_rng(3)
    controls = [_control(levels) for levels in _histories(rng, 10, 15, scale=0.05)]
    own = _histories(rng, 1, 16, scale=0.002)[0]
    found = [_noise(own[:commits], controls) for commits in range(2, 17)]
    scales = [noise.scale for noise in found if noise is not None]
    assert scales[0] > scales[6] > scales[13] > scales[14] == pytest.approx(noise_scale(np.log(own)))
    sources = [noise.source for noise in found if noise is not None]
    assert sources[:5] == [NoiseSource.MACHINE] * 5
    assert sources[-2:] == [NoiseSource.HISTORY] * 2


def test_fewer_than_five_of_similar_latency_give_no_noise_and_controls_go_first() -> None:
    near = [Peer(level=1e-5, scale=0.01, is_control=True)] * 4
    far = [Peer(level=1e-3, scale=0.01, is_control=True)] * 9
    watched = [Peer(level=1e-5, scale=0.2, is_control=False)] * 9
    assert machine_scale(1e-5, [*near, *far]) is None
    assert machine_scale(1e-5, [*near, *near, *watched]) == pytest.approx(0.01)
    assert machine_scale(1e-5, [*near, *watched]) == pytest.approx(0.2)
    assert _noise([1.0] * 7, []) is None
    assert history_noise([0.0] * 7, 0.01) is None


@pytest.mark.parametrize("commits", [2, 6])
def test_a_family_of_unchanged_series_on_a_machine_gives_hardly_any_false_alarm(commits: int) -> None:
    """300 machines of 40 series, 20 of them controls, nothing changed: at most 2 % of the families have an alarm."""
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        levels = _histories(rng, 40, commits)
        controls = [_control(history) for history in levels[20:]]
        span = (commits - 2, commits - 1)
        found = [
            compare(
                [RunValue(value=own[-2])],
                [RunValue(value=own[-1])],
                history_noise=_noise(own, controls, span),
                threshold=0.02,
            )
            for own in levels[:20]
        ]
        verdicts = family_verdicts(found, [Better.LOWER] * 20, threshold=0.02)
        alarms += any(verdict in {Verdict.REGRESSED, Verdict.IMPROVED} for verdict in verdicts)
    assert alarms <= 6


def test_short_histories_without_a_step_show_hardly_any_changepoint_and_a_step_is_found() -> None:
    """60 machines of 40 series and 7 commits: at most two changepoints in 2,400 series."""
    rng = np.random.default_rng(2)
    alarms, hits = 0, 0
    for _ in range(60):
        histories = _histories(rng, 40, 7)
        peers = [_control(levels) for levels in histories[20:]]
        for own in histories:
            machine = machine_scale(median(own), peers)
            alarms += len(detect([[RunValue(value=level)] for level in own], TIME, machine).changes)
        steady = histories[0][:1] * 7
        stepped = [[RunValue(value=level * (1.06 if n >= 4 else 1.0))] for n, level in enumerate(steady)]
        hits += [change.index for change in detect(stepped, TIME, machine_scale(steady[0], peers)).changes] == [4]
    assert alarms <= 2
    assert hits == 60


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Seven commits of this repository's own recorded results."""
    recorded, folder = ROOT / "perf_suite" / "results", tmp_path_factory.mktemp("h200") / "results"
    (folder / "nvidia-h200").mkdir(parents=True)
    shutil.copy(recorded / "benchmarks.json", folder)
    for pattern in ("machine.json", *(f"{commit}-*" for commit in COMMITS)):
        for path in (recorded / "nvidia-h200").glob(pattern):
            shutil.copy(path, folder / "nvidia-h200")
    store = Store(str(folder / "history.db"))
    import_results(store, open_folder(folder, project="warpwatch", repository=ROOT))
    yield store
    store.close()


def _check(store: Store, base: str, head: str) -> Comparison:
    commits = [queries.find_commit(store, "warpwatch", name) for name in (base, head)]
    assert commits[0] is not None
    assert commits[1] is not None
    return check(store, "warpwatch", commits[0], commits[1], threshold=0.02, machine="nvidia-h200")


def test_the_same_kernels_measured_twice_on_an_h200_raise_nothing(h200: Store) -> None:
    found = _check(h200, "4d95a140", "169cdf93")
    assert (found.count(Verdict.REGRESSED), found.count(Verdict.IMPROVED)) == (0, 0)
    assert found.count(Verdict.UNCHANGED) > len(found.rows) / 2


def test_attention_made_faster_on_an_h200_is_detected(h200: Store) -> None:
    found = _check(h200, "27c0a241", "4d95a140")
    improved = {
        (row.series.implementation, row.series.workload) for row in found.rows if row.verdict is Verdict.IMPROVED
    }
    causal = "cuda-fp16-b1-h32-s{}-d128-causal"
    assert {("warpwatch", causal.format(2048)), ("warpwatch", causal.format(4096))} <= improved
    assert {name for name, _ in improved} == {"warpwatch"}
    assert found.count(Verdict.REGRESSED) == 0


def test_no_baseline_is_called_changed_between_any_two_commits_on_an_h200(h200: Store) -> None:
    """Each baseline judged as if it were ours, with the others as its controls."""
    commits = [queries.find_commit(h200, "warpwatch", name) for name in COMMITS[2:]]
    for base, head in itertools.combinations([commit.hash for commit in commits if commit], 2):
        found = queries.pairs(h200, "warpwatch", base, head, machine="nvidia-h200")
        rivals = [pair for pair in found if pair.series.is_baseline]
        noises = HistoryNoises(found, {}, {})
        verdicts = family_verdicts(
            [_estimate(pair, 0.02, 0.0, noises, {}) for pair in rivals], [Better.LOWER] * len(rivals), threshold=0.02
        )
        assert len(verdicts) > 40
        assert not {Verdict.REGRESSED, Verdict.IMPROVED} & set(verdicts)


def test_the_analysis_finds_a_step_of_five_per_cent_on_an_h200_and_none_in_its_baselines(h200: Store) -> None:
    analyse(h200)
    ends = [queries.find_commit(h200, "warpwatch", name) for name in ("27c0a241", "169cdf93")]
    first, last = (commit.hash for commit in ends if commit)
    every = [pair.series for pair in queries.pairs(h200, "warpwatch", first, last)]
    found = {
        (series.workload, series.implementation): [(c.commit.hash[:8], round(c.magnitude, 2)) for c in history.changes]
        for series in every
        if (history := stored_history(h200, series.key)) is not None and history.changes
    }
    assert {implementation for _, implementation in found} == {"warpwatch"}
    assert found["cuda-fp16-b1-h32-s1024-d128-causal", "warpwatch"] == [("27c0a241", -0.05)]
    assert found["cuda-fp16-b1-h32-s2048-d128-causal", "warpwatch"] == [("4d95a140", -0.26)]
    assert found["cuda-fp16-k4096-n14336-m1", "warpwatch"] == [("4d95a140", -0.05)]
