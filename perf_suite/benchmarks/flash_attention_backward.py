"""flash_attention_backward, the gradients of attention: compute-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..attention_masks import hidden_pairs
from ..compiled.watched_kernels import Watched
from . import flash_attention

if TYPE_CHECKING:
    from warpbench.draw import Draw

# Weights, ds and the gradients are rounded to the dtype, and so is the output that delta comes from.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 2e-5}
_LSE_BYTES = ELEMENT_BYTES["fp64"]


def cost(
    *,
    batch: int,
    heads_q: int,
    heads_kv: int,
    seq_q: int,
    seq_kv: int,
    head_dim: int,
    causal: bool,
    element_bytes: int,
    window: int | None = None,
) -> Cost:
    """Five matrix products where the forward pass has two: scores, dp, dq, dk, dv.

    q, out, d_out, k, v and the log-sum-exp read, dq, dk and dv written, once each.
    """
    forward = flash_attention.cost(
        batch=batch,
        heads_q=heads_q,
        heads_kv=heads_kv,
        seq_q=seq_q,
        seq_kv=seq_kv,
        head_dim=head_dim,
        causal=causal,
        element_bytes=element_bytes,
        window=window,
    )
    unseen = batch * heads_kv * (seq_kv - flash_attention.keys_seen(seq_q, seq_kv, window)) * head_dim
    zeros = 2 * unseen * element_bytes  # in dk and dv
    return Cost(flops=forward.flops // 2 * 5, bytes=2 * forward.bytes + zeros + batch * heads_q * seq_q * _LSE_BYTES)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int,
    seq_len_kv: int | None = None,  # as long as seq_len
    head_dim: int = 128,
    causal: bool = False,
    window: int | None = None,  # keys that a query sees at most, with causal
) -> Case:
    """The gradients of scaled dot-product attention of one shape.

    Raises ValueError for heads that do not share key heads evenly, and for a window without a causal mask.
    """
    forward = flash_attention.case(
        device,
        dtype,
        batch=batch,
        heads=heads,
        heads_kv=heads_kv,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        head_dim=head_dim,
        causal=causal,
        window=window,
    )
    work = cost(**forward.shape, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        forward.name,
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        # FlashAttention-2 takes fp16 and bf16 alone.
        implementations=("warpwatch", "triton", "sdpa", "eager") if dtype == "fp32" else None,
        **forward.shape,
    )


class FlashAttentionBackward(warpwatch_benchmark.OperatorBenchmark):
    """dq, dk, dv of flash_attention, from d_out and what the forward pass kept: q, k, v, out, lse.

    d_out, q, out (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); lse (batch, heads_q,
    seq_q) in float64.
    """

    watched = Watched(
        kernels=(
            "flash_attention_delta_kernel",
            "flash_attention_numbers_sm90a_kernel",
            "flash_attention_dkdv_fp32_kernel",
            "flash_attention_dkdv_sm75_kernel",
            "flash_attention_dkdv_sm80_kernel",
            "flash_attention_dkdv_sm90a_kernel",
            "flash_attention_dkdv_tf32_kernel",
            "flash_attention_dq_fp32_kernel",
            "flash_attention_dq_of_ds_sm90a_kernel",
            "flash_attention_dq_sm75_kernel",
            "flash_attention_dq_sm80_kernel",
            "flash_attention_dq_sm90a_kernel",
            "flash_attention_dq_tf32_kernel",
            "flash_attention_wide_gradient_sm90a_kernel",
        ),
        twins=("_flash_attention_delta", "_flash_attention_dq", "_flash_attention_dkdv"),
        sources=(
            "flash_attention/flash_attention_backward_fp32_sm75.cu",
            "flash_attention/flash_attention_backward_fp32_sm80.cu",
            "flash_attention/flash_attention_backward_fp32_sm90a.cu",
            "flash_attention/flash_attention_backward_sm75.cu",
            "flash_attention/flash_attention_backward_sm80.cu",
            "flash_attention/flash_attention_backward_sm90a.cu",
            "flash_attention/flash_attention_backward_tf32_hbm.cu",
            "flash_attention/flash_attention_backward_wide_sm90a.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=True),
        case("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=False),
        case("cuda", "fp16", heads=32, seq_len=2048, head_dim=64, causal=True),
        case("cuda", "fp16", heads=32, seq_len=2048, head_dim=96, causal=True),
        case("cuda", "fp16", heads=32, seq_len=2048, causal=True),
        case("cuda", "bf16", heads=32, seq_len=2048, causal=True),
        case("cuda", "fp16", heads=32, seq_len=2048, causal=False),
        case("cuda", "fp16", heads=32, heads_kv=8, seq_len=2048, causal=True),
        case("cuda", "fp16", heads=32, seq_len=4096, causal=True),
        case("cuda", "fp16", heads=16, seq_len=2048, head_dim=256, causal=True),
        # Not 8192 as of the forward pass: eager would take gigabytes a step, for which PyTorch's allocator waits for
        # the GPU, while NVBench holds that back until all is launched.
        case("cuda", "fp16", heads=32, heads_kv=8, seq_len=4096, causal=True, window=1024),
        case("cuda", "fp32", heads=16, seq_len=1024, head_dim=64, causal=True),
        case("cuda", "fp32", heads=32, seq_len=1024, causal=True),
        case("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
    )
    smallest = {"heads": 1, "seq_len": 16, "head_dim": 64}
    reference_in_float64 = False  # it widens one head at a time

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, k, v and d_out; out and lse are the forward pass's of these q, k, v.

        out and lse stay when q, k, v are drawn again: the gradients are a function of all six, and weights
        exp(scale q k^T - lse) of other scores of the same distribution are of the same size.
        """
        causal, window = bool(case.causal), case.shape.get("window")
        q = draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim)
        k = draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim)
        v = draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim)
        out, lse = output_and_lse(q, k, v, causal, window)
        return {
            "d_out": draw.activation(*q.shape),
            "q": q,
            "k": k,
            "v": v,
            "out": draw.constant(out.to(draw.dtype)),
            "lse": draw.constant(lse),
            "causal": causal,
            **({} if window is None else {"window": window}),
        }

    def reference(self, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """dq, dk and dv in float64."""
        return flash_attention_backward(**inputs)

    def call_of(self, function: Callable[..., Any], **inputs: Any) -> Callable[[], Any]:
        """What is timed."""
        return lambda: function(**inputs)

    @baseline(binds=True, devices=["cuda"])
    def sdpa(self, **inputs: Any) -> Prepared:
        """The backward pass of the backend that scaled_dot_product_attention chooses by itself."""
        return _sdpa_backward(None, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def sdpa_flash(self, **inputs: Any) -> Prepared:
        """The backward pass of scaled_dot_product_attention's FlashAttention-2 backend."""
        return _sdpa_backward("flash_attention", **inputs)

    @baseline(binds=True)
    def eager(
        self,
        d_out: torch.Tensor,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        lse: torch.Tensor,
        causal: bool,
        window: int | None = None,
    ) -> Callable[[], Any]:
        """The formula in plain PyTorch, the weights going through memory."""
        group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
        hidden = hidden_pairs(q, k, window) if causal else None
        lse = lse.float()[..., None]

        def run() -> tuple[torch.Tensor, ...]:
            keys, values = (x.repeat_interleave(group, dim=1) for x in (k, v))
            scores = (scale * q) @ keys.transpose(-2, -1)
            if hidden is not None:
                scores = scores.masked_fill(hidden, -torch.inf)
            weights = torch.exp(scores - lse).to(q.dtype)
            delta = (d_out.float() * out.float()).sum(-1, keepdim=True)
            d_scores = (weights * (d_out @ values.transpose(-2, -1) - delta)).to(q.dtype)
            dk = scale * (d_scores.transpose(-2, -1) @ q)
            dv = weights.transpose(-2, -1) @ d_out
            return (
                scale * (d_scores @ keys),
                *(x.unflatten(1, (-1, group)).sum(2) if group > 1 else x for x in (dk, dv)),
            )

        return run


def _sdpa_backward(
    backend: str | None,
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
    window: int | None = None,
) -> Prepared:
    """The backward pass of an SDPA backend, by itself; None is the backend that SDPA chooses.

    What the backend's forward pass keeps besides out and lse (lengths, state of the random numbers) is prepared here.
    Raises UnavailableError for a window, shared key heads, a causal mask over unequal lengths, and a backend that has
    no fused backward pass for these tensors.
    """
    if window is not None:
        raise UnavailableError("SDPA's fused backward passes know no window")
    if causal and q.shape[2] != k.shape[2]:
        raise UnavailableError("SDPA's causal mask is aligned top-left, so unequal lengths mean another result")
    if q.shape[1] != k.shape[1]:
        raise UnavailableError("SDPA repeats shared key heads and sums their gradients up outside its backward pass")
    operators = torch.ops.aten
    if backend is None:
        choice = torch._fused_sdp_choice(q.detach().requires_grad_(), k, v, is_causal=causal)
        backend = torch.nn.attention.SDPBackend(choice).name.lower()
    if backend == "flash_attention":
        if q.dtype == torch.float32:
            raise UnavailableError("FlashAttention-2 takes fp16 and bf16 alone")
        _, _, *lengths, seed, offset, _ = operators._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)
        flash = operators._scaled_dot_product_flash_attention_backward
        kept = (out, lse.float(), *lengths, 0.0, causal, seed, offset)
        return Prepared(run=lambda: flash(d_out, q, k, v, *kept), backend=backend)
    if backend == "efficient_attention":  # takes fp32 too
        _, padded, seed, offset = operators._scaled_dot_product_efficient_attention(q, k, v, None, True, 0.0, causal)
        padded[..., : q.shape[2]] = lse  # its rows are longer, to a multiple of 32
        efficient = operators._scaled_dot_product_efficient_attention_backward
        kept = (None, out, padded, seed, offset, 0.0, [True, True, True, False], causal)
        return Prepared(run=lambda: efficient(d_out, q, k, v, *kept)[:3], backend=backend)
    if backend == "cudnn_attention":
        _, shaped, *lengths, seed, offset, _ = operators._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, causal
        )
        cudnn = operators._scaled_dot_product_cudnn_attention_backward
        kept = (out, lse.float().reshape(shaped.shape), seed, offset, None, *lengths, 0.0, causal)
        return Prepared(run=lambda: cudnn(d_out, q, k, v, *kept), backend=backend)
    raise UnavailableError(f"SDPA chose {backend}, whose backward pass is not called by itself here")


def flash_attention_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    causal: bool = False,
    window: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dq, dk and dv in float64, one head at a time, as functions of all six tensors; scale 1 / sqrt(head_dim).

    p = exp(scale q k^T - lse), 0 where hidden; ds = p (d_out v^T - delta), delta the sum of d_out out over head_dim;
    dq = scale ds k, dk = scale ds^T q, dv = p^T d_out, summed over the query heads of a key head. Shapes and masks as
    for the reference of flash_attention; lse (batch, heads_q, seq_q).
    """
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in (q, k, v))
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    unseen = flash_attention.unseen_pairs(q, k, causal, window)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            d, queries, output = (x[b, h].double() for x in (d_out, q, out))
            keys, values = (x[b, h // group].double() for x in (k, v))
            weights = torch.exp(scale * (queries @ keys.T) - lse[b, h].double()[:, None]).masked_fill(unseen, 0.0)
            d_scores = weights * (d @ values.T - (d * output).sum(-1, keepdim=True))
            dq[b, h] = scale * (d_scores @ keys)
            dk[b, h // group] += scale * (d_scores.T @ queries)
            dv[b, h // group] += weights.T @ d
    return dq, dk, dv


def output_and_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, window: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward pass's output, and the logarithm of each query's sum of exp(scale q k^T), in float64."""
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float64, device=q.device)
    if q.is_meta:  # without memory, where twins choose their configurations: there are shapes, and no values
        return out, lse
    scale, group = q.shape[-1] ** -0.5, q.shape[1] // k.shape[1]
    unseen = flash_attention.unseen_pairs(q, k, causal, window)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = (x[b, h // group].double() for x in (k, v))
            scores = (scale * (q[b, h].double() @ keys.T)).masked_fill(unseen, -torch.inf)
            lse[b, h] = torch.logsumexp(scores, dim=-1)
            out[b, h] = torch.softmax(scores, dim=-1).masked_fill(unseen, 0.0) @ values
    return out, lse
