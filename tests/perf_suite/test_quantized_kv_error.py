"""The trial of quantized caches: the figures that the repository ships are those that its script finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf_suite.trials import quantized_kv_error

pytestmark = pytest.mark.outside  # needs the compiled kernels

RECORDED = Path(quantized_kv_error.__file__).with_name("quantized-kv-error.json")


@pytest.fixture(scope="module")
def errors() -> dict[tuple[str, float, bool], float]:
    return {(e.cache, e.outlier_factor, e.offset): e.error for e in quantized_kv_error.measure()}


def test_the_recorded_figures_are_found_again(errors: dict[tuple[str, float, bool], float]) -> None:
    recorded = json.loads(RECORDED.read_text())["errors"]
    assert {(e["cache"], e["outlier_factor"], e["offset"]) for e in recorded} == set(errors)
    for each in recorded:  # to the two digits that the table shows: sums differ with the machine's vectors
        found = errors[each["cache"], each["outlier_factor"], each["offset"]]
        assert found == pytest.approx(each["error"], rel=0.02)


def test_means_of_channels_cost_eight_bits_a_token_and_not_four_bits_a_channel(
    errors: dict[tuple[str, float, bool], float],
) -> None:
    assert errors["int8", 50.0, True] > 5 * errors["int8", 1.0, False]
    assert errors["int4", 50.0, True] < 1.1 * errors["int4", 1.0, False]
