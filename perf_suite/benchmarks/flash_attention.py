"""flash_attention, the forward pass: compute-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from warpbench import Case, Prepared, UnavailableError, baseline
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch

from .. import warpwatch_benchmark
from ..attention_masks import causal_pairs, hidden_pairs
from ..compiled.watched_kernels import Watched
from ..flash_attention_package import flash_attention_package
from ..language_models import GPT_2, LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B
from ..warpwatch_operators import library

if TYPE_CHECKING:
    from warpbench.draw import Draw

# Softmax weights and results are rounded to fp16, about 3e-4 each (bf16: eight times that); fp32 sums over the keys
# reach 1e-6.
TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


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
    biases: int = 0,
) -> Cost:
    """Two matrix products over the query-key pairs that are seen; q, k, v read and out written once.

    Of each of `biases` matrices (seq_q, seq_kv) the pairs that are seen are read once. With a window, causal alone, a
    query sees that many keys at most, and keys older than the first one's are not read.
    """
    pairs = causal_pairs(seq_q, seq_kv, window) if causal else seq_q * seq_kv
    queries = batch * heads_q * seq_q * head_dim
    keys = batch * heads_kv * keys_seen(seq_q, seq_kv, window) * head_dim
    return Cost(
        flops=4 * batch * heads_q * head_dim * pairs, bytes=(2 * queries + 2 * keys + biases * pairs) * element_bytes
    )


def keys_seen(seq_q: int, seq_kv: int, window: int | None) -> int:
    """Keys that at least one query sees."""
    return seq_kv if window is None else min(seq_kv, seq_q + window - 1)


def case(
    device: str,
    dtype: str,
    energy_of: Sequence[str] = (),
    *,
    batch: int = 1,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
    seq_len: int,
    seq_len_kv: int | None = None,  # as long as seq_len
    head_dim: int = 128,
    causal: bool = False,
    window: int | None = None,  # keys that a query sees at most, with causal
    biases: int = 0,  # matrices (seq_len, seq_len_kv) of a bias: one for each head or one for all
) -> Case:
    """Scaled dot-product attention of one shape.

    Raises ValueError for heads that do not share key heads evenly, for a window without a causal mask, and for biases
    that are neither one nor one a head.
    """
    heads_kv = heads if heads_kv is None else heads_kv
    seq_len_kv = seq_len if seq_len_kv is None else seq_len_kv
    if heads % heads_kv:
        raise ValueError(f"heads ({heads}) must be a multiple of heads_kv ({heads_kv})")
    if window is not None and not causal:
        raise ValueError("a window needs the causal mask")
    if biases not in (0, 1, heads):
        raise ValueError(f"biases ({biases}) must be 0, 1 or heads ({heads})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    lengths = f"{seq_len}" if seq_len_kv == seq_len else f"{seq_len}x{seq_len_kv}"
    mask = "full" if not causal else "causal" if window is None else f"causal-window{window}"
    biased = f"-bias{biases}" if biases else ""
    shape: dict[str, Any] = {
        "batch": batch,
        "heads_q": heads,
        "heads_kv": heads_kv,
        "seq_q": seq_len,
        "seq_kv": seq_len_kv,
        "head_dim": head_dim,
        "causal": causal,
        **({} if window is None else {"window": window}),
        **({"biases": biases} if biases else {}),
    }
    work = cost(**shape, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}{grouped}-s{lengths}-d{head_dim}-{mask}{biased}",
        device=device,
        dtype=dtype,
        tolerance=TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        energy_of=energy_of,
        **shape,
    )


class FlashAttention(warpwatch_benchmark.OperatorBenchmark):
    """out = softmax(q k^T / sqrt(head_dim) + bias) v; out like q.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); bias (1, heads_q or 1, seq_q,
    seq_kv). The kernels of the attention ladder derive from this class.
    """

    case: ClassVar[Callable[..., Case]] = staticmethod(case)
    cases: ClassVar[Sequence[Case]] = (
        case("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=False),
        case("cuda", "fp16", batch=16, heads=32, seq_len=512, head_dim=64, causal=True),
        case("cuda", "fp16", batch=1, **GPT_2.attention_heads, seq_len=1024, causal=True),
        case("cuda", "fp16", batch=8, **GPT_2.attention_heads, seq_len=1024, causal=True),
        case("cuda", "fp16", heads=32, seq_len=512, head_dim=128, causal=True),
        case("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=True),
        case("cuda", "fp16", heads=32, seq_len=1024, head_dim=128, causal=False),
        case("cuda", "fp16", heads=32, seq_len=2048, head_dim=128, causal=True, energy_of=("warpwatch", "sdpa")),
        case("cuda", "bf16", heads=32, seq_len=2048, head_dim=128, causal=True),
        case("cuda", "fp16", heads=32, seq_len=4096, head_dim=128, causal=True),
        case("cuda", "fp16", heads=32, seq_len=2048, head_dim=64, causal=True),
        case("cuda", "fp16", heads=32, seq_len=2048, head_dim=96, causal=True),
        case("cuda", "fp16", heads=16, seq_len=2048, head_dim=256, causal=True),
        case("cuda", "fp16", heads=32, heads_kv=8, seq_len=8192, causal=True, window=1024),
        case("cuda", "fp16", batch=4, heads=32, seq_len=1024, causal=False, biases=32),
        case("cuda", "fp16", heads=8, seq_len=16384, causal=True),
        case("cuda", "fp32", heads=16, seq_len=1024, head_dim=64, causal=True),
        case("cuda", "fp32", heads=32, seq_len=1024, causal=True),
        case("cuda", "fp32", heads=32, seq_len=2048, causal=False),
        case("cuda", "fp16", **LLAMA_2_13B.attention_heads, seq_len=2048, causal=True),
        case("cuda", "fp16", **LLAMA_2_70B.attention_heads, seq_len=2048, causal=True),
        case("cuda", "fp16", **LLAMA_3_8B.attention_heads, seq_len=2048, causal=True),
        case("cuda", "fp16", batch=4, **LLAMA_3_8B.attention_heads, seq_len=1024, causal=True),
        # A decode step.
        case("cuda", "fp16", batch=8, **LLAMA_3_8B.attention_heads, seq_len=1, seq_len_kv=4096, causal=False),
        case("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=True),
        case("cpu", "fp32", heads=8, heads_kv=2, seq_len=128, head_dim=64, causal=False),
        case("cpu", "fp32", heads=4, seq_len=256, head_dim=64, causal=True, window=32),
        case("cpu", "fp32", heads=4, seq_len=128, head_dim=64, causal=False, biases=4),
    )
    watched = Watched(
        kernels=(
            "flash_attention_fp32_kernel",
            "flash_attention_sm75_kernel",
            "flash_attention_sm80_kernel",
            "flash_attention_sm90a_kernel",
            "flash_attention_tf32_kernel",
        ),
        twins=("_flash_attention", "_flash_attention_biased"),
        sources=(
            "flash_attention/flash_attention_biased_sm80.cu",
            "flash_attention/flash_attention_biased_sm90a.cu",
            "flash_attention/flash_attention_fp32_sm75.cu",
            "flash_attention/flash_attention_fp32_sm80.cu",
            "flash_attention/flash_attention_hbm.cu",
            "flash_attention/flash_attention_packed_sm80.cu",
            "flash_attention/flash_attention_sm75.cu",
            "flash_attention/flash_attention_sm80.cu",
            "flash_attention/flash_attention_sm90a.cu",
            "flash_attention/flash_attention_tf32_biased_hbm.cu",
            "flash_attention/flash_attention_tf32_packed_hbm.cu",
            "flash_attention/flash_attention_tf32_hbm.cu",
        ),
    )
    smallest = {"heads": 1, "seq_len": 16, "head_dim": 64}
    reference_in_float64 = False  # it widens one head at a time

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal q, k, v: scores of unit variance, so that no softmax row collapses onto one key.

        window and bias only where the case has them: earlier commits take neither.
        """
        options: dict[str, Any] = {"causal": bool(case.causal)}
        if "window" in case.shape:
            options["window"] = case.window
        if "biases" in case.shape:
            options["bias"] = draw.activation(1, case.biases, case.seq_q, case.seq_kv)
        return {
            "q": draw.activation(case.batch, case.heads_q, case.seq_q, case.head_dim),
            "k": draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim),
            "v": draw.activation(case.batch, case.heads_kv, case.seq_kv, case.head_dim),
            **options,
        }

    def reference(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
        """The formula in float64."""
        return flash_attention(q, k, v, **options)

    def call_of(
        self, function: Callable[..., Any], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any
    ) -> Callable[[], Any]:
        """What is timed."""
        return lambda: function(q, k, v, **options)

    @baseline(binds=True)
    def sdpa(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int | None = None,
        bias: torch.Tensor | None = None,
    ) -> Prepared:
        """PyTorch's scaled_dot_product_attention with the backend it chooses by itself.

        A window or a bias is passed as a mask. Raises UnavailableError for a causal mask over unequal lengths, which
        SDPA aligns top-left and we bottom-right, and for a causal mask together with a bias.
        """
        if causal and q.shape[2] != k.shape[2]:
            raise UnavailableError("SDPA's causal mask is aligned top-left, so unequal lengths mean another result")
        options: dict[str, Any] = {"enable_gqa": q.shape[1] != k.shape[1]}
        if bias is not None:
            if causal:
                raise UnavailableError("SDPA takes no bias together with its causal mask")
            options["attn_mask"] = bias.expand(*q.shape[:3], k.shape[2])
        elif window is None:
            options["is_causal"] = causal
        else:
            options["attn_mask"] = ~hidden_pairs(q, k, window)
        attention = torch.nn.functional.scaled_dot_product_attention
        choice = torch.nn.attention.SDPBackend(torch._fused_sdp_choice(q, k, v, **options))
        return Prepared(run=lambda: attention(q, k, v, **options), backend=choice.name.lower())

    @baseline(binds=True)
    def eager(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int | None = None,
        bias: torch.Tensor | None = None,
    ) -> Callable[[], Any]:
        """Scores, mask, softmax and product in plain PyTorch, the scores going through memory."""
        group = q.shape[1] // k.shape[1]
        hidden = hidden_pairs(q, k, window) if causal else None

        def run() -> torch.Tensor:
            keys, values = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
            scores = (q @ keys.transpose(-2, -1)) * q.shape[-1] ** -0.5
            if bias is not None:
                scores = scores + bias
            if hidden is not None:
                scores = scores.masked_fill(hidden, -torch.inf)
            return torch.softmax(scores, dim=-1) @ values

        return run

    @baseline(binds=True, devices=["cuda"])
    def flash_attn(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int | None = None,
        bias: torch.Tensor | None = None,
    ) -> Prepared:
        """FlashAttention. Raises UnavailableError for fp32, for a bias, and for what vLLM's does not take."""
        package = flash_attention_package()
        if bias is not None or q.dtype == torch.float32:
            raise UnavailableError("FlashAttention takes fp16 and bf16, and no bias")
        packed = tuple(x.transpose(1, 2) for x in (q, k, v))  # (batch, seq, heads, head_dim)
        sides = (-1 if window is None else window - 1, 0 if causal else -1)
        return Prepared(
            run=lambda: package.dense(*packed, causal=causal, window_size=sides).transpose(1, 2),
            backend=package.backend,
        )

    @baseline(binds=True, devices=["cuda"])
    def flashinfer(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        causal: bool,
        window: int | None = None,
        bias: torch.Tensor | None = None,
    ) -> Prepared:
        """FlashInfer's single_prefill_with_kv_cache. Raises UnavailableError for several sequences, fp32 and a bias."""
        from flashinfer import single_prefill_with_kv_cache

        if q.shape[0] != 1 or bias is not None or q.dtype == torch.float32:
            raise UnavailableError("FlashInfer's prefill takes one sequence, fp16 or bf16, and no bias")
        queries = q[0].transpose(0, 1)
        left = -1 if window is None else window - 1

        def run() -> torch.Tensor:
            out = single_prefill_with_kv_cache(queries, k[0], v[0], causal=causal, kv_layout="HND", window_left=left)
            return out.transpose(0, 1)[None]

        return Prepared(run=run, backend=library("flashinfer-python"))


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T + bias) v in float64, one head at a time so that the scores of long sequences fit.

    q (batch, heads_q, seq_q, head_dim); k, v (batch, heads_kv, seq_kv, head_dim); query head h reads key head
    h // (heads_q / heads_kv). Causal is aligned bottom-right: query i sees keys j <= i + (seq_kv - seq_q); in a window
    (causal alone) only the newest `window` of them. bias broadcasts to (batch, heads_q, seq_q, seq_kv), -inf hiding
    a key. A query that sees no key gives zeros. scale defaults to 1 / sqrt(head_dim).
    """
    batch, heads_q, seq_q, head_dim = q.shape
    heads_kv, seq_kv = k.shape[1], k.shape[2]
    scale = head_dim**-0.5 if scale is None else scale
    unseen = unseen_pairs(q, k, causal, window)
    out = torch.empty(q.shape[:-1] + v.shape[-1:], dtype=torch.float64, device=q.device)
    for b in range(batch):
        for h in range(heads_q):
            head_kv = h // (heads_q // heads_kv)
            scores = scale * (q[b, h].double() @ k[b, head_kv].double().T)
            if bias is not None:
                scores = scores + bias.expand(batch, heads_q, seq_q, seq_kv)[b, h].double()
            scores = scores.masked_fill(unseen, -torch.inf)
            weights = torch.softmax(scores, dim=-1).masked_fill((scores == -torch.inf).all(dim=-1, keepdim=True), 0.0)
            out[b, h] = weights @ v[b, head_kv].double()
    return out


def unseen_pairs(q: torch.Tensor, k: torch.Tensor, causal: bool, window: int | None) -> torch.Tensor:
    """The pairs (seq_q, seq_kv) that a reference leaves out; worked out by itself, not as the baselines' masks are."""
    row = torch.arange(q.shape[2], device=q.device)[:, None]
    behind = row + (k.shape[2] - q.shape[2]) - torch.arange(k.shape[2], device=q.device)[None, :]
    if not causal:
        return torch.zeros_like(behind, dtype=torch.bool)
    return (behind < 0) if window is None else (behind < 0) | (behind >= window)
