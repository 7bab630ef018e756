"""The instrument where there is a GPU: cold samples, clocks and the GPU's identity."""

import pytest
import torch

from perf_suite import session
from perf_suite.records import Status

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def results():
    return session.measure("rope", benchmark="benchmarks.rope.Rope", quick=True)


def test_the_run_names_the_gpu_and_its_software(results):
    gpu = results.run.gpu
    assert results.run.device == "cuda"
    assert gpu.name == torch.cuda.get_device_name()
    assert gpu.sm_count > 0
    assert gpu.l2_bytes > 0
    assert results.run.software["cuda"] == torch.version.cuda


def test_every_gpu_baseline_is_right_and_timed_cold(results):
    eager = [o for o in results.outcomes if o.measurement.implementation == "eager"]
    assert eager
    for outcome in eager:
        m = outcome.measurement
        assert m.status is Status.OK, m.reason
        assert m.workload.startswith("cuda-")
        assert m.cache == "cold"
        assert len(outcome.samples_s) >= 5
        assert m.relative_error <= m.tolerance


def test_nvbench_reads_a_clock_beside_each_sample(results):
    clocks = [o.measurement for o in results.outcomes if (o.measurement.timer or "").startswith("nvbench")]
    if not clocks:
        pytest.skip("cuda-bench is not installed")
    for measurement in clocks:
        assert all(1e8 < clock < 1e10 for clock in measurement.sm_clock_hz)
