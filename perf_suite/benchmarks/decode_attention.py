"""decode_attention, a decode step over a contiguous cache: memory-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..attention_masks import causal_pairs, hidden_pairs
from ..compiled.watched_kernels import Watched
from ..flash_attention_package import flash_attention_package
from .flash_attention import flash_attention

if TYPE_CHECKING:
    from warpbench.draw import Draw

# Results are means over thousands of values, small against the rounding of weights and values; as in flash_attention.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def cost(
    *,
    batch: int,
    heads_q: int,
    heads_kv: int,
    seq_q: int,
    keys: int,
    head_dim: int,
    element_bytes: int,
    table_entries: int = 0,
) -> Cost:
    """Two matrix products over the pairs of new tokens and keys that are seen; q, out, keys and values once.

    Each sequence has so many keys, the new tokens' own among them; an entry of a page table is 4 bytes.
    """
    queries = batch * heads_q * seq_q * head_dim
    cache = batch * heads_kv * keys * head_dim
    return Cost(
        flops=4 * batch * heads_q * head_dim * causal_pairs(seq_q, keys),
        bytes=(2 * queries + 2 * cache) * element_bytes + 4 * table_entries,
    )


def case(
    device: str,
    dtype: str,
    energy_of: Sequence[str] = (),
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int = 1,  # new tokens
    seq_len_kv: int,  # keys of each sequence, the new tokens' own among them
    head_dim: int = 128,
) -> Case:
    """A few new tokens over a cache. Raises ValueError for too many, and for heads not shared evenly."""
    heads_kv = heads if heads_kv is None else heads_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    if not seq_len <= min(8, seq_len_kv):
        raise ValueError(f"seq_len ({seq_len}) must be at most 8 and at most seq_len_kv ({seq_len_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    work = cost(
        batch=batch,
        heads_q=heads,
        heads_kv=heads_kv,
        seq_q=seq_len,
        keys=seq_len_kv,
        head_dim=head_dim,
        element_bytes=ELEMENT_BYTES[dtype],
    )
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{seq_len}x{seq_len_kv}-d{head_dim}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        energy_of=energy_of,
        batch=batch,
        heads_q=heads,
        heads_kv=heads_kv,
        seq_q=seq_len,
        seq_kv=seq_len_kv,
        head_dim=head_dim,
    )


class DecodeAttention(warpwatch_benchmark.OperatorBenchmark):
    """flash_attention of a few new tokens over a cache, causal; out like q.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim).
    """

    watched = Watched(
        kernels=(
            "decode_attention_combine",
            "decode_attention_fp32_kernel",
            "decode_attention_sm75_kernel",
            "decode_attention_sm80_kernel",
        ),
        twins=("_decode_attention", "_combine_parts"),
        sources=(
            "decode_attention/decode_attention_combine.cu",
            "decode_attention/decode_attention_fp32.cu",
            "decode_attention/decode_attention_sm75.cu",
            "decode_attention/decode_attention_sm80.cu",
        ),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),  # Llama 3 8B
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096, energy_of=("warpwatch", "sdpa")),
        case("cuda", "bf16", batch=8, heads=32, heads_kv=8, seq_len_kv=4096),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len_kv=16384),
        case("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=4096),
        case("cuda", "fp16", batch=1, heads=32, heads_kv=8, seq_len_kv=32768),
        case("cuda", "fp16", batch=64, heads=32, heads_kv=8, seq_len_kv=1024),
        case("cuda", "fp16", batch=8, heads=32, heads_kv=8, seq_len=4, seq_len_kv=4096),  # speculative decoding
        case("cuda", "fp16", batch=8, heads=32, seq_len_kv=1024),  # Llama 2 7B
        case("cuda", "fp16", batch=8, heads=64, heads_kv=8, seq_len_kv=4096),  # Llama 2 70B
        case("cuda", "fp16", batch=8, heads=12, seq_len_kv=1024, head_dim=64),  # GPT-2 124M
        case("cuda", "fp32", batch=8, heads=32, heads_kv=8, seq_len_kv=1024),
        case("cpu", "fp32", batch=2, heads=8, heads_kv=2, seq_len_kv=512, head_dim=64),
        case("cpu", "fp32", batch=1, heads=4, seq_len=4, seq_len_kv=256, head_dim=64),
    )
    smallest = {"heads": 1, "seq_len_kv": 16, "head_dim": 64}
    reference_in_float64 = False  # it widens one head at a time

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, k, v: scores of unit variance, so that no softmax row collapses onto one key."""
        return {
            "q": draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim),
            "k": draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim),
            "v": draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim),
        }

    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The formula in float64."""
        return decode_attention(q, k, v)

    @baseline(binds=True)
    def sdpa(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Prepared:
        """PyTorch's scaled_dot_product_attention with the backend it chooses by itself.

        For several tokens it gets a mask, since its own causal one is aligned top-left.
        """
        mask = None if q.shape[2] == 1 else ~hidden_pairs(q, k)
        grouped = q.shape[1] != k.shape[1]
        attention = torch.nn.functional.scaled_dot_product_attention
        choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, enable_gqa=grouped)
        return Prepared(
            run=lambda: attention(q, k, v, attn_mask=mask, enable_gqa=grouped),
            backend=torch.nn.attention.SDPBackend(choice).name.lower(),
        )

    @baseline(binds=True)
    def eager(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], Any]:
        """Scores, mask, softmax and product in plain PyTorch, the query heads of a key head as rows of one matrix."""
        batch, heads_q, seq_q, head_dim = q.shape
        group = heads_q // k.shape[1]
        packed = (batch, k.shape[1], group * seq_q, head_dim)
        hidden = None if seq_q == 1 else hidden_pairs(q, k).repeat(group, 1)

        def run() -> torch.Tensor:
            scores = (q.reshape(packed) @ k.transpose(-2, -1)) * head_dim**-0.5
            if hidden is not None:
                scores = scores.masked_fill(hidden, -torch.inf)
            return (torch.softmax(scores, dim=-1) @ v).view(q.shape)

        return run

    @baseline(binds=True, devices=["cuda"])
    def flash_attn(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Prepared:
        """FlashAttention's flash_attn_with_kvcache. Raises UnavailableError for fp32 and what vLLM's does not take."""
        package = flash_attention_package()
        if q.dtype == torch.float32:
            raise UnavailableError("FlashAttention takes fp16 and bf16 alone")
        packed = tuple(x.transpose(1, 2) for x in (q, k, v))  # (batch, seq, heads, head_dim)
        return Prepared(run=lambda: package.with_cache(*packed, causal=True).transpose(1, 2), backend=package.backend)


def decode_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor | None = None,
    scale: float | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v in float64, each sequence cut to its own length.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, capacity, head_dim); lengths (batch), taken as
    0 .. capacity, which all sequences have without it. Query i sees keys j <= i + (length - seq_q); one that sees no
    key gives zeros.
    """
    capacity = k.shape[2]
    known = [capacity] * len(q) if lengths is None else lengths.clamp(0, capacity).tolist()
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for b, length in enumerate(known):
        one = slice(b, b + 1)
        out[one] = flash_attention(q[one], k[one, :, :length], v[one, :, :length], causal=True, scale=scale)
    return out
