"""Changes of kernels between two GPUs, beyond the difference of the GPUs."""

import math
from typing import Any

import numpy as np
import pytest

from tests.asv_results import hash_of
from tests.dashboard.suite_results import Suite
from tools.cross_gpu_trial import gpu_shifts
from warpwatch.dashboard.analysis.compare_commits import check
from warpwatch.dashboard.model.verdict import Verdict
from warpwatch.dashboard.statistics.cross_gpu import FEWEST, cross_gpu_changes
from warpwatch.dashboard.store import Store, queries


@pytest.mark.parametrize("controls", [FEWEST, 120, 475])
def test_the_interval_holds_what_the_kernel_did_in_95_of_100_whatever_cards_do(controls: int) -> None:
    dice, own, held = np.random.default_rng(controls), math.log(0.6), 0
    for _ in range(2000):
        shifts = gpu_shifts(dice, controls + 1)
        (told,) = cross_gpu_changes([own + shifts[0]], shifts[1:].tolist())
        held += told.ci_low <= math.expm1(own) <= told.ci_high
    assert 0.94 <= held / 2000 <= 0.985  # few baselines tell more widely, not less


def test_of_what_is_significant_among_many_kernels_at_most_a_twentieth_is_chance() -> None:
    dice, false, found, true = np.random.default_rng(5), [], 0, 0
    for _ in range(300):
        shifts = gpu_shifts(dice, 400 + 300)
        own = np.where(np.arange(300) < 40, math.log(0.7), 0.0)
        told = [each.is_significant for each in cross_gpu_changes((own + shifts[:300]).tolist(), shifts[300:].tolist())]
        false.append(sum(told[40:]) / max(sum(told), 1))
        found, true = found + sum(told[:40]), true + 40
    assert np.mean(false) <= 0.055
    assert found / true > 0.9
    nothing = [
        any(each.is_significant for each in cross_gpu_changes(s[:300].tolist(), s[300:].tolist()))
        for s in (gpu_shifts(dice, 700) for _ in range(300))
    ]
    assert np.mean(nothing) <= 0.07


def test_too_few_baselines_tell_nothing() -> None:
    assert cross_gpu_changes([0.5], [0.0] * (FEWEST - 1)) == ()


def test_what_its_interval_does_not_bear_out_is_not_told() -> None:
    """Skewed baselines: few lie as far from their median, but those that do lie on the kernel's side."""
    skewed = [place * 1e-5 for place in range(-47, 48)] + [0.05, 0.06, 0.07, 0.08]
    (told,) = cross_gpu_changes([0.055], skewed)
    assert told.q_value <= 0.05
    assert told.ci_low < 0 < told.ci_high
    assert not told.is_significant


def test_a_check_tells_beside_its_verdict_what_more_than_the_card_changed(sqlite_store: Store, asv: Any) -> None:
    history = Suite(asv, workloads=tuple(f"w{number}" for number in range(45)))
    for number in range(4):
        history.commit(number)
    history.commit(4, {"warpwatch": 0.6, "eager": 1.02}, card="GPU-bbbbbbbb-1")
    asv.load(sqlite_store)
    ends = [queries.find_commit(sqlite_store, "demo", hash_of(number)) for number in (3, 4)]
    assert ends[0] is not None
    assert ends[1] is not None
    told = check(sqlite_store, "demo", ends[0], ends[1], threshold=0.02)
    assert {row.verdict for row in told.rows} == {Verdict.INCONCLUSIVE}
    for row in told.rows:
        assert row.reason is not None
        assert row.reason.startswith("another card")
        assert row.cross_gpu is not None
        assert row.cross_gpu.is_significant
        assert row.cross_gpu.change == pytest.approx(-0.4, abs=0.01)
        assert row.cross_gpu.ci_low - 0.01 < 0.6 / 1.02 - 1 < row.cross_gpu.ci_high + 0.01
        assert row.cross_gpu.baselines == 45
    alike = check(sqlite_store, "demo", ends[0], ends[0], threshold=0.02)
    assert all(row.cross_gpu is None for row in alike.rows)
