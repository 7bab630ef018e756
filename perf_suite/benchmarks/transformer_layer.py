"""transformer_layer: one layer of Llama's kind, a prompt or one new token over a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import warpwatch_benchmark
from ..language_models import LLAMA_2_7B, LLAMA_3_8B, LanguageModel
from ..warpwatch_operators import warpwatch_operator
from .flash_attention import cost as attention_cost
from .flash_attention import flash_attention
from .rms_norm import rms_norm
from .rope import rope
from .swiglu import swiglu

if TYPE_CHECKING:
    from warpbench.draw import Draw

_EPS = 1e-5
_ROPE_BASE = 10000.0
# Some ten roundings lie on the way through a layer, each about 2.8e-4 in fp16 (bf16: eight times that) of values no
# larger than the result; independent ones add up to three times as much, and cuBLAS may add split-K parts in fp16.
_TOLERANCE = {"fp16": 2e-3, "bf16": 1.6e-2, "fp32": 1e-5}


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    seq_len: int,  # new tokens
    seq_len_kv: int | None = None,  # positions of each sequence, the new ones among them: as many
    hidden: int = 4096,
    intermediate: int = 11008,
    heads: int = 32,
    heads_kv: int | None = None,  # as many as heads
) -> Case:
    """One layer. Raises ValueError for heads that do not divide, and for more than one new token over a cache."""
    heads_kv = heads if heads_kv is None else heads_kv
    seq_len_kv = seq_len if seq_len_kv is None else seq_len_kv
    if hidden % heads or heads % heads_kv:
        raise ValueError(f"heads ({heads}) must divide hidden ({hidden}) and be a multiple of heads_kv ({heads_kv})")
    if seq_len != seq_len_kv and not seq_len == 1 < seq_len_kv:
        raise ValueError(f"seq_len ({seq_len}) must be 1 or seq_len_kv ({seq_len_kv})")
    grouped = f"-kv{heads_kv}" if heads_kv != heads else ""
    over = f"x{seq_len_kv}" if seq_len_kv != seq_len else ""
    shape: dict[str, Any] = {
        "batch": batch,
        "seq_q": seq_len,
        "seq_kv": seq_len_kv,
        "hidden": hidden,
        "intermediate": intermediate,
        "heads_q": heads,
        "heads_kv": heads_kv,
    }
    work = cost(**shape, element_bytes=ELEMENT_BYTES[dtype])
    return Case(
        f"{device}-{dtype}-b{batch}-s{seq_len}{over}-e{hidden}-f{intermediate}-h{heads}{grouped}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        **shape,
    )


def cost(
    *,
    batch: int,
    seq_q: int,
    seq_kv: int,
    hidden: int,
    intermediate: int,
    heads_q: int,
    heads_kv: int,
    element_bytes: int,
) -> Cost:
    """Products and causal attention of a layer with a gated MLP; its norms, rotation and activation are left out.

    Each weight once; x and out; keys and values of all positions once, those of new tokens written and others read.
    """
    head_dim = hidden // heads_q
    attention = attention_cost(
        batch=batch,
        heads_q=heads_q,
        heads_kv=heads_kv,
        seq_q=seq_q,
        seq_kv=seq_kv,
        head_dim=head_dim,
        causal=True,
        element_bytes=element_bytes,
    )
    weights = 2 * hidden * hidden + 2 * hidden * heads_kv * head_dim + 3 * hidden * intermediate
    rows = batch * seq_q
    cache = 2 * batch * heads_kv * seq_kv * head_dim
    return Cost(
        flops=2 * rows * weights + attention.flops,
        bytes=(weights + 2 * hidden + 2 * rows * hidden + cache) * element_bytes,
    )


def transformer_layer(
    x: torch.Tensor,
    weights: Mapping[str, torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    heads: int,
    eps: float,
) -> torch.Tensor:
    """y = x + attention(norm(x)), then y + mlp(norm(y)), in float64.

    x (batch, seq, hidden); weights by the names of transformers' LlamaDecoderLayer; cos, sin (seq, head_dim / 2);
    keys, values (batch, heads_kv, seen, head_dim) of the positions before. Touvron et al., "LLaMA" (arXiv:2302.13971,
    2023).
    """
    w = {name: weight.double() for name, weight in weights.items()}
    head_dim = x.shape[-1] // heads
    normed = rms_norm(x, w["input_layernorm.weight"], eps)
    q, k, v = (
        (normed @ w[f"self_attn.{name}_proj.weight"].T).unflatten(-1, (-1, head_dim)).transpose(1, 2) for name in "qkv"
    )
    k = torch.cat((keys.double(), rope(k, cos, sin)), dim=2)
    v = torch.cat((values.double(), v), dim=2)
    attended = flash_attention(rope(q, cos, sin), k, v, causal=True).transpose(1, 2).flatten(2)
    y = x.double() + attended @ w["self_attn.o_proj.weight"].T
    normed = rms_norm(y, w["post_attention_layernorm.weight"], eps)
    return y + swiglu(normed, w["mlp.gate_proj.weight"], w["mlp.up_proj.weight"]) @ w["mlp.down_proj.weight"].T


def _of(model: LanguageModel, *, batch: int = 1, seq_len: int, seq_len_kv: int | None = None) -> Case:
    return case(
        "cuda",
        "fp16",
        batch=batch,
        seq_len=seq_len,
        seq_len_kv=seq_len_kv,
        hidden=model.hidden,
        intermediate=model.intermediate,
        heads=model.heads,
        heads_kv=model.heads_kv,
    )


class TransformerLayer(warpwatch_benchmark.WarpwatchBenchmark):
    """y = x + attention(norm(x)), then y + mlp(norm(y)).

    x (batch, seq_q, hidden); weights (outputs, depth) by their names in transformers' LlamaDecoderLayer; cos, sin
    (seq_q, head_dim / 2) fp32 of the newest positions; keys, values (batch, heads_kv, seq_kv, head_dim), of which the
    newest seq_q are the new tokens' own: the layer writes them.
    """

    case = staticmethod(case)
    cases = (
        _of(LLAMA_2_7B, seq_len=512),
        _of(LLAMA_2_7B, seq_len=1024),
        _of(LLAMA_2_7B, seq_len=2048),
        _of(LLAMA_2_7B, seq_len=4096),
        _of(LLAMA_3_8B, seq_len=2048),
        _of(LLAMA_3_8B, batch=1, seq_len=1, seq_len_kv=1024),
        _of(LLAMA_3_8B, batch=16, seq_len=1, seq_len_kv=1024),
        case("cpu", "fp32", seq_len=16, hidden=128, intermediate=256, heads=4, heads_kv=2),
        case("cpu", "fp32", batch=2, seq_len=1, seq_len_kv=32, hidden=128, intermediate=256, heads=4, heads_kv=2),
    )
    smallest = {"seq_len": 1, "hidden": 64, "intermediate": 16, "heads": 1}

    @classmethod
    def smallest_case(cls, device: str) -> Case:
        """One head: of 64 elements on a GPU, of 32 on the CPU."""
        if device == "cuda":
            return super().smallest_case(device)
        return case(device, "fp32", seq_len=1, hidden=32, intermediate=16, heads=1)

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, keys and values, and weights such that the products have a variance of about one."""
        hidden, head_dim = case.hidden, case.hidden // case.heads_q
        for_keys = case.heads_kv * head_dim

        def weight(outputs: int, depth: int) -> torch.Tensor:
            return draw.activation(outputs, depth, scale=depth**-0.5)

        weights = {
            "input_layernorm.weight": 1 + draw.activation(hidden, scale=0.1),
            "self_attn.q_proj.weight": weight(hidden, hidden),
            "self_attn.k_proj.weight": weight(for_keys, hidden),
            "self_attn.v_proj.weight": weight(for_keys, hidden),
            "self_attn.o_proj.weight": weight(hidden, hidden),
            "post_attention_layernorm.weight": 1 + draw.activation(hidden, scale=0.1),
            "mlp.gate_proj.weight": weight(case.intermediate, hidden),
            "mlp.up_proj.weight": weight(case.intermediate, hidden),
            "mlp.down_proj.weight": weight(hidden, case.intermediate),
        }
        half = head_dim // 2
        frequencies = _ROPE_BASE ** (-torch.arange(half, device=draw.device, dtype=torch.float64) / half)
        positions = torch.arange(case.seq_kv - case.seq_q, case.seq_kv, device=draw.device)
        angles = positions[:, None] * frequencies
        cache = case.batch, case.heads_kv, case.seq_kv, head_dim
        return {
            "x": draw.activation(case.batch, case.seq_q, hidden),
            "weights": weights,
            "cos": draw.constant(angles.cos().float()),
            "sin": draw.constant(angles.sin().float()),
            "keys": draw.weight(*cache),
            "values": draw.weight(*cache),
        }

    def reference(
        self,
        x: torch.Tensor,
        weights: Mapping[str, torch.Tensor],
        cos: torch.Tensor,
        sin: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> torch.Tensor:
        """The layer over the positions that were seen before."""
        seen = keys.shape[2] - x.shape[1]
        heads = x.shape[-1] // keys.shape[-1]
        return transformer_layer(x, weights, cos, sin, keys[:, :, :seen], values[:, :, :seen], heads=heads, eps=_EPS)

    @kernel(binds=True)
    def warpwatch(
        self,
        x: torch.Tensor,
        weights: Mapping[str, torch.Tensor],
        cos: torch.Tensor,
        sin: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> Callable[[], Any]:
        """The commit's TransformerLayer and KVCache."""
        warpwatch_operator("rms_norm")  # raises UnavailableError where the kernels are not built
        from warpwatch.kernels import modules

        batch, new, hidden = x.shape
        _, heads_kv, room, head_dim = keys.shape
        intermediate = weights["mlp.gate_proj.weight"].shape[0]
        sizes = hidden, intermediate, hidden // head_dim, heads_kv
        layer = modules.TransformerLayer(*sizes, eps=_EPS, dtype=x.dtype, device="meta")
        layer.load_state_dict(weights, assign=True)
        layer.requires_grad_(False)
        seen = room - new
        cache = modules.KVCache(batch, heads_kv, room, head_dim, dtype=x.dtype, device=x.device)
        cache.append(keys[:, :, :seen], values[:, :, :seen])

        def run() -> torch.Tensor:
            cache.truncate(seen)
            return layer(x, cos, sin, cache)

        return run

    @baseline(binds=True)
    def eager(self, **inputs: Any) -> Callable[[], Any]:
        """The same layer in plain PyTorch: SDPA, cuBLAS, rms_norm; new keys written where they belong in the cache."""
        return _bound(_layer, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs: Any) -> Callable[[], Any]:
        """The same through torch.compile."""
        return _bound(compiled(_layer, inputs["x"], inputs["keys"]), **inputs)


def _bound(
    layer: Callable[..., torch.Tensor],
    x: torch.Tensor,
    weights: Mapping[str, torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
) -> Callable[[], Any]:
    tables = tuple(torch.cat((table, table), dim=-1).to(x.dtype) for table in (cos, sin))
    in_order = tuple(weights.values())
    heads = x.shape[-1] // keys.shape[-1]
    return lambda: layer(x, in_order, *tables, keys, values, heads, _EPS)


def _layer(
    x: torch.Tensor,
    weights: tuple[torch.Tensor, ...],  # in the order of `TransformerLayer.inputs`
    cos: torch.Tensor,
    sin: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    heads: int,
    eps: float,
) -> torch.Tensor:
    attention_norm, q_weight, k_weight, v_weight, o_weight, mlp_norm, gate_weight, up_weight, down_weight = weights
    functional = torch.nn.functional
    hidden, head_dim, new = x.shape[-1:], keys.shape[-1], x.shape[1]
    normed = functional.rms_norm(x, hidden, attention_norm, eps)
    q, k, v = (
        functional.linear(normed, weight).unflatten(-1, (-1, head_dim)).transpose(1, 2)
        for weight in (q_weight, k_weight, v_weight)
    )
    keys[:, :, keys.shape[2] - new :] = _turned(k, cos, sin)
    values[:, :, values.shape[2] - new :] = v
    attended = functional.scaled_dot_product_attention(
        _turned(q, cos, sin), keys, values, is_causal=new > 1, enable_gqa=keys.shape[1] != heads
    )
    y = x + functional.linear(attended.transpose(1, 2).flatten(2), o_weight)
    normed = functional.rms_norm(y, hidden, mlp_norm, eps)
    gated = functional.silu(functional.linear(normed, gate_weight)) * functional.linear(normed, up_weight)
    return y + functional.linear(gated, down_weight)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin
