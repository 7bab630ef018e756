"""The fallback stopwatch, and the samples in which the GPU waited for the host."""

from types import SimpleNamespace

import pytest
import torch

from warpbench.timing import cuda_events
from warpbench.timing.timing import TimedCall, TimingError

CALL = TimedCall(run=lambda: None, after=lambda out: None)


@pytest.fixture
def taken(monkeypatch):
    """Samples that are handed out in turn, each with whether the flush hid the host."""

    def taken(samples):
        given = iter([samples[0], *samples])
        properties = SimpleNamespace(L2_cache_size=1 << 20)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
        monkeypatch.setattr(cuda_events.torch, "empty", lambda *shape, **options: None)
        monkeypatch.setattr(cuda_events, "_sample", lambda call, flush: next(given))
        return cuda_events.sample_latency([CALL], quick=True)

    return taken


def test_samples_that_the_flush_did_not_hide_are_left_out(taken):
    timing = taken([(1e-6, True), (9e-6, False), (2e-6, True), (8e-6, False), (3e-6, True)])
    assert timing.samples_s == (1e-6, 2e-6, 3e-6)
    assert timing.timer == "cuda-events"


@pytest.mark.parametrize("hidden", [0, 1, 2])
def test_a_call_that_the_flush_does_not_hide_has_no_number(taken, hidden):
    with pytest.raises(TimingError, match=f"in {5 - hidden} of 5 samples the GPU waited for the host"):
        taken([(1e-6, index < hidden) for index in range(5)])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu_one_large_kernel_is_hidden_and_a_thousand_small_ones_are_not():
    x = torch.ones(4096, 4096, device="cuda")  # a capture that failed before leaves the default generator unusable
    small = torch.zeros(1, device="cuda")

    def many():
        out = small
        for _ in range(1000):
            out = out + 1
        return out

    large = TimedCall(run=lambda: x @ x, after=lambda out: None)
    assert cuda_events.sample_latency([large], quick=False).samples_s
    with pytest.raises(TimingError, match="waited for the host"):
        cuda_events.sample_latency([TimedCall(run=many, after=lambda out: None)], quick=True)
