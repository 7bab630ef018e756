"""The one-off benchmark where there is a GPU."""

import os

import pytest
import torch

from perf_suite.catalogue import BENCHMARKS
from warpbench.machines import ceilings_of
from warpbench.one_off.one_off import OneOff
from warpbench.records import Status

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def test_the_baselines_of_an_ad_hoc_shape_are_timed_cold_and_compared_with_the_data_sheet():
    (result,) = OneOff(BENCHMARKS["flash_attention"], batch=2, heads=8, seq_len=384, quick=True).run()
    assert result.workload.name == "cuda-fp16-b2-h8-s384-d128-full"
    by_name = {measurement.implementation: (measurement, figures) for measurement, figures in result}
    measurement, figures = by_name["sdpa"]
    assert measurement.status is Status.OK, measurement.reason
    assert measurement.cache == "cold"
    if ceilings_of(torch.cuda.get_device_name()) is not None:
        assert 0 < figures.of_peak < 1
        assert "of peak" in result.table()


def test_a_gpu_machine_measures_its_cpu_on_request(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (result,) = OneOff(
        BENCHMARKS["rope"], device="cpu", heads=2, seq_len=64, implementations=["eager"], quick=True
    ).run()
    assert result.run.device == "cpu"
    assert result.outcomes[0].measurement.status is Status.OK
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
