"""Histories that several GPUs of one model measured: steps, transients, verdicts and reasons."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from tests.asv_results import hash_of
from tests.dashboard.suite_results import MATMUL, TRIAD, Suite
from tests.golden.histories import database_in, recorded_histories
from tests.stored import stored_history
from warpwatch.dashboard.analysis.series_analysis import analyse
from warpwatch.dashboard.importers.asv_folder import open_folder
from warpwatch.dashboard.importers.import_asv import import_results
from warpwatch.dashboard.model.metric import metric
from warpwatch.dashboard.model.overview import OverviewEntry, RowState
from warpwatch.dashboard.model.verdict import ChangeKind, Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.statistics.comparison import RunValue
from warpwatch.dashboard.statistics.detection import detect
from warpwatch.dashboard.statistics.distributions import t_p_value
from warpwatch.dashboard.statistics.gpu_history import SessionChain, detect_across_gpus
from warpwatch.dashboard.store import Store, queries, schema
from warpwatch.dashboard.text.labels import inconclusive_reason, state_detail
from warpwatch.dashboard.web.app import create_app

SCATTER, ERROR = 0.005, 0.001  # of an unchanged series; of the references' estimate
FAMILY = 100
A, B, C, D = (f"GPU-{letter}" for letter in "abcd")


def _chain(
    values: Sequence[float],
    gpus: Sequence[str],
    *,
    commits: Sequence[int] | None = None,
    breaks: Sequence[int] = (),
    level: float = 1e-4,
) -> SessionChain:
    """Adjusted values as `values` are, measured by GPUs that differ from each other."""
    factor = {gpu: 1 + 0.03 * number for number, gpu in enumerate(dict.fromkeys(gpus))}
    logs = np.log(values)
    deviation = np.concatenate([[math.nan], np.diff(logs)])
    deviation[[*breaks]] = math.nan
    count = len(values)
    p_values = [
        math.nan if math.isnan(each) else t_p_value(abs(each) / math.hypot(SCATTER, ERROR), 4)
        for each in deviation.tolist()
    ]
    return SessionChain(
        commits=np.array(commits if commits is not None else range(count)),
        gpus=tuple(gpus),
        levels=level * np.array(values) * np.array([factor[gpu] for gpu in gpus]),
        deviation=deviation,
        variance=np.full(count, ERROR**2),
        scatter=np.full(count, SCATTER),
        df=np.full(count, 4),
        q_value=np.array([FAMILY * p / 10 for p in p_values]),  # as among ten that changed
        family=np.full(count, FAMILY),
        references=np.full(count, 200),
    )


def _scattered(levels: Sequence[float], seed: int = 1) -> list[float]:
    noise = np.random.default_rng(seed).normal(0, SCATTER / math.sqrt(2), len(levels))
    return (np.array(levels) * np.exp(noise)).tolist()


def test_other_gpus_alone_are_no_step() -> None:
    found = detect_across_gpus(_chain(_scattered([1.0] * 12), [A, B, C, D] * 3), smallest_change=0.01)
    assert found.changes == ()
    assert found.episodes == ()


def test_a_clear_step_is_found_at_its_first_commit() -> None:
    found = detect_across_gpus(_chain(_scattered([1, 1, 1, 0.7]), [A, B, C, D]), smallest_change=0.01)
    (change,) = found.changes
    assert (change.index, change.first, change.last) == (3, 3, 3)
    assert change.ci_low < -0.3 < change.ci_high
    assert change.adjusted is not None
    assert change.adjusted.is_across
    assert change.adjusted.gpus == 1


def test_further_gpus_confirm_a_step_and_narrow_its_interval() -> None:
    alone = detect_across_gpus(_chain(_scattered([1, 0.8]), [A, B]), smallest_change=0.01)
    held = detect_across_gpus(_chain(_scattered([1, 1, 1, 0.8, 0.8, 0.8]), [A, B, C, A, B, C]), smallest_change=0.01)
    ((once,), (change,)) = (alone.changes, held.changes)
    assert change.adjusted is not None
    assert change.adjusted.gpus == 3
    assert change.ci_low < -0.2 < change.ci_high
    assert change.ci_high - change.ci_low < 0.6 * (once.ci_high - once.ci_low)
    assert change.p_value < once.p_value


def test_a_small_step_needs_several_gpus_not_several_runs_of_one() -> None:
    levels = [1.0] * 4 + [1.025] * 4
    several = detect_across_gpus(_chain(levels, [A, B, C, D] * 2), smallest_change=0.01)
    one = detect_across_gpus(_chain(levels, [A] * 4 + [B] * 4), smallest_change=0.01)
    (change,) = several.changes
    assert change.first <= 4 <= change.last
    assert one.changes == ()


def test_one_commit_between_two_equal_levels_is_a_transient() -> None:
    found = detect_across_gpus(_chain(_scattered([1, 1, 1, 1.3, 1, 1]), [A, B, C, D, A, B]), smallest_change=0.01)
    assert found.changes == ()
    (episode,) = found.episodes
    assert (episode.kind, episode.first, episode.last) == (ChangeKind.TRANSIENT, 3, 3)


def test_nothing_is_reported_across_a_break() -> None:
    chain = _chain([1, 1, 0.7, 0.7], [A, B, C, D], breaks=[2])
    assert detect_across_gpus(chain, smallest_change=0.01).changes == ()
    assert chain.broken_commits == [2]
    assert chain.ratios[[1, 3]].tolist() == [1.0, 1.0]


def test_a_step_that_one_gpu_measured_on_both_sides_is_not_across_gpus() -> None:
    found = detect_across_gpus(_chain(_scattered([1, 1, 0.8, 0.8]), [A, B, B, A]), smallest_change=0.01)
    (change,) = found.changes
    assert change.adjusted is not None
    assert not change.adjusted.is_across


def test_a_small_step_within_one_gpus_commits_is_found_though_another_gpu_ran_between() -> None:
    """The recorded attention at 27c0a241: 4.7 %, three commits on each side; two are too few."""

    def steps(after: int) -> list[tuple[int, float]]:
        gpus = [A, A, A, B, *[A] * after, C, D, B, C, D, B, C, D, B, C]
        values = [1.0, 1.001, 0.998, 0.999, *[0.952] * after, *[0.955, 0.935, 0.957] * 3, 0.955]
        count = len(values)  # few references: the chain is less certain than one GPU's own values
        chain = replace(_chain(values, gpus), q_value=np.full(count, 0.5), variance=np.full(count, 0.006**2))
        runs = [[RunValue(value=value, gpu=gpu)] for value, gpu in zip(values, gpus, strict=True)]
        found = detect(runs, metric("latency", "seconds"), None, chain)
        return [(change.index, round(change.magnitude, 2)) for change in found.changes]

    assert steps(after=3) == [(4, -0.05)]
    assert steps(after=2) == []


def test_indices_count_commits_and_not_sessions() -> None:
    chain = _chain([1, 1, 1, 0.7, 0.7], [A, A, B, B, C], commits=[4, 7, 7, 9, 9])
    (change,) = detect_across_gpus(chain, smallest_change=0.01).changes
    assert change.index == 2
    assert len(chain.ratios) == 3


def test_ratios_turn_what_was_measured_into_one_level() -> None:
    chain = _chain([1, 1, 1, 1], [A, B, C, B])
    assert (chain.ratios * chain.levels).tolist() == pytest.approx([chain.levels[-1]] * 4)


def test_long_histories_are_found_by_the_detector_of_one_gpu_and_their_newest_step_at_once() -> None:
    levels = [1.0] * 60 + [1.1] * 60 + [0.8]
    found = detect_across_gpus(_chain(_scattered(levels), [A, B, C, D] * 30 + [A]), smallest_change=0.01)
    assert [change.index for change in found.changes] == [60, 120]
    assert [change.adjusted.gpus for change in found.changes if change.adjusted] == [4, 1]


@given(
    steps=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.05, -0.2]), min_size=2, max_size=14),
    factor=st.sampled_from([2.0**-10, 1.0, 2.0**10]),
)
def test_findings_do_not_depend_on_the_unit(steps: list[float], factor: float) -> None:
    values = _scattered(np.exp(np.cumsum(steps)).tolist())
    gpus = [[A, B, C, D][place % 4] for place in range(len(values))]
    found, scaled = (
        detect_across_gpus(_chain(values, gpus, level=level), smallest_change=0.01) for level in (1e-4, 1e-4 * factor)
    )
    assert [change.index for change in found.changes] == [change.index for change in scaled.changes]


def test_unchanged_series_are_seldom_reported() -> None:
    """Of histories of ten GPUs with t4 scatter, at most one in 200 points is a step before the false discovery rate."""
    rng = np.random.default_rng(3)
    found, points = 0, 0
    for _ in range(200):
        values = np.exp(SCATTER / 2 * rng.standard_t(4, 12) * 0.9)
        gpus = [f"GPU-{rng.integers(10)}" for _ in range(12)]
        chain = _chain(values.tolist(), gpus)
        found += len(detect_across_gpus(chain, smallest_change=0.01).changes)
        points += len(chain) - 1
    assert found / points < 0.005


def _fleet(asv: Any, store: Store, workloads: int, **head: Any) -> OverviewEntry:
    """Four commits on two GPUs, and one on a third on which ours became 40 % faster; the first row of the overview."""
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(workloads)))
    for number in range(4):
        history.commit(number, card=f"GPU-{'ab'[number % 2] * 8}-1")
    slower = dict.fromkeys(("eager", TRIAD, MATMUL), 1.02)
    history.commit(4, {"warpwatch": 0.6, **slower}, card="GPU-cccccccc-1", **head)
    asv.load(store)
    return queries.standings(store, "demo")[0]


def test_a_step_across_gpus_is_the_verdict_of_the_series(sqlite_store: Store, asv: Any) -> None:
    entry = _fleet(asv, sqlite_store, 45)
    assert entry.state is RowState.IMPROVED
    assert entry.is_across_gpus
    assert state_detail(entry) == "−41.2 % across GPUs"
    history = stored_history(sqlite_store, entry.row.series.key)
    assert history is not None
    (change,) = history.changes
    assert change.is_across_gpus
    assert (change.commit.hash, change.previous_commit.hash) == (hash_of(4), hash_of(3))
    assert change.ci_low < 0.6 / 1.02 - 1 < change.ci_high
    assert change.q_value is not None
    assert change.q_value < 0.001
    assert change.share is None


def test_the_api_has_levels_of_gpu_adjusted_values(sqlite_store: Store, asv: Any, tmp_path: Path) -> None:
    entry = _fleet(asv, sqlite_store, 45)
    app = create_app(Settings(database=f"sqlite:///{tmp_path / 'history.db'}"))
    answer = app.test_client().get(f"/api/projects/demo/series/{entry.row.series.key}/history").get_json()
    before, after = answer["levels"]
    assert (before["commits"], after["commits"]) == (4, 1)
    assert {(each["gpu"], each["is_gpu_adjusted"]) for each in (before, after)} == {(None, True)}
    assert after["value"] / before["value"] == pytest.approx(0.6 / 1.02, abs=0.005)


def test_too_few_references_are_the_reason_of_no_verdict(sqlite_store: Store, asv: Any) -> None:
    entry = _fleet(asv, sqlite_store, 5)
    assert entry.state is RowState.FEW_REFERENCES
    assert state_detail(entry) == "7 of 20"
    assert inconclusive_reason(entry.row) == "another GPU measures it now, with 7 of 20 references"


def test_an_unchanged_series_states_the_spread_between_gpus(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(45)))
    for number in range(3):
        history.commit(number, card=f"GPU-{'abc'[number] * 8}-1")
    asv.load(sqlite_store)
    entry = queries.standings(sqlite_store, "demo")[0]
    assert entry.state is RowState.UNCHANGED
    assert state_detail(entry).startswith("GPU-to-GPU spread ±")


def test_the_next_session_changes_the_findings_of_all_series(sqlite_store: Store, asv: Any) -> None:
    """A series that the new run does not measure is analysed again too: its machine's references are others."""
    _fleet(asv, sqlite_store, 45)
    with sqlite_store.read() as connection:
        series = schema.series
        chained = connection.execute(select(series.c.id).where(series.c.uses_machine_noise)).scalars().all()
    assert len(chained) == 92  # 45 workloads by two implementations, and two canaries
    Suite(asv, workloads=("w0",)).commit(5, card="GPU-cccccccc-1")
    import_results(sqlite_store, open_folder(asv.folder, project="demo", repository=None))
    assert analyse(sqlite_store) >= 92


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Of the golden histories the one of an H200: five recorded commits on five GPUs, of five benchmarks."""
    store = Store(database_in(recorded_histories(tmp_path_factory)))
    yield store
    store.close()


def _attention(store: Store) -> list[OverviewEntry]:
    return [
        entry
        for entry in queries.standings(store, "h200")
        if entry.row.operator == "flash_attention"
        and entry.row.series.implementation == "warpwatch"
        and entry.row.series.metric.is_latency
        and entry.row.value is not None
    ]


def test_the_recorded_history_shows_what_hopper_attention_gained(recorded: Store) -> None:
    entries = _attention(recorded)
    assert len(entries) == 24
    steps = {}
    for entry in entries:
        history = stored_history(recorded, entry.row.series.key)
        assert history is not None
        steps[entry.row.series.key] = [
            change for change in history.changes if change.commit.hash.startswith("0aec5df1")
        ]
    found = [change for each in steps.values() for change in each]
    assert len(found) >= 20
    assert all(change.kind is ChangeKind.STEP and change.is_across_gpus and not change.is_worse for change in found)
    assert {change.gpus for change in found} <= {2, 3}
    assert math.exp(np.mean([math.log1p(change.magnitude) for change in found])) - 1 == pytest.approx(-0.37, abs=0.05)
    typical = math.exp(np.mean([math.log1p(entry.year) for entry in entries])) - 1
    assert typical == pytest.approx(-0.32, abs=0.05)


def test_where_nothing_changed_the_recorded_history_reports_few_steps(recorded: Store) -> None:
    page = queries.commit_page(recorded, "h200", _full(recorded, "787295a5"))
    assert page is not None
    steps = [
        row
        for row in page.changes
        if row.change.kind is ChangeKind.STEP and row.series.is_ours and row.series.metric.is_time
    ]
    assert len(steps) <= 2


def test_every_inconclusive_series_has_its_reason(recorded: Store) -> None:
    for entry in queries.standings(recorded, "h200"):
        has_reason = inconclusive_reason(entry.row) is not None
        assert has_reason == (entry.row.verdict is Verdict.INCONCLUSIVE)


def _full(store: Store, prefix: str) -> str:
    commit = queries.find_commit(store, "h200", prefix)
    assert commit is not None
    return commit.hash
