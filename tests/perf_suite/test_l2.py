"""Lines that a kernel asked the L2 to keep, and the flush that shall take them."""

import statistics

import pytest
import torch

from warpbench.timing import l2
from warpbench.timing.timing import TimingError

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
def test_kept_lines_do_not_outlast_a_flush_behind_the_release() -> None:
    """A kernel reads 8 MB with a policy that keeps them in the L2: they survive a flush, but not a release."""
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("the L2 of this GPU keeps no lines")
    x = torch.randn(2 << 20, device="cuda")
    out = torch.empty(x.numel() // 4096, device="cuda")
    flush = torch.empty(torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")

    def seconds(policy: str, *, releases: bool) -> float:
        taken = []
        for _ in range(50):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            if releases:
                l2.release_kept_lines()
            torch.cuda._sleep(1_000_000)  # while the host enqueues what follows
            flush.zero_()
            start.record()
            read[(out.numel(),)](x, out, policy, 4096)
            end.record()
            end.synchronize()
            taken.append(start.elapsed_time(end))
        return statistics.median(taken[10:])

    cold = seconds("", releases=True)
    assert seconds("evict_last", releases=False) < 0.95 * cold
    assert seconds("evict_last", releases=True) > 0.95 * cold
