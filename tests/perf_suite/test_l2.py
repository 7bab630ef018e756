"""Lines that a kernel asked the L2 to keep, and the flush that shall take them."""

import statistics

import pytest
import torch

from perf_suite.timing import cuda_events, l2
from perf_suite.timing.timing import TimedCall, TimingError

triton = pytest.importorskip("triton", reason="Triton is not installed")
language = pytest.importorskip("triton.language")


class Driver:
    def __init__(self, error: int) -> None:
        self._error = error

    def cuCtxResetPersistingL2Cache(self) -> int:  # noqa: N802 - the driver's name
        return self._error


@pytest.mark.parametrize("error", [0, 801])
def test_a_gpu_that_keeps_no_lines_has_none_to_release(monkeypatch, error):
    monkeypatch.setattr(l2, "_driver", lambda: Driver(error))
    l2.release_kept_lines()


def test_what_the_driver_refuses_is_no_measurement(monkeypatch):
    monkeypatch.setattr(l2, "_driver", lambda: Driver(700))
    with pytest.raises(TimingError, match="error 700"):
        l2.release_kept_lines()


@triton.jit
def read(x, out, policy: language.constexpr, block: language.constexpr):
    at = language.program_id(0) * block + language.arange(0, block)
    language.store(out + language.program_id(0), language.sum(language.load(x + at, eviction_policy=policy)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_kept_lines_do_not_outlast_the_flush(monkeypatch):
    """A kernel that reads 8 MB and asks the L2 to keep them is timed as cold as one that does not ask."""
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("the L2 of this GPU keeps no lines")
    x = torch.randn(2 << 20, device="cuda")
    out = torch.empty(x.numel() // 4096, device="cuda")

    def seconds(policy: str) -> float:
        call = TimedCall(run=lambda: read[(out.numel(),)](x, out, policy, 4096), after=lambda result: None)
        return statistics.median(cuda_events.sample_latency([call], quick=False).samples_s)

    plain = seconds("")
    assert seconds("evict_last") > 0.95 * plain
    monkeypatch.setattr(cuda_events, "release_kept_lines", lambda: None)
    assert seconds("evict_last") < 0.95 * plain, "the release is what makes them equal"
