"""Changes of a kernel by metric and direction, and the commits' evidence for them."""

import pytest

from tests.asv_results import AsvResults, hash_of
from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.analysis.causes import ChangeCause, SoftwareChange, change_causes
from warpwatch.dashboard.analysis.kernel_curves import kernel_curves
from warpwatch.dashboard.model.kernel_line import kernel_lines
from warpwatch.dashboard.model.metric import Metric, metric
from warpwatch.dashboard.model.metric_change import ChangedSeries, MetricChanges, metric_changes
from warpwatch.dashboard.model.overview import RowState, trend_state
from warpwatch.dashboard.model.quantities import change_arrow
from warpwatch.dashboard.model.series import Series
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.store import Store, queries
from warpwatch.dashboard.text.change_words import cause_words

LATENCY, WARM, MEMORY = (
    metric(name, unit) for name, unit in (("latency", "seconds"), ("warm_latency", "seconds"), ("peak_memory", "bytes"))
)


def _changed(kind: Metric, change: float, implementation: str = "warpwatch") -> ChangedSeries:
    series = Series(
        key=f"{kind.name} {change} {implementation}",
        project="p",
        benchmark="b.Rope.track_latency",
        parameters=(),
        metric=kind,
        machine="m",
        environment="e",
        workload="w",
        implementation=implementation,
        is_baseline=False,
        listed=True,
    )
    verdict = Verdict.REGRESSED if kind.is_worse(change) else Verdict.IMPROVED
    return ChangedSeries(series=series, verdict=verdict, change=change, is_across_gpus=False)


def _changes(*changed: ChangedSeries) -> MetricChanges:
    return metric_changes(changed, "warpwatch", lambda _kind, _implementation: 4)


def test_each_metric_and_direction_has_its_own_mean_and_count() -> None:
    found = _changes(_changed(LATENCY, -0.5), _changed(LATENCY, -0.02), _changed(LATENCY, 0.1), _changed(MEMORY, 1.0))
    worse, better, memory = found.leading
    assert (worse.metric, worse.verdict, worse.change, worse.count) == (
        LATENCY,
        Verdict.REGRESSED,
        pytest.approx(0.1),
        1,
    )
    assert (better.change, better.count, better.of) == (pytest.approx((0.5 * 0.98) ** 0.5 - 1), 2, 4)  # geometric
    assert (memory.metric, memory.verdict, memory.change) == (MEMORY, Verdict.REGRESSED, pytest.approx(1.0))
    assert found.further == ()


def test_a_warm_latency_that_restates_the_latency_and_other_implementations_are_not_leading() -> None:
    found = _changes(_changed(LATENCY, -0.3), _changed(WARM, -0.3), _changed(LATENCY, -0.2, "triton"))
    assert [(each.metric, each.implementation) for each in found.leading] == [(LATENCY, ""), (LATENCY, "triton")]
    assert [each.metric for each in found.further] == [WARM]
    against = _changes(_changed(LATENCY, -0.3), _changed(WARM, 0.3))
    assert [each.metric for each in against.leading] == [LATENCY, WARM]  # in the other direction it is news


def test_a_regression_is_never_hidden_behind_improvements() -> None:
    others = [metric(name, "bytes") for name in ("a", "b", "c", "d")]
    found = _changes(*(_changed(each, -0.5) for each in others), _changed(LATENCY, 0.2, "triton"))
    assert found.leading[0].verdict is Verdict.REGRESSED


def test_what_fell_to_zero_has_a_change() -> None:
    (only,) = _changes(_changed(MEMORY, -1.0)).leading
    assert (only.change, change_arrow(only.change)) == (-1.0, "▼100.0 %")


def test_an_arrow_is_of_the_value_and_no_change_has_none() -> None:
    assert [change_arrow(each) for each in (-0.29, 0.041, 1.0, 0.0, 0.0001, None)] == [
        "▼29.0 %",
        "▲4.1 %",
        "▲2×",
        "0.0 %",
        "0.0 %",
        "–",
    ]


def test_a_trend_has_a_direction_only_if_steps_and_line_agree() -> None:
    assert trend_state(-0.3, (1.0, None, 0.7), LATENCY) is RowState.IMPROVED
    assert trend_state(0.3, (1.0, 1.3), LATENCY) is RowState.REGRESSED
    for change, line in ((0.0, (1.0, 0.7)), (-0.3, (0.7, 1.0)), (-0.3, (0.7,))):
        assert trend_state(change, line, LATENCY) is RowState.UNCHANGED


def _loaded(store: Store, asv: AsvResults, *, code: str, suite: str) -> None:
    history = Suite(asv)
    for number in range(16):
        is_new = number >= 10
        history.commit(
            number,
            {"warpwatch": 0.7 if is_new else 1.0},
            code=code if is_new else "a" * 64,
            more={"suite_sha256": suite if is_new else "1" * 64},
        )
    asv.load(store)


@pytest.mark.parametrize(
    ("code", "suite", "words"),
    [
        ("b" * 64, "1" * 64, "machine code changed"),
        ("a" * 64, "2" * 64, "same machine code; harness changed"),
        ("a" * 64, "1" * 64, "same machine code"),
    ],
)
def test_the_cause_of_the_last_change_is_what_differs_from_the_commit_before(
    store: Store, asv: AsvResults, code: str, suite: str, words: str
) -> None:
    _loaded(store, asv, code=code, suite=suite)
    (line,) = kernel_lines(queries.standings(store, "demo"))
    assert [each.verdict for each in line.changes.leading] == [Verdict.IMPROVED]
    assert line.change_commit is not None
    assert line.change_commit.hash == hash_of(10)
    causes = change_causes(store, "demo", [line])
    assert cause_words(causes[line.key]) == words


def test_a_cause_in_words_names_the_kernel_and_the_versions() -> None:
    cause = ChangeCause(
        launched="rope_sm90a",
        with_code=3,
        code_changed=1,
        software=(SoftwareChange(name="driver", before="570", after="580"),),
    )
    assert cause_words(cause) == "other kernel launched: rope_sm90a; driver 570 → 580"
    partly = ChangeCause(launched=None, with_code=3, code_changed=1, software=())
    assert cause_words(partly) == "machine code of 1 of 3 changed"
    assert cause_words(ChangeCause(launched=None, with_code=0, code_changed=0, software=())) == ""


def test_curves_are_relative_to_the_best_baseline_now_and_mark_the_harness(store: Store, asv: AsvResults) -> None:
    _loaded(store, asv, code="b" * 64, suite="2" * 64)
    (line,) = kernel_lines(queries.standings(store, "demo"))
    curve = kernel_curves(store, "demo", [line])[line.key]
    assert len(curve.ours) == len(curve.baseline) == 16
    assert curve.baseline[-1] == pytest.approx(1.0)
    assert line.baseline is not None
    assert curve.ours[-1] == pytest.approx(1 / line.baseline.value)
    assert curve.ours[0] is not None
    assert curve.ours[0] == pytest.approx(0.5, rel=0.01)  # 100 µs of the baseline's 200
    assert [(mark.place, [each.name for each in mark.changes]) for mark in curve.marks] == [(10, ["suite"])]
