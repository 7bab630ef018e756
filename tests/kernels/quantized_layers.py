"""What the tests of linear layers with 8-bit weights share: operands, layouts of x, a graph, a stream of one's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from warpwatch import kernels

Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # x, weight, its scales, bias
Layer = Callable[..., torch.Tensor]  # of such operands

# x has 24 rows.
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one row without a dimension for it": lambda x: x[0],
    "batch, seq": lambda x: x.view(4, 6, -1),
    "batch, one, seq": lambda x: x.view(4, 1, 6, -1),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[:, : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[:, :1]), dim=-1)[:, 1:],
    "every other row": lambda x: x.repeat_interleave(2, dim=0)[::2],
    "one row seen by all": lambda x: x[:1].expand(x.shape),
    "seq, batch": lambda x: x.view(4, 6, -1).transpose(0, 1),
}


def small_operands(device: str) -> Operands:
    """x (3, 200), weight (5, 208), weight_scales (5), bias (5)."""
    x = torch.randn(3, 200, device=device).half()
    weight, scales = kernels.quantize_int8_weight(torch.randn(5, 200, device=device).half())
    return x, weight, scales, torch.randn(5, device=device).half()


def assert_replays(layer: Layer, operands: Operands, assert_multiplied: Callable[..., None]) -> None:
    """That a CUDA graph of one call is right each time that it is replayed, on what x then holds."""
    x = operands[0]
    layer(*operands)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(*operands)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert_multiplied(out, *operands)


def assert_runs_on_the_current_stream(layer: Layer, operands: Operands, assert_multiplied: Callable[..., None]) -> None:
    """That a call waits for what the current stream still writes."""
    x, *others = operands
    expected = x.clone()
    x.zero_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # some 10 ms: a launch on another stream would read the zeros
        x.copy_(expected)
        out = layer(x, *others)
    stream.synchronize()
    assert_multiplied(out, x, *others)


def refusal(function: Callable[..., object], *arguments: object) -> str:
    """The sentence with which these arguments are answered."""
    with pytest.raises(RuntimeError) as caught:
        function(*arguments)
    return str(caught.value).splitlines()[0]
