"""What a machine's history says of its numbers: intervals of shares, smallest changes, false alarms, conditions."""

import itertools
import math
from datetime import UTC, datetime
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dashboard.suite_results import Suite
from warpwatch.dashboard.analysis.trust import RUNS, trust
from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.thresholds import LimitRules, series_limits
from warpwatch.dashboard.model.verdict import NoiseSource, Verdict
from warpwatch.dashboard.statistics.comparison import FAMILY_ERROR, RunValue, compare, family_verdicts
from warpwatch.dashboard.statistics.distributions import counted_share, critical_value, t_p_value
from warpwatch.dashboard.statistics.noise import Noise, noise_scale, noise_scales
from warpwatch.dashboard.statistics.power import POWER, detectable_change
from warpwatch.dashboard.store import Store, queries

CODE = "a" * 64
noises = st.builds(
    Noise,
    scale=st.floats(0.0005, 0.05),
    source=st.sampled_from([NoiseSource.HISTORY, NoiseSource.RERUNS]),
    df=st.one_of(st.none(), st.integers(2, 30)),
)


def _tail(first: int, last: int, of: int, share: Fraction) -> Fraction:
    """Of the binomial, term by term in exact fractions."""
    terms = (math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(first, last + 1))
    return sum(terms, Fraction(0))


@given(st.integers(1, 40).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_leaves_a_fortieth_on_either_side(case: tuple[int, int]) -> None:
    count, of = case
    share = counted_share(count, of)
    assert share is not None
    assert 0 <= share.ci_low <= share.value <= share.ci_high <= 1
    if count > 0:
        assert float(_tail(count, of, of, Fraction(share.ci_low))) == pytest.approx(0.025, rel=1e-6)
    if count < of:
        assert float(_tail(0, count, of, Fraction(share.ci_high))) == pytest.approx(0.025, rel=1e-6)
    turned = counted_share(of - count, of)
    assert turned is not None
    assert (1 - turned.ci_high, 1 - turned.ci_low) == pytest.approx((share.ci_low, share.ci_high), abs=1e-9)


def test_nothing_has_no_share_and_nothing_seen_is_no_certainty() -> None:
    assert counted_share(0, 0) is None
    none = counted_share(0, 217)
    assert none is not None
    assert (none.ci_low, none.ci_high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 217)))


@given(st.floats(1e-7, 0.2), st.integers(1, 60))
def test_a_critical_value_is_where_the_tail_is_the_level(level: float, df: int) -> None:
    assert t_p_value(critical_value(level, df), df) == pytest.approx(level, rel=1e-3)
    assert critical_value(level, None) <= critical_value(level, df) * (1 + 1e-9)


@given(noises, st.sampled_from([1, 2, 3, 5]), st.integers(1, 3000))
def test_a_change_at_the_bar_is_just_what_the_check_rejects(noise: Noise, runs: int, family: int) -> None:
    """The twin: the comparison itself, asked for its p at the change that the formula starts from."""
    smallest = detectable_change(noise, inside=0.0, runs=runs, family=family, threshold=1e-9)
    error = max(noise.scale, 0.0005) * math.sqrt(2 / runs)
    bar = math.log1p(smallest) - 0.8416212 * error
    sides = [[RunValue(value=each)] * runs for each in (1.0, math.exp(bar))]
    is_rerun = noise.source is NoiseSource.RERUNS
    compared = compare(
        *sides,
        history_noise=None if is_rerun else noise,
        rerun_noise=noise if is_rerun else None,
        same_session=is_rerun,
        threshold=0.02,
    )
    assert compared is not None
    assert compared.p_value == pytest.approx(FAMILY_ERROR / family, rel=0.02)


@given(noises, st.floats(0.001, 0.1))
def test_more_runs_and_smaller_families_detect_smaller_changes(noise: Noise, threshold: float) -> None:
    def smallest(runs: int, family: int) -> float:
        return detectable_change(noise, inside=0.0, runs=runs, family=family, threshold=threshold)

    assert smallest(1, 100) >= smallest(3, 100) >= smallest(5, 100) >= threshold
    assert smallest(1, 1) <= smallest(1, 10) <= smallest(1, 1000)


def test_noise_with_hardly_any_evidence_detects_nothing_and_breaks_nothing() -> None:
    noise = Noise(scale=0.1, source=NoiseSource.RERUNS, df=1)
    smallest = detectable_change(noise, inside=0.0, runs=1, family=379, threshold=0.02)
    assert 1e6 < smallest < math.inf


def test_four_of_five_changes_of_that_size_are_detected() -> None:
    random = np.random.default_rng(20)
    noise = Noise(scale=0.004)
    change = detectable_change(noise, inside=0.0, runs=1, family=1, threshold=0.01)
    detected = 0
    for _ in range(2000):
        base, head = np.exp(random.normal(0, 0.004, 2)) * (1.0, 1 + change)
        compared = compare([RunValue(value=base)], [RunValue(value=head)], history_noise=noise, threshold=0.01)
        detected += family_verdicts([compared], [Better.LOWER], threshold=0.01) == (Verdict.REGRESSED,)
    assert detected / 2000 == pytest.approx(POWER, abs=0.03)


@given(st.lists(st.lists(st.floats(-1, 1), min_size=20, max_size=20), min_size=1, max_size=6))
def test_the_noise_of_many_series_at_once_is_that_of_each(rows: list[list[float]]) -> None:
    table = np.array(rows)
    assert noise_scales(table).tolist() == pytest.approx([noise_scale(row) for row in table])


def test_equal_code_of_a_calm_machine_raises_no_alarm_and_a_jump_does(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(8)))
    for number in range(20):
        history.commit(number, code=CODE)
    asv.load(store)
    found = queries.machine_history(store, "demo", "box")
    assert found is not None
    figures = trust(found, threshold=0.02)
    assert figures.later_sessions is None  # an hour lies between two runs
    assert figures.same_session is not None
    # Of ours every commit against the next, by equal code; rivals and canaries have no two runs of a commit.
    assert (figures.same_session.alarms.count, figures.same_session.alarms.of) == (0, 8 * 19)
    assert (figures.same_session.families.count, figures.same_session.families.of) == (0, 19)
    history.commit(20, {"warpwatch": 1.2}, code=CODE)
    asv.load(store)
    moved = queries.machine_history(store, "demo", "box")
    assert moved is not None
    jumped = trust(moved, threshold=0.02).same_session
    assert jumped is not None
    assert (jumped.alarms.count, jumped.families.count, jumped.beyond_threshold.count) == (8, 1, 8)
    assert jumped.apart_most >= jumped.apart


def test_a_series_own_threshold_decides_what_is_an_alarm_and_what_can_be_seen(store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=("w0", "w1"))
    for number in range(20):
        history.commit(number, {"warpwatch": 1.2 if number == 19 else 1.0}, code=CODE)
    asv.load(store)
    found = queries.machine_history(store, "demo", "box")
    assert found is not None
    rules = LimitRules.model_validate({"rules": [{"machine": ["b*"], "threshold": 0.3}]})
    of_rules = trust(found, threshold=0.02, limits=series_limits(rules, {}, threshold=0.02))
    of_all = trust(found, threshold=0.02)
    assert of_rules.same_session is not None
    assert of_all.same_session is not None
    assert (of_all.same_session.alarms.count, of_all.same_session.beyond_threshold.count) == (2, 2)
    assert (of_rules.same_session.alarms.count, of_rules.same_session.beyond_threshold.count) == (0, 0)
    assert of_rules.same_session.apart_most == of_all.same_session.apart_most
    assert (
        min(each.changes[0] for each in of_rules.detectable) >= 0.3 > max(each.changes[0] for each in of_all.detectable)
    )


def test_runs_of_two_cards_are_no_pair_and_runs_of_one_commit_are(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for hour in range(3):
        history.commit(0, dict.fromkeys(("warpwatch", "eager"), 1 + 0.001 * hour), hour=hour)
        asv.load(store)
    history.commit(1, card="GPU-bbbbbbbb-2")
    asv.load(store)
    found = queries.machine_history(store, "demo", "box")
    assert found is not None
    figures = trust(found, threshold=0.02).same_session
    assert figures is not None
    assert figures.families.of == 2  # the second run against the first, the third against the second
    assert figures.alarms.of == 4 * 2  # ours, the rival and two canaries: three runs are two pairs
    assert queries.machine_history(store, "demo", "nobody") is None
    assert queries.machine_history(store, "nobody", "box") is None


def test_the_smallest_change_rests_on_the_history_of_each_series(store: Store, asv: Any) -> None:
    history = Suite(asv)
    for number in range(30):
        history.commit(number)
    asv.load(store)
    found = queries.machine_history(store, "demo", "box")
    assert found is not None
    figures = trust(found, threshold=0.02)
    (ours,) = figures.detectable
    levels = next(each.value for each in found.series if each.series.is_ours)
    assert ours.level == pytest.approx(median(levels.tolist()))
    assert (ours.source, ours.commits, figures.family) == (NoiseSource.HISTORY, 30, 1)
    assert ours.noise == pytest.approx(noise_scale(np.log(levels)))
    noise = Noise(scale=ours.noise)
    expected = [detectable_change(noise, inside=0.0, runs=runs, family=1, threshold=0.02) for runs in RUNS]
    assert list(ours.changes) == pytest.approx(expected)


def test_outcomes_name_their_reasons_without_the_numbers_in_them(store: Store, asv: Any) -> None:
    history = Suite(asv)
    history.commit(0)
    history.commit(1, status="invalid", reason="the SM clock moved from 1585 to 1649 MHz under int4_linear")
    history.commit(2, status="invalid", reason="the SM clock moved from 1667 to 1901 MHz under int4_linear")
    asv.load(store)
    found = queries.machine_history(store, "demo", "box")
    assert found is not None
    (invalid,) = [each for each in found.outcomes if each.status == "invalid"]
    assert (invalid.count, invalid.reason) == (2, "the SM clock moved from … to … MHz under int4_linear")
    assert (found.missing_commits, found.unmeasured_commits) == (0, None)


def test_conditions_are_listed_by_run_and_software_by_period(store: Store, asv: Any) -> None:
    history = Suite(asv)
    versions = (("580.1", "2.11"), ("580.1", "2.11"), ("590.2", "2.11"), ("590.2", "2.12"))
    for number, (driver, torch) in enumerate(versions):
        gpu = {"name": "NVIDIA H200", "uuid": "GPU-aaaaaaaa-1", "driver": driver, "power_limit_w": 700.0}
        history.commit(number, more={"gpu": gpu, "software": {"torch": torch}})
    asv.load(store)
    stretches = queries.software(store, "demo", "box")
    assert [(each.runs, each.changed) for each in stretches] == [(1, ("torch",)), (1, ("driver",)), (2, ())]
    assert dict(stretches[0].facts)["power limit"] == "700 W"
    assert stretches[-1].since == datetime(2026, 1, 1, tzinfo=UTC)
    runs = queries.conditions(store, "demo", "box")
    assert [run.started_at for run in runs] == sorted(run.started_at for run in runs if run.started_at)
    assert {(run.measurements, run.clock_hz, run.knows_throttling) for run in runs} == {(4, None, False)}
    assert queries.conditions(store, "demo", "nobody") == ()


def test_a_run_records_clock_temperature_and_throttling(store: Store, asv: Any) -> None:
    history = Suite(asv)
    path = history.commit(0)
    run = {
        "record": "run",
        "schema": 1,
        "run": "hot",
        "commit": "c",
        "environment": "e",
        "device": "cuda",
        "started_at": "2026-02-01T00:00:00+00:00",
        "gpu": {"name": "NVIDIA H200", "uuid": "GPU-x"},
    }
    measured = [
        {
            "record": "measurement",
            "run": "hot",
            "benchmark": "benchmarks.rope.Rope",
            "workload": name,
            "implementation": "warpwatch",
            "status": "ok",
            "reason": None,
            "latency_s": 1e-4,
            "sample_count": 3,
            **more,
        }
        for name, more in (
            ("w1", {"sm_clock_hz": [1.9e9, 1.8e9, 1.7e9], "temperature_c": 60.0, "throttled_s": {"power cap": 0.5}}),
            ("w2", {"sm_clock_hz": [1.6e9], "temperature_c": 70.0, "clock_event_reasons": {"before": 0, "after": 32}}),
            ("w3", {"sm_clock_hz": [], "temperature_c": None, "clock_event_reasons": {"before": 1, "after": 1}}),
        )
    ]
    asv.context(path, run, *measured)
    asv.load(store)
    hot = queries.conditions(store, "demo", "box")[-1]
    assert (hot.clock_hz, hot.clock_low_hz, hot.clock_high_hz) == (1.7e9, 1.6e9, 1.8e9)
    assert (hot.temperature_c, hot.temperature_high_c) == (65.0, 70.0)
    assert (hot.throttled, hot.measurements, dict(hot.throttled_s)) == (2, 3, {"power cap": 0.5})


def test_a_commit_that_only_another_machine_measured_is_missing_here(store: Store, asv: Any) -> None:
    name = "suite.Bench.time_it"
    asv.benchmark(name)
    for number, machine in itertools.product(range(5), ("here", "there")):
        if (number, machine) != (2, "here"):
            asv.commit(number, {name: asv.row([1e-3], started_at=number + 1)}, machine=machine)
    asv.load(store)
    found = {name: queries.machine_history(store, "demo", name) for name in ("here", "there")}
    assert [history and history.missing_commits for history in found.values()] == [1, 0]
