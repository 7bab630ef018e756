"""What the compare page is made of: reading, narrowing, difference of compiled code, figures, what is remembered."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists

from tests.stored import stored_history
from warpwatch.dashboard.analysis.compare_sides import compare_commits
from warpwatch.dashboard.analysis.comparison_columns import comparison_columns
from warpwatch.dashboard.model.comparison import AcrossGpus, ComparisonRow
from warpwatch.dashboard.model.compiled_code import CompiledCode, compiled_difference
from warpwatch.dashboard.model.series import Status
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.settings import Settings
from warpwatch.dashboard.statistics.noise import difference_scale
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.comparison_labels import evidence, remark, short_remark
from warpwatch.dashboard.web.app import create_app
from warpwatch.dashboard.web.comparison_filter import QUIET, ComparisonFilter, apply
from warpwatch.dashboard.web.figures.samples import COMMITS, recent_figure, samples_of


def test_a_pair_has_the_levels_of_its_history_on_the_card_of_both(history_store: Settings) -> None:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    seen = 0
    for base, head in ((commits[1], commits[0]), (commits[-1], commits[2]), (commits[8], commits[8])):
        for pair in queries.pairs(store, "kernels", base.hash, head.hash)[::7]:
            history = stored_history(store, pair.series.key)
            assert history is not None
            points = [point for point in history.points if point.status is Status.OK]
            cards = {
                side: {point.gpu for point in points if point.commit == side and not pair.series.metric.is_exact}
                for side in (base, head)
            }
            both = cards[base] & cards[head]
            wanted = both or (cards[head] if all(cards.values()) else set())
            levels: dict[str, list[float]] = {}
            for point in points:
                if point.value is not None and (not wanted or point.gpu in wanted):
                    levels.setdefault(point.commit.hash, []).append(point.value)
            assert pair.levels.tolist() == [median(values) for values in levels.values()]
            seen += 1
    store.close()
    assert seen > 20


@given(lists(floats(-1e3, 1e3), min_size=1, max_size=60))
def test_the_scale_of_differences_is_numpys_quantile(values: list[float]) -> None:
    assert difference_scale(values) == float(np.quantile(np.abs(values), 0.683)) / math.sqrt(2)


@pytest.fixture(scope="module")
def rows(history_store: Settings) -> Sequence[ComparisonRow]:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    found = compare_commits(store, "kernels", commits[-2], commits[1], threshold=0.02).rows
    store.close()
    return found


def test_a_filter_hides_and_counts_quiet_rows_and_means_are_of_all_that_match(rows: Sequence[ComparisonRow]) -> None:
    plain, whole = (
        apply(each, rows, comparison_columns(rows)) for each in (ComparisonFilter(), ComparisonFilter(show_all=True))
    )
    assert plain.matching == whole.matching
    assert sum(number for _, number in plain.hidden) == len(whole.rows) - len(plain.rows)
    assert {verdict for verdict, _ in plain.hidden} <= QUIET
    for filtered in (plain, whole):
        for mean in filtered.means:
            logs = [
                math.log(1 + row.estimate.change)
                for row in rows
                if row.series.metric_record == mean.metric and row.estimate and row.base
            ]
            assert mean.rows == len(logs)
            assert mean.change == pytest.approx(math.exp(sum(logs) / len(logs)) - 1)


def test_a_change_stands_against_the_noise_of_one_run(rows: Sequence[ComparisonRow]) -> None:
    with_noise = [row for row in rows if row.times_noise is not None]
    assert with_noise
    for row in with_noise:
        assert row.estimate is not None
        change = row.estimate.change
        assert math.expm1(row.times_noise * row.estimate.noise) == pytest.approx(max(change, -change / (1 + change)))


def _code(kernel: str, registers: int = 96, sha: str = "a", **instructions: int) -> CompiledCode:
    return CompiledCode(
        operator="rope",
        kernel=kernel,
        architecture="sm_90a",
        registers=registers,
        stack_bytes=0,
        shared_bytes=None,
        local_memory_instructions=0,
        code_bytes=1,
        instructions=instructions,
        sha256=sha,
        implementation=None,
        dynamic_shared_bytes=None,
        barriers=None,
        occupancy=None,
        occupancy_limit=None,
    )


def test_compiled_code_differs_by_what_was_counted_new_gone_or_hash_alone() -> None:
    before = [_code("same"), _code("more", HMMA=4, LDL=0), _code("gone"), _code("shuffled")]
    after = [
        _code("same"),
        _code("more", registers=128, HMMA=4, LDL=16, total=2),
        _code("new"),
        _code("shuffled", sha="b"),
    ]
    found = compiled_difference(before, after)
    assert found.unchanged == 1
    by_kernel = {change.kernel: change for change in found.changes}
    assert {name: change.word for name, change in by_kernel.items()} == {
        "gone": "gone",
        "more": "",
        "new": "new",
        "shuffled": "other machine code, the same counts",
    }
    assert [(fact.name, fact.before, fact.after) for fact in by_kernel["more"].facts] == [("registers", 96, 128)]
    assert [fact.name for fact in by_kernel["more"].instructions] == ["total", "LDL"]
    assert not compiled_difference([], after).has_both


def test_compiled_code_known_on_one_side_alone_is_no_difference() -> None:
    complete = [_code("rope", registers=96, HMMA=4, total=4)]
    older = [replace(complete[0], sha256=None, registers=None, instructions={})]
    for before, after in ((older, complete), (complete, older)):
        found = compiled_difference(before, after)
        assert (found.changes, found.unchanged) == ((), 1)
    other = [replace(older[0], code_bytes=2)]
    (change,) = compiled_difference(complete, other).changes
    assert [(fact.name, fact.before, fact.after) for fact in change.facts] == [("code", 1, 2)]


@given(lists(floats(1e-6, 1e-3), min_size=2, max_size=500), floats(1.0, 50.0))
def test_samples_of_both_sides_lie_on_the_axis_but_for_the_outermost(samples: list[float], times: float) -> None:
    found = samples_of([("base", samples), ("head", [times * each for each in samples])], "seconds")
    assert found is not None
    low, high = found.figure.layout.xaxis.range
    for side, box in zip(found.sides, found.figure.data, strict=True):
        assert side.count == len(samples)
        assert side.least <= side.q25 <= side.median <= side.q75 <= side.most
        assert side.outside <= max(2, 0.03 * len(samples))
        assert low <= box.q1[0] <= box.median[0] <= box.q3[0] <= high
        assert len(box.x[0]) <= 200
    assert (found.sides[0].least, found.sides[0].most) == (min(samples), max(samples))


def test_samples_that_hardly_differ_do_not_look_far_apart_and_one_alone_is_no_figure() -> None:
    found = samples_of([("base", [1.0, 1.0001]), ("head", [1.0002])], "seconds")
    assert found is not None
    low, high = found.figure.layout.xaxis.range
    assert (high - low) / low >= 0.01
    assert samples_of([("base", [1.0]), ("head", ())], "seconds") is None


def test_a_recent_history_keeps_the_compared_commits_however_old(history_store: Settings) -> None:
    store = Store(history_store.database)
    commits = queries.commits(store, "kernels")
    key = queries.find_series(store, "kernels", search="rope warpwatch track_latency").series[0].key
    points = queries.series_points(store, key)
    found = recent_figure([("rope", points)], [("base", commits[-1]), ("head", commits[0])], "seconds")
    store.close()
    assert found is not None
    assert [label.text for label in found.layout.annotations] == ["base", "head"]
    assert found.layout.shapes[0].x0 < found.layout.shapes[1].x0
    (line,) = found.data
    assert len(line.x) <= COMMITS + 2
    assert {found.layout.shapes[0].x0, found.layout.shapes[1].x0} <= set(line.x)
    assert recent_figure([("rope", ())], [("base", commits[0])], "seconds") is None


def test_a_point_shows_samples_and_code_as_a_comparison_does(history_store: Settings) -> None:
    store = Store(history_store.database)
    series = queries.find_series(store, "kernels", search="rope warpwatch track_latency").series[0]
    facts = queries.point_facts(store, series.key, None)
    store.close()
    assert facts is not None
    assert facts.before is not None
    assert facts.compiled
    panel = create_app(history_store).test_client().get(f"/kernels/series/{series.key}/point").text
    assert panel.count('<p class="ww-sampled') == bool(facts.samples) + bool(facts.samples_before) > 0
    assert panel.count("ww-plot-samples") == 1
    difference = compiled_difference(facts.compiled_before, facts.compiled)
    assert difference.has_both
    assert f"{difference.unchanged} build" in panel
    assert panel.count("ww-code-name") == len(difference.changes)


def test_a_reason_of_many_rows_is_shown_once(history_store: Settings) -> None:
    store = Store(history_store.database)
    newest, before = queries.commits(store, "kernels", limit=2)
    compared = compare_commits(store, "kernels", before, newest, threshold=0.02)
    store.close()
    across = AcrossGpus(expected=-0.01, spread=0.024, references=297, q_value=0.3)

    def inconclusive(row: ComparisonRow, reason: str, across: AcrossGpus | None = None) -> ComparisonRow:
        state = {"verdict": Verdict.INCONCLUSIVE, "reason": reason, "estimate": None, "across_gpus": across}
        return row.model_copy(update=state)

    one, two = "not enough reference measurements (3 of 20): base was measured on A", "within GPU-to-GPU spread"
    rows = [inconclusive(row, one) for row in compared.rows[:4]]
    rows += [inconclusive(row, two, across) for row in compared.rows[4:7]]
    rows += [inconclusive(compared.rows[7], "the machine moved: canary triad +3.0 %")]
    shared = replace(compared, comparison=compared.comparison.model_copy(update={"rows": tuple(rows)})).shared_reasons
    assert [(each.reason, each.rows) for each in shared] == [(one, 4), (two, 3)]
    said = {each.reason for each in shared}
    assert short_remark(rows[0], said).startswith("not enough reference measurements")
    assert "measured on" not in short_remark(rows[0], said)
    assert remark(rows[4]) == "within GPU-to-GPU spread (±2.40 %)"
    assert short_remark(rows[-1], said).startswith("the machine moved: canary triad +3.0 %")


_NOISY = "too noisy to compare"


@pytest.mark.parametrize(
    ("needed", "advice"),
    [(1, "needs 1 more run of each"), (30, "needs 30 more runs of each"), (31, _NOISY), (794, _NOISY)],
)
def test_only_so_many_more_runs_are_advised(history_store: Settings, needed: int, advice: str) -> None:
    store = Store(history_store.database)
    newest, before = queries.commits(store, "kernels", limit=2)
    compared = compare_commits(store, "kernels", before, newest, threshold=0.02)
    store.close()
    row = next(each for each in compared.rows if each.estimate is not None and not each.reason)
    assert row.estimate is not None
    estimate = row.estimate.model_copy(update={"runs_needed": needed})
    noisy = row.model_copy(update={"verdict": Verdict.INCONCLUSIVE, "estimate": estimate})
    assert evidence(noisy).startswith(advice)
