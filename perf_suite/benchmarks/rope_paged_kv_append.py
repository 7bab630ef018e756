"""rope_paged_kv_append: paged_kv_append's cases with keys that are rotated first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpbench import Case, baseline, kernel
from warpbench.cost import ELEMENT_BYTES, Cost
from warpbench.lazy import torch
from warpbench.torch_compile import compiled

from .. import warpwatch_benchmark
from ..compiled.watched_kernels import Watched
from ..language_models import LLAMA_3_8B
from ..warpwatch_operators import triton_operator, warpwatch_operator
from .paged_kv_append import assigned, draw_pages, paged_kv_append
from .paged_kv_append import case as paged_kv_append_case
from .paged_kv_append import cost as paged_kv_append_cost
from .rope import BASE, angles, bound, rope, rope_computed, turned, turned_by_position

if TYPE_CHECKING:
    from warpbench.draw import Draw

# Rounding the new keys to fp16 costs about 2.8e-4 (bf16: eight times that). All else is copied.
_TOLERANCE = {"fp16": 1e-3, "bf16": 8e-3, "fp32": 1e-6}


def cost(
    *, batch: int, heads: int, tokens: int, head_dim: int, element_bytes: int, table_entries: int, computed: bool
) -> Cost:
    """As paged_kv_append, and three FLOPs an element of the keys; a row of cos and of sin a token, unless computed."""
    append = paged_kv_append_cost(
        batch=batch,
        heads=heads,
        tokens=tokens,
        head_dim=head_dim,
        element_bytes=element_bytes,
        table_entries=table_entries,
    )
    tables = 0 if computed else 2 * tokens * (head_dim // 2) * ELEMENT_BYTES["fp32"]
    return Cost(flops=3 * batch * heads * tokens * head_dim, bytes=append.bytes + tables)


def case(
    device: str,
    dtype: str,
    *,
    batch: int = 1,
    heads: int = LLAMA_3_8B.heads_kv,
    tokens: int,
    capacity: int,
    head_dim: int = 128,
    page_size: int = 64,
    interleaved: bool = False,
    computed: bool = False,  # angles from positions, and not from tables
) -> Case:
    """All sequences at one position where angles come from tables, each at its own where they are computed.

    Raises ValueError as paged_kv_append's does, and for an odd head_dim.
    """
    if head_dim % 2:
        raise ValueError(f"head_dim ({head_dim}) must be even, for its elements turn in pairs")
    sizes: dict[str, Any] = {"batch": batch, "heads": heads, "tokens": tokens, "head_dim": head_dim}
    unrotated = paged_kv_append_case(device, dtype, **sizes, capacity=capacity, page_size=page_size)
    table_entries = batch * (capacity // page_size)
    work = cost(**sizes, element_bytes=ELEMENT_BYTES[dtype], table_entries=table_entries, computed=computed)
    # Set only where True: the other cases are older than this parameter, and their recorded series lack it.
    computed_angles: dict[str, Any] = {"computed": True} if computed else {}
    return Case(
        unrotated.name + ("-interleaved" if interleaved else "") + ("-computed" if computed else ""),
        device=device,
        dtype=dtype,
        tolerance=_TOLERANCE[dtype],
        bytes=work.bytes,
        flops=work.flops,
        interleaved=interleaved,
        **unrotated.shape,
        **computed_angles,
    )


class RopePagedKvAppend(warpwatch_benchmark.WarpwatchBenchmark):
    """paged_kv_append of keys rotated as by rope, in place.

    Inputs as those of the two: cos, sin (capacity, head_dim / 2) fp32 are tables of all positions; where angles are
    computed instead, positions (batch) int64 are those of each sequence's first new row.
    """

    watched = Watched(
        kernels=("rope_paged_kv_append_kernel", "rope_paged_kv_append_small"),
        twins=("_rope_paged_kv_append",),
        sources=("rope_paged_kv_append/rope_paged_kv_append.cu",),
    )
    case = staticmethod(case)
    cases = (
        case("cuda", "fp16", batch=16, tokens=2048, capacity=3072),  # 268 MB: the end of a prefill
        case("cuda", "fp16", batch=16, tokens=2048, capacity=3072, computed=True),
        case("cuda", "bf16", batch=1, tokens=2048, capacity=4096, interleaved=True),
        case("cuda", "fp16", batch=64, tokens=1, capacity=256, computed=True),  # a decode step of 64 sequences
        case("cuda", "fp16", batch=1, tokens=1, capacity=4096),
        case("cpu", "fp32", batch=2, tokens=64, capacity=128, page_size=16),
    )
    smallest = {"heads": 1, "tokens": 1, "capacity": 16, "page_size": 16}
    writes = ("pages",)

    def inputs(self, case: Case, draw: Draw) -> Mapping[str, Any]:
        """paged_kv_append's; where there are tables, all sequences are as long as the first."""
        rows = draw_pages(case, draw)
        computed = case.shape.get("computed")
        if not computed:
            rows["lengths"] = draw.constant(rows["lengths"][:1].expand(case.batch).contiguous())
        table = angles(torch.arange(case.capacity, device=draw.device), case.head_dim)
        return {
            **rows,
            "cos": draw.constant(table.cos().float()),
            "sin": draw.constant(table.sin().float()),
            "positions": draw.constant(rows["lengths"].long() - case.tokens) if computed else None,
            "interleaved": case.interleaved,
        }

    def reference(
        self,
        pages: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        block_table: torch.Tensor,
        lengths: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        positions: torch.Tensor | None,
        interleaved: bool,
    ) -> torch.Tensor:
        """paged_kv_append of what rope or rope_computed makes of k, in float64."""
        if positions is None:
            new = _new_rows(k, lengths)
            rotated = rope(k, cos[new], sin[new], interleaved)
        else:
            rotated = rope_computed(k, positions, BASE, interleaved)
        return paged_kv_append(pages, rotated, v, block_table, lengths)

    @kernel(binds=True)
    def warpwatch(self, **inputs: Any) -> Callable[[], None]:
        """The CUDA C++ or CPU kernel of the commit: one launch."""
        return _fused(warpwatch_operator(_name(inputs)), **inputs)

    @kernel(binds=True, devices=["cuda"])
    def triton(self, **inputs: Any) -> Callable[[], None]:
        """Its Triton twin."""
        return _fused(triton_operator("rope_paged_kv_append", _name(inputs)), **inputs)

    @kernel(binds=True)
    def unfused(self, **inputs: Any) -> Callable[[], None]:
        """The commit's rope and then its paged_kv_append: two launches, positions and tables' rows ready."""
        rotate = warpwatch_operator("rope" if inputs["positions"] is None else "rope_computed")
        return _rotated_first(rotate, warpwatch_operator("paged_kv_append"), **inputs)

    @baseline(binds=True)
    def eager(self, **inputs: Any) -> Callable[[], None]:
        """The formula and an indexed assignment in plain PyTorch."""
        return _rotated_first(turned if inputs["positions"] is None else turned_by_position, assigned, **inputs)

    @baseline(binds=True, devices=["cuda"])
    def torch_compile(self, **inputs: Any) -> Callable[[], None]:
        """The same through torch.compile, as one function."""
        step: Callable[..., torch.Tensor] = _assigned_by_table if inputs["positions"] is None else _assigned_by_position
        return _compiled_step(compiled(step, inputs["pages"], inputs["k"]), **inputs)


def _name(inputs: Mapping[str, Any]) -> str:
    return "rope_paged_kv_append" if inputs["positions"] is None else "rope_computed_paged_kv_append"


def _new_rows(k: torch.Tensor, lengths: torch.Tensor) -> slice:
    """The tables' rows of the new keys, where all sequences are of one length."""
    length = int(lengths[0])
    return slice(length - k.shape[2], length)


def _fused(
    append: Callable[..., object],
    pages: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    **rows: torch.Tensor,
) -> Callable[[], None]:
    arguments = (rows["k"], rows["v"], *pages, rows["block_table"], rows["lengths"])

    def run() -> None:
        if positions is None:
            append(*arguments, cos, sin, interleaved=interleaved)
        else:
            append(*arguments, base=BASE, interleaved=interleaved)

    return run


def _rotated_first(
    rotate: Callable[..., torch.Tensor],
    append: Callable[..., object],
    pages: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    **rows: torch.Tensor,
) -> Callable[[], None]:
    arguments = (rows["v"], *pages, rows["block_table"], rows["lengths"])
    new = _new_rows(k, rows["lengths"])
    rotated = bound(rotate, positions, k, cos[new], sin[new], interleaved)

    def run() -> None:
        append(rotated(), *arguments)

    return run


def _compiled_step(
    step: Callable[..., torch.Tensor],
    pages: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None,
    interleaved: bool,
    **rows: torch.Tensor,
) -> Callable[[], None]:
    arguments = (rows["k"], rows["v"], *pages, rows["block_table"], rows["lengths"])
    new = _new_rows(rows["k"], rows["lengths"])
    turn = (cos[new], sin[new]) if positions is None else (positions, BASE)

    def run() -> None:
        step(*arguments, *turn, interleaved)

    return run


def _assigned_by_table(
    k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, *rest: Any
) -> torch.Tensor:
    block_table, lengths, cos, sin, interleaved = rest
    return assigned(turned(k, cos, sin, interleaved), v, k_pages, v_pages, block_table, lengths)


def _assigned_by_position(
    k: torch.Tensor, v: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, *rest: Any
) -> torch.Tensor:
    block_table, lengths, positions, base, interleaved = rest
    return assigned(turned_by_position(k, positions, base, interleaved), v, k_pages, v_pages, block_table, lengths)
