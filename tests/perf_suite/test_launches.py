"""What a capture in a CUDA graph leaves behind."""

import pytest
import torch

from warpbench.launches import NotCapturableError, capture

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.fixture
def stream():
    """The current stream, which is not the default one."""
    with torch.cuda.stream(torch.cuda.Stream()) as current:
        yield current


def waits():
    x = torch.randn(4, device="cuda")
    torch.cuda.synchronize()  # which no capture allows
    return x


def test_after_a_failed_capture_random_numbers_are_drawn_as_before(stream):
    torch.cuda.manual_seed(0)
    expected = torch.randn(4, device="cuda")
    torch.cuda.manual_seed(0)
    with pytest.raises(NotCapturableError):
        capture(waits)
    assert torch.equal(torch.randn(4, device="cuda"), expected)


def test_after_a_failed_capture_a_graph_that_draws_is_replayed(stream):
    captured = capture(lambda: torch.randn(4, device="cuda"))
    torch.cuda.manual_seed(0)
    expected = torch.randn(4, device="cuda")
    with pytest.raises(NotCapturableError):
        capture(waits)
    torch.cuda.manual_seed(0)
    assert torch.equal(captured.replay(), expected)
