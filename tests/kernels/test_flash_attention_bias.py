"""flash_attention with a bias: against float64, hidden keys, broadcasting, gradients, what it refuses, graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from perf_suite.benchmarks.flash_attention import flash_attention as reference
from warpwatch import kernels

from .test_flash_attention import DTYPES, Tensors, assert_attends, inputs
from .test_flash_attention_window import _needs_an_interpreter_that_counts

SEQ = [(1, 1), (17, 17), (65, 63), (129, 130), (200, 72), (72, 201)]
MASKS: dict[str, dict[str, Any]] = {
    "full": {},
    "causal": {"causal": True},
    "window of 40": {"causal": True, "window": 40},
    "scaled": {"causal": True, "scale": 0.3},
}
# What a bias of (2, 4) batches and heads may look like, and as what it is read.
BROADCAST: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "whole": lambda i, j: (2, 4, i, j),
    "one batch": lambda i, j: (1, 4, i, j),
    "one head": lambda i, j: (2, 1, i, j),
    "for all": lambda i, j: (1, 1, i, j),
    "a matrix": lambda i, j: (i, j),
    "heads": lambda i, j: (4, i, j),
    "keys of a batch": lambda i, j: (2, 1, 1, j),
    "queries": lambda i, j: (1, 4, i, 1),
}


def bias_like(q: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return 3 * torch.randn(shape, device=q.device).to(q.dtype)


@pytest.mark.parametrize("mask", ["full", "causal", "window of 40"])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", SEQ, ids=str)
def test_agrees_with_float64(seq: tuple[int, int], dtype: torch.dtype, head_dim: int, mask: str, device: str) -> None:
    q, k, v = inputs(device, dtype, seq, head_dim=head_dim, heads=(4, 2))
    bias = bias_like(q, (2, 4, *seq))
    out = kernels.flash_attention(q, k, v, bias=bias, **MASKS[mask])
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_attends(out, reference(q, k, v, bias=bias, **MASKS[mask]), largest_score=30)


@pytest.mark.parametrize("seq", [(70, 90), (33, 131)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", BROADCAST)
def test_broadcasts(form: str, dtype: torch.dtype, seq: tuple[int, int], device: str) -> None:
    q, k, v = inputs(device, dtype, seq, heads=(4, 2))
    bias = bias_like(q, BROADCAST[form](*seq))
    out = kernels.flash_attention(q, k, v, bias=bias, causal=True)
    assert_attends(out, reference(q, k, v, bias=bias, causal=True), largest_score=30)


STRIDED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x[:, :1, :1].expand(x.shape),
    "rows with room between them": lambda x: torch.cat((x, x), dim=-1)[..., : x.shape[-1]],
    "rows at odd addresses": lambda x: torch.cat((x, x[..., :1]), dim=-1)[..., 1:],
    "queries last": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "heads last but one": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", STRIDED)
def test_strides_are_free(layout: str, dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (70, 90), heads=(4, 2))
    bias = STRIDED[layout](bias_like(q, (2, 4, 70, 90)))
    assert_attends(kernels.flash_attention(q, k, v, bias=bias), reference(q, k, v, bias=bias), largest_score=30)


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_minus_infinity_hides_a_key_and_all_of_them_give_zeros(dtype: torch.dtype, head_dim: int, device: str) -> None:
    q, k, v = inputs(device, dtype, (130, 150), head_dim=head_dim)
    bias = torch.zeros(130, 150, device=device, dtype=dtype)
    bias[torch.rand(130, 150, device=device) < 0.5] = -torch.inf
    bias[3], bias[40:45], bias[127:] = -torch.inf, -torch.inf, -torch.inf
    bias[60:62] = -torch.inf
    bias[60, 80], bias[61, 0] = 0, 0  # one key is left: the newest under the causal mask, the first
    for options in ({}, {"causal": True}):
        out, lse = kernels.flash_attention_with_lse(q, k, v, bias=bias, **options)
        assert_attends(out, reference(q, k, v, bias=bias, **options))
        hidden = torch.tensor([3, *range(40, 45), *range(127, 130)], device=device)
        assert (out[:, :, hidden] == 0).all()
        assert (lse[:, :, hidden] == -torch.inf).all()
        others = torch.ones(130, dtype=torch.bool, device=device)
        others[hidden] = False
        assert lse[:, :, others].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_lowest_number_hides_a_key_and_all_of_them_give_the_mean(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (70, 150))
    bias = torch.zeros(70, 150, device=device, dtype=dtype)
    bias[:, 80:] = torch.finfo(dtype).min  # as many a model hides what is padded
    bias[20:30] = torch.finfo(dtype).min
    out = kernels.flash_attention(q, k, v, bias=bias)
    # fp32 adds a score to -65504 with an error of 2^-9; to -3.4e38 it adds nothing, and nor does float64.
    atol = 5e-2 if dtype == torch.float16 else 0.0
    torch.testing.assert_close(
        out[:, :, :20].double(), reference(q[:, :, :20], k, v, bias=bias[:20]), rtol=0, atol=2e-2
    )
    assert_attends(out[:, :, 30:], reference(q[:, :, 30:], k, v, bias=bias[30:]))
    expected = reference(q[:, :, 20:30], k, v, bias=bias[20:30])
    torch.testing.assert_close(out[:, :, 20:30].double(), expected, rtol=0, atol=max(atol, 2e-2))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_bias_is_a_bias_of_zeros(dtype: torch.dtype, device: str) -> None:
    q, k, v = inputs(device, dtype, (150, 200), heads=(4, 2))
    zeros = torch.zeros(150, 200, device=device, dtype=dtype)
    for options in MASKS.values():
        assert_attends(kernels.flash_attention(q, k, v, bias=zeros, **options), reference(q, k, v, **options))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seq", [(70, 90), (130, 65)], ids=str)
def test_log_sum_exp_is_that_of_the_scores(seq: tuple[int, int], dtype: torch.dtype, mask: str, device: str) -> None:
    q, k, v = inputs(device, dtype, seq)
    bias = bias_like(q, (2, 2, *seq))
    out, lse = kernels.flash_attention_with_lse(q, k, v, bias=bias, **MASKS[mask])
    assert torch.equal(out, kernels.flash_attention(q, k, v, bias=bias, **MASKS[mask]))
    scores = MASKS[mask].get("scale", 0.125) * (q.double() @ k.double().transpose(-2, -1)) + bias.double()
    hidden = _hidden(seq, mask, device)
    torch.testing.assert_close(
        lse.double(), scores.masked_fill(hidden, -torch.inf).logsumexp(dim=-1), rtol=1e-5, atol=1e-5
    )


def _hidden(seq: tuple[int, int], mask: str, device: str) -> torch.Tensor:
    options = MASKS[mask]
    seen = torch.ones(seq, dtype=torch.bool, device=device)
    if options.get("causal"):
        seen = seen.tril(seq[1] - seq[0])
    if "window" in options:
        seen = seen.triu(seq[1] - seq[0] + 1 - options["window"])
    return ~seen


def test_keys_behind_the_last_one_do_not_matter(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (70, 200))
    bias = bias_like(q, (1, 1, 70, 200))
    k[:, :, 77:], v[:, :, 77:], bias[..., 77:] = torch.nan, torch.nan, torch.nan
    k, v, bias = k[:, :, :77], v[:, :, :77], bias[..., :77]
    assert_attends(kernels.flash_attention(q, k, v, bias=bias), reference(q, k, v, bias=bias), largest_score=30)


def _definition(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor, *, scale: float | None = None, **masks: Any
) -> torch.Tensor:
    """By its definition, with autograd's own operators: the bias as what one more column of q and of k would give."""
    group, (seq_q, seq_kv) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * q @ k.repeat_interleave(group, dim=1).transpose(-2, -1) + bias
    seen = torch.ones(seq_q, seq_kv, dtype=torch.bool, device=q.device)
    if masks.get("causal"):
        seen = seen.tril(seq_kv - seq_q)
    if "window" in masks:
        seen = seen.triu(seq_kv - seq_q + 1 - masks["window"])
    weights = torch.softmax(scores.masked_fill(~seen, -1e300), dim=-1)
    weights = weights.masked_fill(~seen | (scores == -torch.inf), 0.0)
    return weights @ v.repeat_interleave(group, dim=1)


@pytest.mark.parametrize("mask", ["full", "window of 40", "scaled"])
@pytest.mark.parametrize("form", BROADCAST)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gradients_agree_with_float64(dtype: torch.dtype, form: str, mask: str, device: str) -> None:
    seq = (40, 33)
    q, k, v = inputs(device, dtype, seq, heads=(4, 2))
    bias = bias_like(q, BROADCAST[form](*seq))
    d_out = torch.randn_like(q)

    def gradients(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_() for x in tensors]
        *qkv, b = leaves
        function(*qkv, bias=b, **MASKS[mask]).backward(d_out.to(tensors[0].dtype))
        return [x.grad for x in leaves if x.grad is not None]

    found = gradients(kernels.flash_attention, q, k, v, bias)
    expected = gradients(_definition, *(x.double() for x in (q, k, v, bias)))
    eps = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2e-6}[dtype]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        largest = max(1.0, other.abs().max().item())
        torch.testing.assert_close(one.double(), other, rtol=0, atol=8 * eps * largest)


def test_what_sees_nothing_has_no_gradient(device: str) -> None:
    q, k, v = (x.requires_grad_() for x in inputs(device, torch.float16, (9, 12)))
    bias = torch.full((9, 12), -torch.inf, device=device, dtype=torch.float16).requires_grad_()
    kernels.flash_attention(q, k, v, bias=bias).sum().backward()
    for x in (q, k, v, bias):
        assert x.grad is not None
        assert (x.grad == 0).all()


def test_the_bias_alone_may_require_a_gradient(device: str) -> None:
    q, k, v = inputs(device, torch.float32, (9, 12))
    bias = bias_like(q, (9, 12)).requires_grad_()
    kernels.flash_attention(q, k, v, bias=bias).square().sum().backward()
    assert bias.grad is not None
    assert bias.grad.abs().sum() > 0


def refusal(*tensors: torch.Tensor, bias: torch.Tensor) -> str:
    with pytest.raises(RuntimeError) as refused:
        kernels.flash_attention(*tensors, bias=bias)
    return str(refused.value).splitlines()[0]


@pytest.mark.parametrize(
    "shape", [(), (7,), (2, 4, 5, 8), (3, 4, 5, 7), (2, 2, 5, 7), (4, 1, 5, 7), (1, 2, 4, 5, 7)], ids=str
)
def test_says_which_shapes_it_takes(shape: tuple[int, ...], device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 7), heads=(4, 2))
    text = f"[{', '.join(str(size) for size in shape)}]"
    assert refusal(q, k, v, bias=torch.zeros(shape, device=device, dtype=torch.float16)) == (
        "flash_attention: bias must broadcast to (batch, heads_q, seq_q, seq_kv), which is [2, 4, 5, 7], got shape "
        + text
    )


def test_says_which_dtype_it_takes(device: str) -> None:
    q, k, v = inputs(device, torch.float16, (5, 7))
    assert refusal(q, k, v, bias=torch.zeros(5, 7, device=device)) == (
        "flash_attention: q and bias differ in dtype: float16 against float32"
    )


def test_says_which_tensor_is_on_which_device(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (5, 7))
    assert refusal(q, k, v, bias=torch.zeros(5, 7, dtype=torch.float16)) == (
        "flash_attention: q and bias must be on one device: q is on cuda:0, bias on cpu"
    )


@pytest.mark.parametrize("causal", [False, True])
def test_is_a_well_behaved_operator(causal: bool, device: str) -> None:
    q, k, v = inputs(device, torch.float16, (9, 17), heads=(4, 2))
    operators = torch.ops.warpwatch
    for bias in (bias_like(q, (9, 17)), bias_like(q, (2, 1, 9, 17))):
        for operator in (operators.flash_attention_biased, operators.flash_attention_biased_with_lse):
            arguments = (q, k, v, bias, causal, None, 4 if causal else None)
            torch.library.opcheck(operator.default, arguments, raise_exception=True)


def test_compiles_without_graph_breaks(device: str) -> None:
    @torch.compile(fullgraph=True)
    def doubled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return kernels.flash_attention(q, k, v, bias=bias, causal=True) * 2

    q, k, v = inputs(device, torch.float16, (9, 17))
    bias = bias_like(q, (9, 17))
    assert torch.equal(doubled(q, k, v, bias), kernels.flash_attention(q, k, v, bias=bias, causal=True) * 2)
    leaves: Tensors = tuple(x.detach().requires_grad_() for x in (q, k, v))  # type: ignore[assignment]
    doubled(*leaves, bias).sum().backward()
    assert all(x.grad is not None for x in leaves)


def test_replays_from_a_cuda_graph(cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (200, 300), heads=(4, 2))
    bias = bias_like(q, (200, 300))
    kernels.flash_attention(q, k, v, bias=bias, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = kernels.flash_attention(q, k, v, bias=bias, causal=True)
    for x in (q, k, v, bias):
        x.copy_(torch.randn_like(x))
    graph.replay()
    assert_attends(out, reference(q, k, v, bias=bias, causal=True), largest_score=30)


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_long_and_many_headed_work_agrees_with_pytorch(causal: bool, head_dim: int, cuda: str) -> None:
    q, k, v = inputs(cuda, torch.float16, (2049, 2049), heads=(20, 10), head_dim=head_dim, batch=1)
    bias = bias_like(q, (1, 20, 2049, 2049))
    mask = bias.float()
    if causal:
        mask = mask + torch.full((2049, 2049), -torch.inf, device=cuda).triu(1)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), attn_mask=mask, enable_gqa=True
    )
    assert_attends(kernels.flash_attention(q, k, v, bias=bias, causal=causal), expected.double(), largest_score=30)


@pytest.mark.parametrize("mask", ["full", "window of 40"])
@pytest.mark.parametrize(("head_dim", "dtype"), [(64, torch.float16), (96, torch.float32)], ids=str)
@pytest.mark.parametrize("form", ["whole", "keys of a batch"])
def test_triton_twin_agrees(
    form: str, head_dim: int, dtype: torch.dtype, mask: str, device: str, twin: Callable[..., Callable[..., Any]]
) -> None:
    _needs_an_interpreter_that_counts(device)
    q, k, v = inputs(device, dtype, (70, 90), head_dim=head_dim, heads=(4, 2))
    bias = bias_like(q, BROADCAST[form](70, 90))
    bias[..., bias.shape[-2] // 2, :] = -torch.inf
    out, lse = twin("flash_attention", "flash_attention_with_lse")(q, k, v, bias=bias, **MASKS[mask])
    assert_attends(out, reference(q, k, v, bias=bias, **MASKS[mask]), largest_score=30)
    _, expected = kernels.flash_attention_with_lse(q, k, v, bias=bias, **MASKS[mask])
    torch.testing.assert_close(lse, expected, rtol=1e-5, atol=1e-5)


def test_triton_twin_says_which_shapes_it_takes(device: str, twin: Callable[..., Callable[..., Any]]) -> None:
    q, k, v = inputs(device, torch.float16, (5, 7))
    with pytest.raises(RuntimeError, match=r"bias must broadcast to .*, which is \[2, 2, 5, 7\], got shape \[6, 7\]"):
        twin("flash_attention")(q, k, v, bias=torch.zeros(6, 7, device=device, dtype=torch.float16))
