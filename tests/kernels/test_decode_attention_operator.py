"""decode_attention as an operator: what it refuses, torch.compile, streams, graphs, and its Triton twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch

from perf_suite.benchmarks.decode_attention import decode_attention as reference
from warpwatch import kernels

from .test_decode_attention import Tensors, cache, lengths_on
from .test_flash_attention import assert_attends

REFUSED: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "decode_attention: q must have 4 dimensions (batch, heads_q, seq_q, head_dim), got shape [4, 2, 64]": (
        lambda q, k: (q[0], k, k)
    ),
    "decode_attention: k must have 4 dimensions (batch, heads_kv, capacity, head_dim), got shape [2, 7, 64]": (
        lambda q, k: (q, k[0], k)
    ),
    "decode_attention: k and v differ in shape: [1, 2, 7, 64] against [1, 2, 6, 64]": lambda q, k: (q, k, k[:, :, :6]),
    "decode_attention: q and k differ in batch: [1, 4, 2, 64] against [3, 2, 7, 64]": (
        lambda q, k: (q, k.repeat(3, 1, 1, 1), k.repeat(3, 1, 1, 1))
    ),
    "decode_attention: q and k differ in head_dim: [1, 4, 2, 64] against [1, 2, 7, 32]": (
        lambda q, k: (q, k[..., :32], k[..., :32])
    ),
    "decode_attention: heads_q must be a positive multiple of heads_kv, got 3 and 2": lambda q, k: (q[:, :3], k, k),
    "decode_attention: q must be float16, bfloat16 or float32, got float64": lambda q, k: (q.double(), k, k),
    "decode_attention: q and v differ in dtype: float16 against float32": lambda q, k: (q, k, k.float()),
    "decode_attention: q must have 1 to 8 new tokens (seq_q), got shape [1, 4, 10, 64]; flash_attention takes more": (
        lambda q, k: (q.repeat(1, 1, 5, 1), k, k)
    ),
    "decode_attention: q must have 1 to 8 new tokens (seq_q), got shape [1, 4, 0, 64]; flash_attention takes more": (
        lambda q, k: (q[:, :, :0], k, k)
    ),
    "decode_attention: the last dimension of k must be contiguous (stride 1), got strides [896, 448, 1, 7] for shape "
    "[1, 2, 7, 64]": lambda q, k: (q, k.transpose(2, 3).contiguous().transpose(2, 3), k),
    "decode_attention: lengths must be int32, got int64": lambda q, k: (q, k, k, torch.ones(1).long().to(q.device)),
    "decode_attention: lengths must have shape [1] (batch), got [2]": (
        lambda q, k: (q, k, k, torch.ones(2, dtype=torch.int32, device=q.device))
    ),
    "decode_attention: lengths must have 1 dimensions (batch), got shape [1, 1]": (
        lambda q, k: (q, k, k, torch.ones(1, 1, dtype=torch.int32, device=q.device))
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_errors_state_what_was_passed_and_what_is_expected(sentence: str, device: str) -> None:
    q = torch.zeros(1, 4, 2, 64, dtype=torch.float16, device=device)
    k = torch.zeros(1, 2, 7, 64, dtype=torch.float16, device=device)
    assert refusal(*REFUSED[sentence](q, k)) == sentence


def refusal(*arguments: torch.Tensor, **options: float) -> str:
    with pytest.raises(RuntimeError) as refused:
        kernels.decode_attention(*arguments, **options)
    return str(refused.value).splitlines()[0]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_says_which_scales_it_takes(scale: float, device: str) -> None:
    q, k, v = cache(device, torch.float16, 9)
    assert refusal(q, k, v, scale=scale) == f"decode_attention: scale must be positive and finite, got {scale:g}"


@pytest.mark.parametrize("scale", [1e-46, 1e39])
def test_a_scale_is_one_that_float32_holds(scale: float, device: str) -> None:
    q, k, v = cache(device, torch.float16, 9)
    sentence = f"decode_attention: scale must lie between 1.17549e-38 and 1.70141e+38, got {scale:g}"
    assert refusal(q, k, v, scale=scale) == sentence


def test_says_which_head_dims_the_cpu_takes() -> None:
    for head_dim in (4, 264):
        q, k, v = cache("cpu", torch.float32, 9, head_dim=head_dim)
        sentence = f"decode_attention: head_dim must be a multiple of 8 up to 256 on the CPU, got {head_dim}"
        assert refusal(q, k, v) == sentence


def test_says_which_head_dims_the_gpu_takes(cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 9, head_dim=32)
    assert refusal(q, k, v) == "decode_attention: head_dim must be 64, 96, 128 or 256 on a GPU, got 32"


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 9)
    sentence = "decode_attention: q and {0} must be on one device: q is on cuda:0, {0} on cpu"
    assert refusal(q, k, v.cpu()) == sentence.format("v")
    assert refusal(q, k, v, lengths_on("cpu", 9, 9)) == sentence.format("lengths")


def test_says_that_the_cache_must_be_aligned_on_the_gpu(cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 9)
    odd = torch.cat((k, k[..., :1]), dim=-1)[..., :64]
    assert refusal(q, odd, v) == (
        "decode_attention: each row of k must start on a 16-byte boundary, for it is read 16 bytes at a time; "
        "got strides [1170, 585, 65, 1] and a start 0 bytes past one"
    )


@pytest.mark.parametrize("with_lengths", [False, True])
def test_is_a_well_behaved_operator(with_lengths: bool, device: str) -> None:
    q, k, v = cache(device, torch.float16, 17, tokens=3)
    lengths = lengths_on(device, 17, 5) if with_lengths else None
    transposed = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    for each, scale in (((q, k, v), None), (transposed, 0.2)):
        torch.library.opcheck(torch.ops.warpwatch.decode_attention.default, (*each, lengths, scale))


def test_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return kernels.decode_attention(q, k, v, lengths) * 2

    q, k, v = cache(device, torch.float16, 17)
    lengths = lengths_on(device, 17, 5)
    assert torch.equal(doubled(q, k, v, lengths), kernels.decode_attention(q, k, v, lengths) * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("head_dim", [64, 96, 128])
@pytest.mark.parametrize(
    ("heads", "tokens", "capacity"), [((4, 2), 1, 300), ((4, 4), 3, 70), ((20, 1), 2, 513), ((2, 1), 8, 5)], ids=str
)
def test_triton_twin_agrees(
    heads: tuple[int, int],
    tokens: int,
    capacity: int,
    head_dim: int,
    dtype: torch.dtype,
    device: str,
    twin: Callable[[str], Callable[..., torch.Tensor]],
) -> None:
    if device == "cpu":
        if dtype == torch.bfloat16:
            pytest.skip("Triton's interpreter multiplies the bit patterns of bfloat16")
        if head_dim != 96 and (head_dim, dtype) != (64, torch.float32):
            pytest.skip("what head_dim and dtype change is seen with 64 and 96; the interpreter takes long")
        if numpy.lib.NumpyVersion(numpy.__version__) >= "2.4.0":
            pytest.skip("Triton 3.6's interpreter makes loop bounds in a way that NumPy refuses from 2.4 on")
    q, k, v = cache(device, dtype, capacity, tokens=tokens, heads=heads, head_dim=head_dim)
    k = k.transpose(1, 2).contiguous().transpose(1, 2)
    for lengths in (None, lengths_on(device, capacity // 3, capacity)):
        out = twin("decode_attention")(q, k, v, lengths)
        assert out.dtype == dtype
        assert_attends(out, reference(q, k, v, lengths))


def captured(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor) -> tuple[object, torch.Tensor]:
    kernels.decode_attention(q, k, v, lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.decode_attention(q, k, v, lengths)
    return graph, out


@pytest.mark.parametrize("batch", [1, 64])
def test_a_cuda_graph_stays_right_as_sequences_grow(batch: int, cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 2000, heads=(8, 2), batch=batch)
    lengths = torch.full((batch,), 1, dtype=torch.int32, device=cuda)
    graph, out = captured(q, k, v, lengths)
    for length in (1, 17, 1000, 2000):
        lengths.fill_(length)
        for x in (q, k, v):
            x.copy_(torch.randn_like(x))
        graph.replay()
        assert_attends(out, reference(q, k, v, lengths))


def test_runs_on_the_current_stream(cuda: str) -> None:
    q, k, v = cache(cuda, torch.float16, 3000)
    expected = reference(q, k, v)
    late = torch.zeros_like(v)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # some 10 ms: a launch on another stream would read the zeros
        late.copy_(v)
        out = kernels.decode_attention(q, k, late)
    stream.synchronize()
    assert_attends(out, expected)


def test_two_streams_do_not_share_a_workspace(cuda: str) -> None:
    def metadata(_: int) -> Tensors:
        return cache(cuda, torch.float16, 5000, heads=(8, 2), head_dim=128)

    questions = [metadata(i) for i in range(4)]
    expected = [reference(*question) for question in questions]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in questions]
    outs = []
    for stream, question in zip(streams, questions, strict=True):
        with torch.cuda.stream(stream):
            outs.append([kernels.decode_attention(*question) for _ in range(5)])
    torch.cuda.synchronize()
    for each, answer in zip(outs, expected, strict=True):
        for out in each:
            assert_attends(out, answer)
