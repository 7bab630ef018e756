"""Effects of GPU, run and harness, estimated from simulated references."""

import math

import numpy as np
import pytest

from warpwatch.dashboard.model.metric import Better
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.gpu_effects import FEWEST, Deviations, Latencies, SessionEffects, session_effects
from warpwatch.dashboard.statistics.gpu_spread import (
    ReferenceSeries,
    Scatters,
    across_gpus,
    judge_across_gpus,
    standardised,
)

_COUNT = 300


def _latencies(
    dice: np.random.Generator,
    count: int = _COUNT,
    *,
    launch_s: float = 0.0,
    outlying: float = 0.0,
    scatter: float = 0.003,
) -> Latencies:
    """Another GPU: memory 1 % faster, arithmetic 2 % slower, t scatter; a harness that adds `launch_s` to each call."""
    base = np.exp(dice.uniform(math.log(4e-6), math.log(1e-3), count))
    memory = dice.uniform(0, 1, count) * base / (base + 5e-6)
    compute = np.maximum(base / (base + 5e-6) - memory, 0)
    moved = -0.01 * memory + 0.02 * compute + scatter * dice.standard_t(4, count)
    moved += np.where(dice.random(count) < outlying, dice.choice([-0.3, 0.26], count), 0.0)  # another heuristic
    group = tuple(f"operator{number % 20}" for number in range(count))
    head = (base + launch_s) * np.exp(moved)
    return Latencies(base_s=base, head_s=head, memory_share=memory, compute_share=compute, group=group)


def _estimated(latencies: Latencies) -> SessionEffects:
    effects = session_effects(latencies)
    assert effects is not None
    return effects


def _some(latencies: Latencies, places: slice, factor: float = 1.0) -> Latencies:
    return Latencies(
        base_s=latencies.base_s[places],
        head_s=latencies.head_s[places] * factor,
        memory_share=latencies.memory_share[places],
        compute_share=latencies.compute_share[places],
        group=latencies.group[places],
    )


def test_parts_of_a_latency_are_separated() -> None:
    effects = _estimated(_latencies(np.random.default_rng(1)))
    one = Latencies(
        base_s=np.array([2e-4, 2e-4]),
        head_s=np.array([2e-4, 2e-4]),
        memory_share=np.array([0.95, 0.05]),
        compute_share=np.array([0.03, 0.93]),
        group=("operator1", "operator1"),
    )
    assert effects.of(one).expected == pytest.approx([-0.009, 0.018], abs=0.004)
    assert effects.scatter == pytest.approx(0.003, rel=0.25)
    assert abs(effects.launch_s) < 0.03e-6


@pytest.mark.parametrize("launch_s", [1.7e-6, -1.2e-6])
def test_a_harness_that_adds_to_every_call_is_taken_off_whatever_the_latency(launch_s: float) -> None:
    dice = np.random.default_rng(2)
    effects = _estimated(_latencies(dice, launch_s=launch_s, outlying=0.05))
    assert effects.launch_s == pytest.approx(launch_s, abs=0.1e-6)
    found = effects.of(_latencies(dice, launch_s=launch_s))
    assert np.median(np.abs(found.deviation)) < 0.004
    short = _latencies(dice, launch_s=launch_s).base_s < 8e-6
    assert short.any()


@pytest.mark.parametrize("outlying", [0.0, 0.02, 0.05, 0.15])
def test_outlying_references_change_neither_the_effects_nor_the_interval(outlying: float) -> None:
    held, wide = [], []
    for seed in range(8):
        dice = np.random.default_rng(seed)
        effects = _estimated(_latencies(dice, outlying=outlying))
        scatters = Scatters([], _references(effects))
        ours = _latencies(dice, 200)
        found = across_gpus(
            effects,
            effects.of(ours),
            [scatters.of(str(number), level, is_ours=False) for number, level in enumerate(ours.base_s.tolist())],
            runs=[(1, 1)] * len(ours),
        )
        held += [estimate.ci_low <= 0 <= estimate.ci_high for estimate, _ in found]
        wide += [across.spread for _, across in found]
    assert 0.93 <= np.mean(held) <= (0.99 if outlying <= 0.02 else 1.0)  # wider with outliers, and never narrower
    assert np.median(wide) < 0.02 + 0.15 * outlying


def test_leaving_a_reference_out_by_the_formula_is_leaving_it_out() -> None:
    latencies = _latencies(np.random.default_rng(3), 120)
    effects = _estimated(latencies)
    for place in (0, 50, 119):
        rest = np.delete(np.arange(120), place)
        without = _estimated(
            Latencies(
                base_s=latencies.base_s[rest],
                head_s=latencies.head_s[rest],
                memory_share=latencies.memory_share[rest],
                compute_share=latencies.compute_share[rest],
                group=tuple(latencies.group[number] for number in rest),
            )
        )
        found = without.of(_some(latencies, slice(place, place + 1))).deviation[0]
        assert found == pytest.approx(effects.left_out.deviation[place], abs=0.0015)  # its weight and scale stay


def test_the_unit_of_scale_of_all_latencies_at_head_is_an_effect_and_no_deviation() -> None:
    """A GPU that is 3 % slower throughout moves what is expected, and no series."""
    latencies = _latencies(np.random.default_rng(4))
    plain, slower = _estimated(latencies), _estimated(_some(latencies, slice(None), 1.03))
    assert slower.left_out.deviation == pytest.approx(plain.left_out.deviation, abs=0.0015)


def test_too_few_references_give_no_estimate() -> None:
    assert session_effects(_latencies(np.random.default_rng(5), FEWEST - 1)) is None
    assert session_effects(_latencies(np.random.default_rng(5), FEWEST)) is not None


def test_planted_changes_are_found_and_others_are_not_blamed() -> None:
    found, false = [], []
    for seed in range(6):
        dice = np.random.default_rng(seed)
        effects = _estimated(_latencies(dice, launch_s=1e-6, outlying=0.03))
        known = Scatters([], _references(effects))
        ours = _latencies(dice, 100, launch_s=1e-6)
        deviations = effects.of(ours)
        planted = np.where(np.arange(100) < 20, math.log1p(-0.1), 0.0)
        moved = Deviations(
            expected=deviations.expected, deviation=deviations.deviation + planted, variance=deviations.variance
        )
        scatters = [known.of(str(number), level, is_ours=True) for number, level in enumerate(ours.base_s.tolist())]
        verdicts = [
            judge_across_gpus(estimate, across, Better.LOWER, 0.02)
            for estimate, across in across_gpus(effects, moved, scatters, runs=[(1, 1)] * 100)
        ]
        found += [verdict is Verdict.IMPROVED for verdict in verdicts[:20]]
        false += [verdict in {Verdict.IMPROVED, Verdict.REGRESSED} for verdict in verdicts[20:]]
    assert np.mean(found) > 0.95
    assert np.mean(false) < 0.02


def test_a_series_that_scattered_before_is_given_a_wider_interval_and_a_calm_one_a_narrower() -> None:
    effects = _estimated(_latencies(np.random.default_rng(6)))
    wild = [
        ReferenceSeries(key="wild", is_ours=True, level_s=1e-4, deviation=value) for value in (6.0, -7.0, 5.0, -6.0)
    ]
    calm = [ReferenceSeries(key="calm", is_ours=True, level_s=1e-4, deviation=value) for value in (0.2, -0.3, 0.2, 0.1)]
    known = Scatters([*wild, *calm], _references(effects))
    typical = known.of("new", 1e-4, is_ours=True)
    assert known.of("wild", 1e-4, is_ours=True).scale > 2 * typical.scale
    assert known.of("calm", 1e-4, is_ours=True).scale < typical.scale
    assert typical.df <= known.of("calm", 1e-4, is_ours=True).df <= 4


def _references(effects: SessionEffects) -> list[ReferenceSeries]:
    levels = effects.references.base_s.tolist()
    return [
        ReferenceSeries(key=f"reference{number}", is_ours=False, level_s=level, deviation=value)
        for number, (level, value) in enumerate(zip(levels, standardised(effects).tolist(), strict=True))
    ]
