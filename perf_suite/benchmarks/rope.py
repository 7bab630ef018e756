"""rope: memory-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_2_13B, LLAMA_2_70B, LLAMA_3_8B
from ..warpwatch_operators import triton_operator, warpwatch_operator

if TYPE_CHECKING:
    from warpbench.draw import Draw

BASE = 10000.0
# Rounding the result to fp16 costs about 2.8e-4 (bf16: eight times that). The fp32 arithmetic adds far less.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}


def cost(*, batch: int, heads: int, seq: int, head_dim: int, element_bytes: int, computed: bool = False) -> Cost:
    """Three FLOPs an element (two products, one sum); x and the fp32 tables read, out written.

    Computed angles count no FLOP; then a position of 8 bytes a sequence is read and no table.
    """
    elements = batch * heads * seq * head_dim
    tables = 8 * batch if computed else 2 * seq * (head_dim // 2) * ELEMENT_BYTES["fp32"]
    return Cost(flops=3 * elements, bytes=2 * elements * element_bytes + tables)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = 32,
    seq_len: int,
    head_dim: int = 128,
    interleaved: bool = False,
    computed: bool = False,  # angles from positions, and not from tables
    energy_of: tuple[str, ...] = (),
) -> Case:
    """Rotary position embedding of x (batch, heads, seq_len, head_dim). Raises ValueError for an odd head_dim."""
    if head_dim % 2:
        raise ValueError(f"head_dim ({head_dim}) must be even, for its elements turn in pairs")
    layout = ("-interleaved" if interleaved else "") + ("-computed" if computed else "")
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "seq": seq_len, "head_dim": head_dim}
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype], computed=computed)
    # Set only where True: the other cases are older than this parameter, and their recorded series lack it.
    computed_angles: dict[str, Any] = {"computed": True} if computed else {}
    return Case(
        f"{device}-{dtype}-b{batch}-h{heads}-s{seq_len}-d{head_dim}{layout}",
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        energy_of=energy_of,
        interleaved=interleaved,
        **sizes,
        **computed_angles,
    )


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> torch.Tensor:
    """Each pair of x turned by its position's angle, in float64.

    x (batch, heads, seq, head_dim); cos, sin (seq, head_dim / 2). A pair is (i, i + head_dim / 2), as in
    GPT-NeoX, or (2 i, 2 i + 1) if interleaved, as in GPT-J. Su et al., "RoFormer" (arXiv:2104.09864, 2021).
    """
    x, cos, sin = x.double(), cos.double(), sin.double()
    if interleaved:
        first, second = x[..., 0::2], x[..., 1::2]
    else:
        first, second = x.chunk(2, dim=-1)
    turned_first = first * cos - second * sin
    turned_second = second * cos + first * sin
    if interleaved:
        return torch.stack((turned_first, turned_second), dim=-1).flatten(-2)
    return torch.cat((turned_first, turned_second), dim=-1)


def rope_computed(x: torch.Tensor, positions: torch.Tensor, base: float, interleaved: bool = False) -> torch.Tensor:
    """As rope, by the angles (positions[b] + s) * base ** (-2 i / head_dim) of row s of sequence b."""
    batch, _, seq, head_dim = x.shape
    half = head_dim // 2
    frequencies = base ** (-torch.arange(half, device=x.device, dtype=torch.float64) / half)
    by_sequence = (positions[:, None] + torch.arange(seq, device=x.device))[..., None] * frequencies
    each = (rope(x[b : b + 1], by_sequence[b].cos(), by_sequence[b].sin(), interleaved) for b in range(batch))
    return torch.cat(tuple(each))


class Rope(warpwatch_benchmark.WarpwatchBenchmark):
    """Rotary position embedding; x, out (batch, heads, seq, head_dim).

    cos, sin (seq, head_dim / 2) fp32; where angles are computed instead, positions (batch) int64 are those of each
    sequence's first row.
    """

    watched = Watched(
        kernels=("rope_pairs", "rope_pieces", "rope_rows", "rope_small"), twins=("_rope",), sources=("rope/rope.cu",)
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=8, seq_len=2048, energy_of=("warpwatch", "torch_compile")),
        case("cuda", "fp16", batch=16, seq_len=2048),  # 537 MB
        case("cuda", "fp16", batch=4, seq_len=2048),
        case("cuda", "fp16", batch=1, seq_len=2048),
        case("cuda", "bf16", batch=1, seq_len=2048),
        case("cuda", "fp16", batch=1, seq_len=2048, interleaved=True),
        case("cuda", "fp16", batch=8, seq_len=2048, interleaved=True),
        case("cuda", "fp16", batch=1, seq_len=4096),
        case("cuda", "fp16", batch=1, seq_len=8192),
        case("cuda", "fp16", batch=1, heads=LLAMA_2_13B.heads, seq_len=2048),
        case("cuda", "fp16", batch=1, heads=LLAMA_2_70B.heads, seq_len=2048),
        case("cuda", "fp16", batch=1, heads=LLAMA_3_8B.heads_kv, seq_len=2048),  # the keys of a prefill
        case("cuda", "fp16", batch=1, heads=12, seq_len=1024, head_dim=64),
        case("cuda", "fp16", batch=64, seq_len=1),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=16, seq_len=1),
        case("cuda", "fp16", batch=1, seq_len=1),
        case("cuda", "fp16", batch=8, seq_len=2048, computed=True),
        case("cuda", "bf16", batch=8, seq_len=2048, interleaved=True, computed=True),
        case("cuda", "fp16", batch=64, seq_len=1, computed=True),
        case("cpu", "fp32", batch=1, heads=8, seq_len=256),
        case("cpu", "fp32", batch=2, heads=8, seq_len=64, computed=True),
        case("cpu", "fp32", batch=1, heads=8, seq_len=256, interleaved=True),
    )
    smallest = {"heads": 1, "seq_len": 1}

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """Normal x, and the angles of positions 0, 1, 2 ... from a random start, so that none is the identity.

        Where they are computed, each sequence has a start of its own, up to 100000.
        """
        x = draw.activation(case.batch, case.heads, case.seq, case.head_dim)
        table = angles(draw.integers(1, 1000, (1,)) + torch.arange(case.seq, device=draw.device), case.head_dim)
        computed = case.shape.get("computed")
        return {
            "x": x,
            "cos": draw.constant(table.cos().float()),
            "sin": draw.constant(table.sin().float()),
            "positions": draw.constant(draw.integers(1, 100_000, (case.batch,))) if computed else None,
            "interleaved": case.interleaved,
        }

    def reference(
        self,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        positions: torch.Tensor | None,
        interleaved: bool,
    ) -> torch.Tensor:
        """rope or rope_computed, in float64."""
        return rope(x, cos, sin, interleaved) if positions is None else rope_computed(x, positions, BASE, interleaved)

    @kernel(binds=True)
    def warpwatch(self, positions: torch.Tensor | None, **inputs: Any) -> Callable[[], Any]:
        """The CUDA C++ or CPU kernel of the commit."""
        return bound(warpwatch_operator("rope" if positions is None else "rope_computed"), positions, **inputs)

    @kernel(binds=True, devices=["cuda"])
    def triton(self, positions: torch.Tensor | None, **inputs: Any) -> Callable[[], Any]:
        """Its Triton twin."""
        return bound(triton_operator("rope", "rope" if positions is None else "rope_computed"), positions, **inputs)

    @baseline(binds=True)
    def eager(self, positions: torch.Tensor | None, **inputs: Any) -> Callable[[], Any]:
        """The formula in plain PyTorch, fp32 inside."""
        return bound(turned if positions is None else turned_by_position, positions, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, positions: torch.Tensor | None, **inputs: Any) -> Callable[[], Any]:
        """The same formula through torch.compile."""
        x, cos = inputs["x"], inputs["cos"]
        formula: Callable[..., torch.Tensor] = (
            compiled(turned, x, cos) if positions is None else compiled(turned_by_position, x, positions)
        )
        return bound(formula, positions, **inputs)


def bound(
    operator: Callable[..., torch.Tensor],
    positions: torch.Tensor | None,
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool,
) -> Callable[[], torch.Tensor]:
    """A call of an operator that takes cos and sin, or where there are positions, of one that computes the angles."""
    if positions is None:
        return lambda: operator(x, cos, sin, interleaved=interleaved)
    return lambda: operator(x, positions, base=BASE, interleaved=interleaved)


def angles(places: torch.Tensor, head_dim: int, base: float = BASE) -> torch.Tensor:
    """places[..., None] * base ** (-2 i / head_dim) for each i below head_dim / 2.

    In float64: in float32 those of position 100000 would be off by thousandths of a radian.
    """
    half = head_dim // 2
    frequencies = base ** (-torch.arange(half, device=places.device, dtype=torch.float64) / half)
    return places[..., None] * frequencies


def turned_by_position(x: torch.Tensor, positions: torch.Tensor, base: float, interleaved: bool) -> torch.Tensor:
    """`turned` with cos and sin of the positions' angles."""
    places = positions[:, None, None] + torch.arange(x.shape[2], device=x.device)[None, None, :]
    computed = angles(places, x.shape[-1], base)
    return turned(x, computed.cos().float(), computed.sin().float(), interleaved)


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """The formula in plain PyTorch, fp32 inside."""
    wide = x.float()
    if interleaved:
        first, second = wide[..., 0::2], wide[..., 1::2]
    else:
        first, second = wide.chunk(2, dim=-1)
    pairs = (first * cos - second * sin, second * cos + first * sin)
    out = torch.stack(pairs, dim=-1).flatten(-2) if interleaved else torch.cat(pairs, dim=-1)
    return out.to(x.dtype)
