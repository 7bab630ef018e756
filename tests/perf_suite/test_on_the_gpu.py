"""The instrument where there is a GPU: cold samples, clocks and the GPU's identity."""

import pytest
import torch

from perf_suite.catalogue import catalogue_jobs, workload_named
from warpbench import session
from warpbench.records import Status

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture(scope="module")
def results():
    return session.measure(catalogue_jobs(("rope",), quick=True))


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
        assert m.at_s > 0
        assert m.contenders == 0
        assert m.relative_error <= m.tolerance


def test_nvbench_reads_a_clock_with_each_sample(results):
    clocks = [o.measurement for o in results.outcomes if (o.measurement.timer or "").startswith("nvbench")]
    if not clocks:
        pytest.skip("cuda-bench is not installed")
    for measurement in clocks:
        assert all(1e8 < clock < 1e10 for clock in measurement.sm_clock_hz)


def test_each_call_reports_what_it_launches_and_what_it_needs(results):
    """The eager rope is several kernels over fp32 copies; the compiled one is a single kernel without scratch."""
    by_name = {(o.measurement.workload, o.measurement.implementation): o.measurement for o in results.outcomes}
    eager = by_name["cuda-fp16-b1-h32-s2048-d128", "eager"]
    compiled = by_name["cuda-fp16-b1-h32-s2048-d128", "torch_compile"]
    assert eager.kernels_launched == sum(eager.launched.values()) > 3
    assert compiled.kernels_launched == 1
    assert compiled.peak_memory_bytes == 0
    assert eager.peak_memory_bytes >= 4 * 32 * 2048 * 128  # at least one fp32 copy of x


def test_what_fits_the_l2_is_measured_warm_too_and_what_does_not_is_not(results):
    for outcome in results.outcomes:
        measurement = outcome.measurement
        fits = bytes_of(measurement.workload) <= results.run.gpu.l2_bytes
        assert (measurement.warm_latency_s is not None) == fits, measurement.workload
        assert bool(outcome.warm_samples_s) == fits


def test_cycles_are_latency_times_clock(results):
    for measurement in (outcome.measurement for outcome in results.outcomes):
        if measurement.sm_cycles is None:
            pytest.skip("cuda-bench is not installed")
        clock_hz = measurement.sm_cycles / measurement.latency_s
        assert min(measurement.sm_clock_hz) * 0.98 < clock_hz < max(measurement.sm_clock_hz) * 1.02


def bytes_of(workload):
    return workload_named("rope", workload).cost.bytes
